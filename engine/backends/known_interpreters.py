"""What is known of the interpreters that deployments name, and the backends built on it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.api.schema import Interpreter
from engine.backends import interpreters
from engine.backends.plan import Backend
from engine.backends.simulated import SimulatedBackend
from engine.backends.vllm import VllmBackend
from engine.errors import SpecError
from engine.model import DeploymentSpec, ReplicaSpec


class KnownInterpreters:
    """Asked once each, since a probe takes a tenth of a second; the default one is searched once."""

    def __init__(self, environment: Mapping[str, str], own_python: str, source_root: str) -> None:
        self._environment = environment
        self._found: dict[str | None, Interpreter | None] = {}
        self._backends: dict[str, Backend] = {
            "vllm": VllmBackend(self._found.get, environment),
            "simulated": SimulatedBackend(own_python, source_root, environment),
        }

    async def learn(self, deployments: Sequence[DeploymentSpec]) -> None:
        """Probe the interpreters of these deployments.

        Raises:
            SpecError: one that a deployment names has no vLLM, and why.
        """
        names = {spec.python for spec in deployments if spec.backend == "vllm"} - self._found.keys()
        # A default that is not there yet is looked for again: it may be installed while the node runs.
        if None in names and (found := await interpreters.find(self._environment)):
            self._found[None] = found[0]
        named = sorted(name for name in names if name is not None)
        answers = await asyncio.gather(*(interpreters.probe(Path(name), self._environment) for name in named))
        for name, answer in zip(named, answers, strict=True):
            if not isinstance(answer, Interpreter):
                who = next(spec.name for spec in deployments if spec.python == name)
                raise SpecError(
                    f"engine {who}: python {name}: {answer.reason}",
                    "name an interpreter that has vLLM; `cockpit doctor` lists them",
                )
            self._found[name] = answer

    def is_cpu_build(self, spec: DeploymentSpec) -> bool:
        """Whether its engines run without GPUs."""
        if spec.backend == "simulated":
            return False
        found = self._found.get(spec.python)
        return found is not None and found.cpu_build

    def backend(self, replica: ReplicaSpec) -> Backend:
        """What launches this replica."""
        return self._backends[replica.deployment.backend]
