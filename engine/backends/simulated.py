"""Engines that only imitate: `python -m engine.simulator`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from engine.backends.environment import engine_environment
from engine.backends.plan import LaunchPlan
from engine.errors import SpecError
from engine.model import Endpoint, ReplicaSpec, SimulatedEngine


class SimulatedBackend:
    """Builds the command of a simulated engine, run by the cockpit's own interpreter."""

    def __init__(self, python: str, source_root: str, inherited: Mapping[str, str]) -> None:
        self._python = python
        self._source_root = source_root
        """Folder that holds our `engine` package, whatever the current folder has."""
        self._inherited = inherited

    def check(self, replica: ReplicaSpec) -> None:
        """Refuse what only a real engine understands.

        Raises:
            SpecError: `args` are vLLM's.
        """
        if replica.deployment.args:
            raise SpecError(
                f"engine {replica.deployment.name}.args are vLLM's; a simulated engine has none",
                "use the `simulated` table",
            )

    def plan(self, replica: ReplicaSpec, endpoint: Endpoint, api_key: str) -> LaunchPlan:
        """The command for one launch."""
        deployment = replica.deployment
        timing = deployment.simulated or SimulatedEngine()
        where = (
            ["--uds", endpoint.uds]
            if endpoint.uds
            else [f"--host={endpoint.host}", f"--port={endpoint.port}"]
        )
        env = engine_environment(self._inherited, self._python, deployment.env, api_key)
        env["PYTHONPATH"] = self._source_root
        return LaunchPlan(
            argv=(
                self._python,
                "-P",  # without the current folder on the path
                "-m",
                "engine.simulator",
                *where,
                f"--model={deployment.model}",
                f"--served-model-name={deployment.name}",
                f"--timing={msgspec.json.encode(timing).decode()}",
            ),
            env=env,
            endpoint=endpoint,
            served_name=deployment.name,
            model_name=deployment.model,
        )
