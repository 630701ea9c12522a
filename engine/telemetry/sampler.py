"""Once a second, everything at one moment: the owner of frames.

Sources are read concurrently, each in a task of its own. One that does not answer in time is not waited
for: the frame goes out with its last value, whose own `at_s` shows the age, and its read goes on.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Mapping

from msgspec.structs import replace

from engine.model import Endpoint, EngineView, Frame, GatewayView, GpuReading, HostView, NodeView
from engine.ports import Clock, GpuSource
from engine.telemetry.engine_metrics import EngineScrapers
from engine.telemetry.host import HostReader

_log = logging.getLogger(__name__)

_INTERVAL_S = 1.0
_PATIENCE_S = 0.5
"""How long a frame waits for its sources: half the interval, so that frames keep their pace."""
_STALE_AFTER_S = 10.0
"""Older readings no longer say what an engine does now; they stay in `EngineView.reading` alone."""
_SCRAPES_AT_ONCE = 16
"""Engines on one machine are few; the bound keeps a burst of timeouts from piling up sockets."""


class Sampler:
    """Gathers GPUs, engines, host, gateway and node into a `Frame` per interval and publishes it.

    `run` is the only task that changes its state; `latest` may be called from the same loop at any time.
    """

    def __init__(
        self,
        *,
        gpus: GpuSource,
        engines: Callable[[], tuple[EngineView, ...]],
        endpoints: Callable[[], Mapping[str, tuple[Endpoint, int]]],
        gateway: Callable[[], GatewayView],
        node: Callable[[], NodeView],
        clock: Clock,
        publish: Callable[[Frame], None],
        host: Callable[[], HostView] | None = None,
        interval_s: float = _INTERVAL_S,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        """
        Args:
            engines: every engine with its state; what metrics say is filled in here.
            endpoints: live engines only: where they listen, and a number that changes with the process.
            publish: gets each frame, on the loop; must not block.
            host: how to read the host; default psutil.
        """
        self._gpus = gpus
        self._engines = engines
        self._endpoints = endpoints
        self._gateway = gateway
        self._node = node
        self._clock = clock
        self._publish = publish
        self._host = host if host is not None else HostReader().read
        self._interval_s = interval_s
        self._patience_s = patience_s
        self._scrapers = EngineScrapers(clock)
        self._slots = asyncio.Semaphore(_SCRAPES_AT_ONCE)
        self._reads: dict[str, asyncio.Task[None]] = {}
        self._failing: set[str] = set()
        self._gpu_readings: tuple[GpuReading, ...] = ()
        self._latest: Frame | None = None

    def latest(self) -> Frame | None:
        """The newest frame, or None before the first."""
        return self._latest

    async def run(self) -> None:
        """Publish frames until cancelled. A tick that is late is not made up for."""
        try:
            async with asyncio.TaskGroup() as group:
                due_s = self._clock.monotonic()
                while True:
                    await self._tick(group)
                    missed = math.floor((self._clock.monotonic() - due_s) / self._interval_s)
                    due_s += (missed + 1) * self._interval_s
                    await self._clock.sleep(due_s - self._clock.monotonic())
        finally:
            self._reads.clear()
            await self._scrapers.close()

    async def _tick(self, group: asyncio.TaskGroup) -> None:
        live = self._endpoints()
        await self._scrapers.retain(live)
        started = [self._start(group, "gpus", self._read_gpus())]
        for name, (endpoint, generation) in live.items():
            source = f"engine {name} {generation}"
            started.append(self._start(group, source, self._scrape(name, endpoint, generation)))
        await self._wait(group, {read for read in started if read is not None})
        frame = self._frame(live)
        self._latest = frame
        self._publish(frame)

    def _start(
        self, group: asyncio.TaskGroup, source: str, read: Coroutine[None, None, None]
    ) -> asyncio.Task[None] | None:
        """Begin to read a source; None where the read before goes on still."""
        if source in self._reads:
            read.close()
            return None
        self._reads[source] = task = group.create_task(self._guarded(source, read), name=f"read {source}")
        task.add_done_callback(lambda _: self._reads.pop(source, None))
        return task

    async def _guarded(self, source: str, read: Coroutine[None, None, None]) -> None:
        """A reading that breaks costs its own values, not the frame; it is logged when it begins to."""
        try:
            await read
        except Exception:
            if source not in self._failing:
                _log.exception("reading %s failed; its values stay as they were", source)
            self._failing.add(source)
        else:
            self._failing.discard(source)

    async def _wait(self, group: asyncio.TaskGroup, reads: set[asyncio.Task[None]]) -> None:
        """Until these reads are done, or patience ends."""
        patience = group.create_task(self._clock.sleep(self._patience_s), name="patience")
        try:
            while reads and not patience.done():
                done, _ = await asyncio.wait({patience, *reads}, return_when=asyncio.FIRST_COMPLETED)
                reads -= done
        finally:
            patience.cancel()

    async def _read_gpus(self) -> None:
        self._gpu_readings = await self._gpus.read()

    async def _scrape(self, name: str, endpoint: Endpoint, generation: int) -> None:
        async with self._slots:
            scraper = await self._scrapers.scraper(name, endpoint, generation)
            await scraper.scrape()

    def _frame(self, live: Mapping[str, tuple[Endpoint, int]]) -> Frame:
        at_s = self._clock.epoch()
        engines = tuple(self._with_reading(engine, live, at_s) for engine in self._engines())
        node = self._node()
        return Frame(
            at_s=at_s,
            node=replace(node, gpu_problem=node.gpu_problem or self._gpus.problem()),
            simulated=self._gpus.simulated or any(engine.simulated for engine in engines),
            gpus=self._gpu_readings,
            engines=engines,
            gateway=self._gateway(),
            host=self._host(),
        )

    def _with_reading(
        self, engine: EngineView, live: Mapping[str, tuple[Endpoint, int]], at_s: float
    ) -> EngineView:
        """The engine with what its metrics say; nothing of it for an engine that is not live."""
        place = live.get(engine.name)
        reading = self._scrapers.last(engine.name, place[1]) if place is not None else None
        now = reading if reading is not None and at_s - reading.at_s < _STALE_AFTER_S else None
        return replace(
            engine,
            reading=reading,
            running=now.running if now is not None else None,
            waiting=now.waiting if now is not None else None,
            kv_used_ratio=now.kv_used_ratio if now is not None else None,
        )
