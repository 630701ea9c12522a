from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from engine.model import DeploymentSpec, SimulatedEngine
from engine.simulator.load import MAX_IN_FLIGHT, GentleLoad
from engine.telemetry.system_clock import SystemClock
from tests.support.fake_clock import FakeClock
from tests.support.wait_until import wait_until


def _deployment(name: str, load_rps: float) -> DeploymentSpec:
    return DeploymentSpec(
        name=name, model="any", backend="simulated", simulated=SimulatedEngine(load_rps=load_rps)
    )


class _Gateway:
    """Answers every chat with one word, or as told; remembers what came."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, object]] = []
        self.headers: list[str | None] = []
        self.answer = b'data: {"choices":[{"delta":{"content":"Yes"}}]}\n\ndata: [DONE]\n\n'
        self.release = asyncio.Event()
        self.release.set()
        self.open = 0

    async def chat(self, request: web.Request) -> web.Response:
        self.headers.append(request.headers.get("X-Cockpit-Load"))
        self.bodies.append(await request.json())
        self.open += 1
        try:
            await self.release.wait()
        finally:
            self.open -= 1
        return web.Response(body=self.answer, content_type="text/event-stream")


@asynccontextmanager
async def _gateway() -> AsyncIterator[tuple[_Gateway, str]]:
    gateway = _Gateway()
    application = web.Application()
    application.router.add_post("/v1/chat/completions", gateway.chat)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield gateway, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        gateway.release.set()
        await runner.cleanup()


@asynccontextmanager
async def _running(load: GentleLoad) -> AsyncIterator[None]:
    task = asyncio.create_task(load.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_each_loaded_deployment_is_asked_and_requests_are_marked() -> None:
    async with _gateway() as (gateway, url):
        load = GentleLoad(
            [_deployment("busy", 80.0), _deployment("other", 80.0), _deployment("idle", 0.0)],
            url,
            SystemClock(),
        )
        async with _running(load):
            await wait_until(lambda: load.answered >= 20)
    assert {body["model"] for body in gateway.bodies} == {"busy", "other"}
    assert set(gateway.headers) == {"simulated"}
    assert all(body["stream"] for body in gateway.bodies)
    assert load.failed == 0
    turns = max(len(messages) for body in gateway.bodies if isinstance(messages := body["messages"], list))
    assert turns > 2


@pytest.mark.parametrize(
    "answer",
    [
        b'data: {"choices":[{"delta":{"content":"Cut"}}]}\n\n',
        b'data: {"error":{"message":"engine broke"}}\n\ndata: [DONE]\n\n',
        b"data: nonsense\n\n",
    ],
)
async def test_a_broken_stream_counts_as_failed(answer: bytes) -> None:
    async with _gateway() as (gateway, url):
        gateway.answer = answer
        load = GentleLoad([_deployment("busy", 80.0)], url, SystemClock())
        async with _running(load):
            await wait_until(lambda: load.failed >= 1)
        assert load.answered == 0


async def test_a_deployment_that_accepts_nothing_is_left_alone() -> None:
    clock, ready = FakeClock(), set[str]()
    async with _gateway() as (gateway, url):
        load = GentleLoad([_deployment("busy", 10.0)], url, clock, accepts=ready.__contains__)
        async with _running(load):
            await wait_until(lambda: clock.sleeping == 1)
            await clock.advance(30.0)
            assert not gateway.bodies
            ready.add("busy")
            await clock.advance(5.0)
            await wait_until(lambda: load.answered >= 1)
        assert load.failed == 0


async def test_no_more_than_its_share_is_open_when_answers_stall() -> None:
    clock = FakeClock()
    async with _gateway() as (gateway, url):
        gateway.release.clear()
        load = GentleLoad([_deployment("busy", 10.0)], url, clock)
        async with _running(load):
            await wait_until(lambda: clock.sleeping == 1)
            await clock.advance(60.0)
            await wait_until(lambda: gateway.open == MAX_IN_FLIGHT)
            await clock.advance(60.0)
            gateway.release.set()
            await wait_until(lambda: load.answered == MAX_IN_FLIGHT)
        assert len(gateway.bodies) == MAX_IN_FLIGHT


async def test_it_asks_less_and_less_while_the_gateway_is_away(
    caplog: pytest.LogCaptureFixture, unused_tcp_port: int
) -> None:
    clock = FakeClock()
    load = GentleLoad([_deployment("busy", 5.0)], f"http://127.0.0.1:{unused_tcp_port}", clock)
    async with _running(load):
        await wait_until(lambda: clock.sleeping == 1)
        for _ in range(300):
            await clock.advance(0.2)
            await wait_until(lambda: clock.sleeping == 1)
        # Unchecked it would have asked about 300 times in this minute.
        assert 3 <= load.failed <= 40
    assert load.answered == 0
    assert not caplog.records
