"""Simulated GPUs, driven by what the simulated engines on them do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.model import DeploymentSpec, EngineView, GpuReading, SimulatedEngine
from engine.ports import Clock
from engine.simulator.hardware import SimulatedGpu
from engine.simulator.thermal import (
    GpuState,
    activity,
    advance,
    all_reduce_bytes_per_s,
    host_bytes_per_s,
    resting,
)

CONTEXT_BYTES = 600 * 2**20
"""CUDA context and graphs of one engine process on one GPU."""


class SimulatedGpus:
    """`engine.ports.GpuSource` of a machine that is not there.

    Args:
        gpus: The machine's GPUs.
        engines: The present engines; one is on a GPU while its process lives.
        deployments: The present deployments, for the memory and the window of their engines.
        clock: Moves power and temperature between reads.
    """

    simulated = True

    def __init__(
        self,
        gpus: Sequence[SimulatedGpu],
        engines: Callable[[], tuple[EngineView, ...]],
        deployments: Callable[[], tuple[DeploymentSpec, ...]],
        clock: Clock,
    ) -> None:
        self._gpus = tuple(gpus)
        self._engines = engines
        self._deployments = deployments
        self._clock = clock
        self._states = {gpu.uuid: resting(gpu.idle_w, gpu.limit_w) for gpu in self._gpus}
        self._read_at_s = clock.monotonic()

    async def read(self) -> tuple[GpuReading, ...]:
        """All GPUs now."""
        now_s, at_s = self._clock.monotonic(), self._clock.epoch()
        dt_s, self._read_at_s = now_s - self._read_at_s, now_s
        timings = {spec.name: spec.simulated or SimulatedEngine() for spec in self._deployments()}
        alive = [engine for engine in self._engines() if engine.pid is not None and engine.simulated]
        readings = []
        for gpu in self._gpus:
            here = [
                (engine, timings.get(engine.deployment, SimulatedEngine()))
                for engine in alive
                if gpu.uuid in engine.gpu_uuids
            ]
            load = min(
                1.0, sum(activity(engine.running or 0, timing.max_num_seqs) for engine, timing in here)
            )
            state = advance(self._states[gpu.uuid], load, dt_s, gpu.idle_w, gpu.limit_w)
            self._states[gpu.uuid] = state
            readings.append(_reading(gpu, state, here, at_s))
        return tuple(readings)

    def problem(self) -> str | None:
        """Nothing can keep simulated GPUs from being read."""
        return None

    async def close(self) -> None:
        """Nothing to release."""


def _reading(
    gpu: SimulatedGpu, state: GpuState, here: list[tuple[EngineView, SimulatedEngine]], at_s: float
) -> GpuReading:
    tokens = [_tokens_per_s(engine) for engine, _ in here]
    known = [rate for rate in tokens if rate is not None]
    traffic_known = len(known) == len(tokens)
    nvlink = sum(
        all_reduce_bytes_per_s(rate, len(engine.gpu_uuids))
        for (engine, _), rate in zip(here, tokens, strict=True)
        if rate is not None
    )
    used = sum(
        (timing.weights_bytes + timing.kv_bytes) // len(engine.gpu_uuids) + CONTEXT_BYTES
        for engine, timing in here
    )
    pcie = host_bytes_per_s(sum(known))
    return GpuReading(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        at_s=at_s,
        simulated=True,
        numa_node=gpu.numa_node,
        utilisation_ratio=state.utilisation_ratio,
        memory_used_bytes=min(used, gpu.memory_total_bytes),
        memory_total_bytes=gpu.memory_total_bytes,
        temperature_c=state.temperature_c,
        power_w=state.power_w,
        power_limit_w=gpu.limit_w,
        nvlink_tx_bytes_per_s=nvlink if gpu.linked and traffic_known else None,
        nvlink_rx_bytes_per_s=nvlink if gpu.linked and traffic_known else None,
        pcie_tx_bytes_per_s=pcie if traffic_known else None,
        pcie_rx_bytes_per_s=pcie if traffic_known else None,
    )


def _tokens_per_s(engine: EngineView) -> float | None:
    """Tokens computed per second, prompt and answer; None while its metrics say nothing."""
    reading = engine.reading
    if reading is None or reading.generation_tokens_per_s is None or reading.prompt_tokens_per_s is None:
        return None
    return reading.generation_tokens_per_s + reading.prompt_tokens_per_s
