from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model import EngineReading, EngineState, EngineView, GpuReading
from engine.simulator.gpus import CONTEXT_BYTES, SimulatedGpus
from engine.simulator.hardware import H100X8, L40SX2
from engine.simulator.profiles import PROFILES
from engine.simulator.thermal import activity, advance, all_reduce_bytes_per_s, resting
from tests.support.fake_clock import FakeClock

PROFILE = PROFILES["h100x8"]


def _view(
    name: str, gpus: list[int], *, running: int | None = None, tokens_per_s: float | None = None
) -> EngineView:
    reading = EngineReading(0.0, generation_tokens_per_s=tokens_per_s, prompt_tokens_per_s=0.0)
    return EngineView(
        name=name,
        deployment=name.partition("/")[0],
        state=EngineState.READY,
        backend="simulated",
        simulated=True,
        model="any",
        pid=4_242,
        gpu_uuids=tuple(H100X8[index].uuid for index in gpus),
        running=running,
        reading=None if tokens_per_s is None else reading,
    )


class _Machine:
    """The GPUs under a set of engines that a test changes."""

    def __init__(self) -> None:
        self.engines: tuple[EngineView, ...] = ()
        self.clock = FakeClock()
        self.gpus = SimulatedGpus(PROFILE.gpus, lambda: self.engines, lambda: PROFILE.deployments, self.clock)

    async def read(self, after_s: float) -> tuple[GpuReading, ...]:
        await self.clock.advance(after_s)
        return await self.gpus.read()


@given(st.floats(0, 1), st.lists(st.floats(0.01, 30), min_size=1, max_size=20))
def test_the_path_does_not_depend_on_how_often_it_is_read(load: float, pauses_s: list[float]) -> None:
    often = resting(70.0, 700.0)
    for pause_s in pauses_s:
        often = advance(often, load, pause_s, 70.0, 700.0)
    once = advance(resting(70.0, 700.0), load, sum(pauses_s), 70.0, 700.0)
    assert often.power_w == pytest.approx(once.power_w)
    assert often.temperature_c == pytest.approx(once.temperature_c)
    assert 70.0 <= often.power_w <= 700.0
    assert 30.0 <= often.temperature_c <= 78.0


@given(st.integers(0, 200), st.integers(1, 128))
def test_activity_stays_a_ratio_and_grows_with_the_batch(running: int, window: int) -> None:
    assert 0.0 <= activity(running, window) <= activity(running + 1, window) <= 1.0
    assert (activity(running, window) == 0.0) == (running == 0)


def test_only_replicas_of_several_gpus_use_nvlink() -> None:
    assert all_reduce_bytes_per_s(100.0, 1) == 0.0
    assert all_reduce_bytes_per_s(100.0, 2) == pytest.approx(100 * 393_216)
    assert all_reduce_bytes_per_s(100.0, 4) == pytest.approx(100 * 393_216 * 1.5)


async def test_memory_is_held_while_the_process_lives() -> None:
    machine = _Machine()
    assert [gpu.memory_used_bytes for gpu in await machine.read(1.0)] == [0] * 8
    machine.engines = (_view("moe/0", [4, 5]), _view("tiny/0", [7]))
    used = [gpu.memory_used_bytes for gpu in await machine.read(1.0)]
    moe, tiny = (spec.simulated for spec in PROFILE.deployments if spec.name in ("moe", "tiny"))
    assert moe is not None
    assert tiny is not None
    half = (moe.weights_bytes + moe.kv_bytes) // 2 + CONTEXT_BYTES
    assert used == [0, 0, 0, 0, half, half, 0, tiny.weights_bytes + tiny.kv_bytes + CONTEXT_BYTES]


async def test_temperature_lags_behind_power() -> None:
    machine = _Machine()
    machine.engines = (_view("qwen/0", [0], running=64),)
    cold = (await machine.read(0.0))[0]
    soon, late = (await machine.read(3.0))[0], (await machine.read(300.0))[0]
    assert cold.power_w == pytest.approx(72.0)
    assert soon.power_w is not None
    assert soon.power_w > 650.0
    assert soon.temperature_c is not None
    assert soon.temperature_c < 45.0
    assert late.temperature_c == pytest.approx(78.0, abs=0.1)
    assert late.utilisation_ratio == pytest.approx(1.0)
    machine.engines = ()
    rested = (await machine.read(300.0))[0]
    assert rested.utilisation_ratio == pytest.approx(0.0, abs=1e-6)
    assert rested.power_w == pytest.approx(72.0)


async def test_idle_neighbours_stay_idle() -> None:
    machine = _Machine()
    machine.engines = (_view("qwen/1", [1], running=8),)
    readings = await machine.read(10.0)
    assert [bool(gpu.utilisation_ratio) for gpu in readings] == [index == 1 for index in range(8)]


async def test_traffic_follows_tokens_and_is_unknown_while_they_are() -> None:
    machine = _Machine()
    machine.engines = (_view("moe/0", [4, 5], running=2, tokens_per_s=50.0), _view("qwen/0", [0], running=1))
    readings = await machine.read(1.0)
    assert readings[4].nvlink_tx_bytes_per_s == pytest.approx(50 * 393_216)
    assert readings[5].nvlink_rx_bytes_per_s == readings[4].nvlink_tx_bytes_per_s
    assert readings[0].nvlink_tx_bytes_per_s is None
    assert readings[0].pcie_tx_bytes_per_s is None
    assert readings[7].nvlink_tx_bytes_per_s == 0.0


async def test_everything_says_that_it_is_simulated() -> None:
    readings = await _Machine().read(0.0)
    assert SimulatedGpus.simulated
    assert all(gpu.simulated and "(simulated)" in gpu.name for gpu in readings)
    assert [gpu.numa_node for gpu in readings] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert len({gpu.uuid for gpu in readings}) == 8


async def test_unlinked_gpus_have_no_nvlink_to_read() -> None:
    gpus = SimulatedGpus(L40SX2, lambda: (), lambda: (), FakeClock())
    assert [gpu.nvlink_tx_bytes_per_s for gpu in await gpus.read()] == [None, None]
