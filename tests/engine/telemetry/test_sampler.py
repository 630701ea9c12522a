from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from engine.model import Endpoint, EngineState, EngineView, Frame, GatewayView, GpuReading, HostView, NodeView
from engine.telemetry.sampler import Sampler
from tests.engine.telemetry.metrics_server import MetricsServer
from tests.support.fake_clock import FakeClock
from tests.support.wait_until import wait_until

ENGINE = EngineView(
    name="a/0",
    deployment="a",
    state=EngineState.READY,
    backend="vllm",
    simulated=False,
    model="m",
    in_flight=3,
    running=99,
)
PAGE = (
    'vllm:num_requests_running{engine="0"} 2\n'
    'vllm:num_requests_waiting{engine="0"} 5\n'
    'vllm:kv_cache_usage_perc{engine="0"} 0.25\n'
)


class Gpus:
    """A GPU source that answers when the gate is open."""

    def __init__(self, clock: FakeClock) -> None:
        self.simulated = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.reads = 0
        self._clock = clock

    async def read(self) -> tuple[GpuReading, ...]:
        self.reads += 1
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return (GpuReading(index=0, uuid="GPU-0", name="H100", at_s=self._clock.epoch()),)

    def problem(self) -> str | None:
        return "the driver is upset"

    async def close(self) -> None:
        pass


class Bench:
    """A sampler on a fake clock with everything it reads."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.gpus = Gpus(self.clock)
        self.engines: tuple[EngineView, ...] = ()
        self.endpoints: dict[str, tuple[Endpoint, int]] = {}
        self.frames: list[Frame] = []
        self.sampler = Sampler(
            gpus=self.gpus,
            engines=lambda: self.engines,
            endpoints=lambda: self.endpoints,
            gateway=lambda: GatewayView(listen="127.0.0.1:8000", in_flight=3),
            node=lambda: NodeView(name="n", pid=1, version="0", uptime_s=0.0, state_dir="s"),
            clock=self.clock,
            publish=self.frames.append,
            host=lambda: HostView(load_1m=0.5),
        )

    async def next_frame(self, seconds: float = 1.0) -> Frame:
        """Pass time until one more frame is out."""
        known = len(self.frames)
        await self.clock.advance(seconds)
        await self.frame_after(known)
        return self.frames[-1]

    async def frame_after(self, known: int) -> None:
        await wait_until(lambda: len(self.frames) > known and self.clock.sleeping == 1)


@asynccontextmanager
async def running(bench: Bench) -> AsyncIterator[None]:
    task = asyncio.create_task(bench.sampler.run())
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_frame_holds_everything_at_one_moment(bench: Bench) -> None:
    assert bench.sampler.latest() is None
    async with running(bench):
        await bench.frame_after(0)
    frame = bench.frames[0]
    assert bench.sampler.latest() is frame
    assert frame.at_s == bench.clock.epoch()
    assert [gpu.uuid for gpu in frame.gpus] == ["GPU-0"]
    assert frame.gateway.listen == "127.0.0.1:8000"
    assert frame.host.load_1m == 0.5
    assert frame.node.gpu_problem == "the driver is upset"
    assert not frame.simulated


async def test_frames_keep_their_pace(bench: Bench) -> None:
    async with running(bench):
        await bench.frame_after(0)
        await bench.clock.advance(10.0)
    assert [frame.at_s - bench.frames[0].at_s for frame in bench.frames] == [float(i) for i in range(11)]


async def test_a_live_engine_gets_what_its_metrics_say(bench: Bench, metrics_server: MetricsServer) -> None:
    metrics_server.page = PAGE
    bench.engines = (ENGINE, replace(ENGINE, name="b/0", simulated=True, state=EngineState.STOPPED))
    bench.endpoints = {"a/0": (metrics_server.endpoint, 1)}
    async with running(bench):
        await bench.frame_after(0)
    live, stopped = bench.frames[0].engines
    assert (live.running, live.waiting, live.kv_used_ratio, live.in_flight) == (2, 5, 0.25, 3)
    assert live.reading is not None and live.reading.at_s == bench.frames[0].at_s
    assert (stopped.running, stopped.waiting, stopped.kv_used_ratio, stopped.reading) == (None,) * 4
    assert bench.frames[0].simulated, "one engine is"


async def test_an_engine_that_stops_loses_its_values(bench: Bench, metrics_server: MetricsServer) -> None:
    metrics_server.page = PAGE
    bench.engines = (ENGINE,)
    bench.endpoints = {"a/0": (metrics_server.endpoint, 1)}
    async with running(bench):
        await bench.frame_after(0)
        bench.endpoints = {}
        frame = await bench.next_frame()
    assert (frame.engines[0].running, frame.engines[0].reading) == (None, None)


async def test_a_hung_engine_delays_one_frame_by_the_patience_and_shows_its_age(
    bench: Bench, metrics_server: MetricsServer
) -> None:
    metrics_server.page = PAGE
    bench.engines = (ENGINE,)
    bench.endpoints = {"a/0": (metrics_server.endpoint, 1)}
    async with running(bench):
        await bench.frame_after(0)
        start_s = bench.frames[0].at_s
        metrics_server.gate.clear()
        await bench.clock.advance(1.0)
        await wait_until(lambda: metrics_server.asked == 2)
        assert len(bench.frames) == 1
        frame = await bench.next_frame(0.5)
        assert frame.at_s == start_s + 1.5
        assert frame.engines[0].running == 2
        assert frame.engines[0].reading is not None
        assert frame.engines[0].reading.at_s == start_s
        # Its read goes on, so the next frame waits for nothing and is on time.
        assert (await bench.next_frame(0.5)).at_s == start_s + 2.0


async def test_values_too_old_are_unknown_but_the_reading_stays(
    bench: Bench, metrics_server: MetricsServer
) -> None:
    metrics_server.page = PAGE
    bench.engines = (ENGINE,)
    bench.endpoints = {"a/0": (metrics_server.endpoint, 1)}
    async with running(bench):
        await bench.frame_after(0)
        metrics_server.status = 500
        for _ in range(9):
            frame = await bench.next_frame()
        assert frame.engines[0].running == 2
        frame = await bench.next_frame()
    assert (frame.engines[0].running, frame.engines[0].kv_used_ratio) == (None, None)
    assert frame.engines[0].reading is not None
    assert frame.engines[0].reading.at_s == bench.frames[0].at_s


async def test_a_slow_gpu_source_is_read_once_and_its_last_values_stay(bench: Bench) -> None:
    async with running(bench):
        await bench.frame_after(0)
        bench.gpus.gate.clear()
        await bench.clock.advance(3.0)
        assert bench.gpus.reads == 2
        assert [gpu.at_s for gpu in bench.frames[-1].gpus] == [bench.frames[0].at_s]
        bench.gpus.gate.set()
        frame = await bench.next_frame()
    assert frame.gpus[0].at_s > bench.frames[0].at_s


async def test_a_source_that_breaks_is_logged_once_and_frames_go_on(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(bench):
        await bench.frame_after(0)
        bench.gpus.error = RuntimeError("garbage sizes")
        with caplog.at_level(logging.ERROR, "engine.telemetry.sampler"):
            await bench.clock.advance(3.0)
    assert len(bench.frames) == 4
    assert len(caplog.records) == 1
    assert "garbage sizes" in caplog.text
    assert bench.frames[-1].gpus == bench.frames[0].gpus
