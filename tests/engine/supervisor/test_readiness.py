from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from engine.backends.plan import LaunchPlan
from engine.model import Endpoint
from engine.supervisor import readiness
from engine.supervisor.readiness import HttpProbe

KEY = "secret"


class Engine:
    """Answers as the test says."""

    def __init__(self) -> None:
        self.health = 200
        self.models: Callable[[], web.Response] = lambda: web.json_response({"data": [{"id": "qwen"}]})
        self.hanging = False
        self.keys: list[str | None] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.keys.append(request.headers.get("Authorization"))
        if self.hanging:
            await asyncio.Event().wait()
        return web.Response(status=self.health) if request.path == "/health" else self.models()


@pytest.fixture
async def engine() -> Engine:
    return Engine()


@pytest.fixture(params=["uds", "tcp"])
async def probe(request: pytest.FixtureRequest, tmp_path: Path, engine: Engine) -> AsyncIterator[HttpProbe]:
    app = web.Application()
    app.router.add_get("/health", engine.answer)
    app.router.add_get("/v1/models", engine.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    if request.param == "uds":
        endpoint = Endpoint(uds=str(tmp_path / "e.sock"))
        await web.UnixSite(runner, str(tmp_path / "e.sock")).start()
    else:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        endpoint = Endpoint(host="127.0.0.1", port=runner.addresses[0][1])
    plan = LaunchPlan(argv=(), env={}, endpoint=endpoint, served_name="qwen", model_name="acme/tiny")
    async with HttpProbe(plan, KEY) as probe:
        yield probe
    await runner.cleanup()


async def test_ready_is_health_and_the_name_that_the_gateway_asks_for(
    probe: HttpProbe, engine: Engine
) -> None:
    assert await probe.ready() is None
    assert engine.keys == [f"Bearer {KEY}"] * 2


@pytest.mark.parametrize(
    ("health", "models", "missing"),
    [
        (503, None, "/health answers 503"),
        (200, lambda: web.Response(status=401), "/v1/models answers 401"),
        (200, lambda: web.Response(text="<html>"), "/v1/models is not understood"),
        (200, lambda: web.json_response({"data": "x"}), "/v1/models is not understood"),
        (200, lambda: web.Response(body=b"\xff"), "/v1/models is not understood"),
        (200, lambda: web.json_response({"data": [{"id": "other"}]}), "/v1/models does not list qwen"),
    ],
)
async def test_what_is_missing_is_said(
    probe: HttpProbe,
    engine: Engine,
    health: int,
    models: Callable[[], web.Response] | None,
    missing: str,
) -> None:
    engine.health = health
    if models is not None:
        engine.models = models
    assert await probe.ready() == missing


async def test_an_engine_that_hangs_is_not_waited_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(readiness, "PROBE_TIMEOUT_S", 0.05)

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    path = str(tmp_path / "hang.sock")
    async with await asyncio.start_unix_server(hang, path):
        plan = LaunchPlan(argv=(), env={}, endpoint=Endpoint(uds=path), served_name="", model_name="")
        async with HttpProbe(plan, KEY) as probe:
            assert await asyncio.wait_for(probe.ready(), 5.0) == "its port does not answer yet"


async def test_nothing_there_yet_is_no_error(tmp_path: Path) -> None:
    plan = LaunchPlan(
        argv=(), env={}, endpoint=Endpoint(uds=str(tmp_path / "none")), served_name="", model_name=""
    )
    async with HttpProbe(plan, KEY) as probe:
        assert await probe.ready() == "its port does not answer yet"
