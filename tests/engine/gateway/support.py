"""A fleet of scripted engines behind one gateway."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import ClientSession, web

from engine.gateway.limits import GatewayLimits
from engine.gateway.server import Gateway
from engine.model import Endpoint
from engine.routing.replicas import Replica

Script = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HeldClock:
    """Time that moves when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def epoch(self) -> float:
        return 1_700_000_000.0 + self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def replica(name: str = "qwen/0", uds: str | None = None, **changes: Any) -> Replica:
    deployment = name.partition("/")[0]
    fields: dict[str, Any] = {
        "name": name,
        "deployment": deployment,
        "model": f"org/{deployment}",
        "served_name": deployment,
        "endpoint": Endpoint(uds=uds or "/nowhere/e.sock"),
        "api_key": f"key of {name}",
        "accepts": True,
        "state": "ready",
        "generation": 1,
    }
    return Replica(**{**fields, **changes})


class ScriptedEngine:
    """An engine over a Unix socket that does what `script` says, and remembers what it got."""

    def __init__(self, uds: Path, script: Script) -> None:
        self.uds = str(uds)
        self.script = script
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.aborted = 0
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application(client_max_size=2**27)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.UnixSite(self._runner, self.uds).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        try:
            self.bodies.append(await request.read())
            return await self.script(request)
        except (asyncio.CancelledError, ConnectionError):
            self.aborted += 1
            raise


class Stand:
    """A gateway on loopback TCP, the engines behind it, and a client."""

    def __init__(self, folder: Path, limits: GatewayLimits | None = None) -> None:
        self.folder = folder
        self.clock = HeldClock()
        self.replicas: tuple[Replica, ...] = ()
        self.gateway = Gateway(lambda: self.replicas, self.clock, limits)
        self.engines: dict[str, ScriptedEngine] = {}
        self.address = ""
        self.client: ClientSession

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    async def engine(self, name: str, script: Script, **changes: Any) -> ScriptedEngine:
        """Start an engine and list it as a ready replica."""
        engine = ScriptedEngine(self.folder / f"{len(self.engines)}.sock", script)
        await engine.start()
        self.engines[name] = engine
        self.replicas = (*self.replicas, replica(name, engine.uds, **changes))
        return engine

    def change(self, name: str, **changes: Any) -> None:
        """Publish a new snapshot in which one replica differs."""
        self.replicas = tuple(
            msgspec.structs.replace(one, **changes) if one.name == name else one for one in self.replicas
        )

    async def chat(self, **fields: Any) -> tuple[int, dict[str, Any]]:
        """Ask and read the whole answer."""
        body = io.BytesIO(msgspec.json.encode({"model": "qwen", "messages": [], **fields}))
        async with self.client.post(
            f"{self.url}/v1/chat/completions", data=body, headers={"Content-Type": "application/json"}
        ) as answer:
            return answer.status, await answer.json()


@asynccontextmanager
async def stand(folder: Path, limits: GatewayLimits | None = None) -> AsyncIterator[Stand]:
    """A stand that is up for the block."""
    built = Stand(folder, limits)
    built.address = await built.gateway.listen("127.0.0.1", 0)
    async with ClientSession() as built.client:
        try:
            yield built
        finally:
            await built.client.close()
            await built.gateway.close(deadline_s=0.2)
            for engine in built.engines.values():
                await engine.stop()


async def says_hello(request: web.Request) -> web.StreamResponse:
    """A short whole answer that repeats the model it was asked for."""
    asked = msgspec.json.decode(await request.read())
    return web.json_response({"model": asked["model"], "choices": [{"message": {"content": "hello"}}]})


def streams(*chunks: bytes, gate: asyncio.Event | None = None, then: str = "done") -> Script:
    """An event stream: the first chunk, then the others once `gate` is set.

    `then`: `done` ends it well, `break` cuts the connection, `hang` never ends.
    """

    async def script(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for number, chunk in enumerate(chunks):
            if number == 1 and gate is not None:
                await gate.wait()
            await response.write(chunk)
        if then == "hang":
            await asyncio.Event().wait()
        if then == "break":
            assert request.transport is not None
            request.transport.abort()
            return response
        await response.write_eof()
        return response

    return script
