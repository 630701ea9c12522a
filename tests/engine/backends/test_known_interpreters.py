"""Interpreters are asked once, and those that have no vLLM are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.api.schema import Interpreter
from engine.backends import interpreters
from engine.backends.interpreters import NoVllm
from engine.backends.known_interpreters import KnownInterpreters
from engine.errors import SpecError
from engine.model import DeploymentSpec, ReplicaSpec

CPU = Interpreter("/cpu/python", "0.32.0", True)
GPU = Interpreter("/gpu/python", "0.32.0", False)


class Machine:
    """What is installed, and who was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: tuple[Interpreter, ...] = ()
        self.asked: list[str] = []
        monkeypatch.setattr(interpreters, "find", self._find)
        monkeypatch.setattr(interpreters, "probe", self._probe)
        self.known = KnownInterpreters({}, "/own/python", "/root")

    async def _find(self, environment: object) -> tuple[Interpreter, ...]:
        self.asked.append("find")
        return self.found

    async def _probe(self, python: Path, environment: object) -> Interpreter | NoVllm:
        self.asked.append(str(python))
        known = {one.python: one for one in (CPU, GPU)}
        return known.get(str(python)) or NoVllm(str(python), "it has no vLLM")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def _spec(name: str = "a", python: str | None = None) -> DeploymentSpec:
    return DeploymentSpec(name=name, model="m/m", python=python)


async def test_each_interpreter_is_asked_once(machine: Machine) -> None:
    specs = (_spec("a", "/cpu/python"), _spec("b", "/gpu/python"), _spec("c", "/cpu/python"))
    await machine.known.learn(specs)
    await machine.known.learn(specs)
    assert machine.asked == ["/cpu/python", "/gpu/python"]
    assert [machine.known.is_cpu_build(spec) for spec in specs] == [True, False, True]


async def test_one_without_vllm_is_named_with_its_deployment_and_asked_again(machine: Machine) -> None:
    for _ in range(2):
        with pytest.raises(SpecError, match="engine b: python /none/python: it has no vLLM") as caught:
            await machine.known.learn((_spec("a", "/cpu/python"), _spec("b", "/none/python")))
        assert "doctor" in caught.value.hint
    assert machine.asked.count("/none/python") == 2


async def test_the_default_is_the_first_that_is_found_also_when_it_comes_later(machine: Machine) -> None:
    await machine.known.learn((_spec(),))
    assert not machine.known.is_cpu_build(_spec())
    machine.found = (CPU, GPU)
    await machine.known.learn((_spec(),))
    await machine.known.learn((_spec(),))
    assert machine.known.is_cpu_build(_spec())
    assert machine.asked == ["find", "find"]


async def test_simulated_engines_need_no_interpreter_but_ours(machine: Machine) -> None:
    spec = DeploymentSpec(name="s", model="m/m", backend="simulated", python="/none/python")
    await machine.known.learn((spec,))
    assert machine.asked == []
    assert not machine.known.is_cpu_build(spec)
    kinds = {
        type(machine.known.backend(ReplicaSpec("x/0", one, 0, (), ()))).__name__ for one in (spec, _spec())
    }
    assert kinds == {"SimulatedBackend", "VllmBackend"}
