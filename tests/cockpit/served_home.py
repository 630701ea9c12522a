"""A home whose node is in the test's hand, served from a thread, for commands that run their own loop."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web

from cockpit import paths
from engine.api import schema
from engine.api.server import ApiServer
from engine.events import Event
from engine.model import EngineState, EngineView, ExitCause, GatewayView
from tests.engine.api.support import FakeControl, FakeMemory

GPU_UUID = "GPU-00000000"


def engine(name: str, state: EngineState = EngineState.READY, *, crash: str | None = None) -> EngineView:
    """An engine as a status shows it."""
    return EngineView(
        name=name,
        deployment=name.partition("/")[0],
        state=state,
        backend="simulated",
        simulated=True,
        model="m/m",
        gpu_uuids=(GPU_UUID,),
        gpu_indexes=(0,),
        kv_used_ratio=0.25,
        last_exit=ExitCause(kind="crash", summary=crash, hint="look") if crash else None,
    )


class Node(FakeControl):
    """Engines, events and logs as the test sets them; later statuses come when asked again."""

    def __init__(self) -> None:
        super().__init__()
        self.statuses: list[tuple[EngineView, ...]] = [(engine("a/0"),)]
        """The last one stays."""
        self.past: tuple[Event, ...] = ()
        self.logs: dict[int, bytes] = {}
        """By launch; the newest is the present one."""
        self.durable = True
        self.answer: list[bytes] = []
        self.chat_status = 200

    def status(self) -> schema.StatusReply:
        engines = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        reply = super().status()
        return schema.StatusReply(
            reply.api_version,
            reply.node,
            reply.simulated,
            reply.gpus,
            engines,
            GatewayView(listen="127.0.0.1:8000"),
            reply.host,
        )

    async def events(self, limit: int, before: int | None, target: str | None) -> tuple[Event, ...]:
        await super().events(limit, before, target)
        return self.past

    async def launches(self, engine: str | None, limit: int) -> tuple[schema.Launch, ...]:
        return tuple(
            schema.Launch(id=number, engine="a/0", started_at_s=1.0, pid=1, session_id=1, log_path="/l")
            for number in sorted(self.logs, reverse=True)
        )

    async def log(self, engine: str, launch: int | None, offset: int, limit: int) -> schema.LogChunk:
        self._may_fail()
        number = max(self.logs) if launch is None else launch
        data = self.logs[number]
        start = max(0, len(data) + offset) if offset < 0 else min(offset, len(data))
        piece = data[start : start + min(limit, 1000)]
        return schema.LogChunk(
            launch_id=number,
            offset=start,
            next_offset=start + len(piece),
            size_bytes=len(data),
            text=piece.decode(),
            ended=number < max(self.logs),
        )

    def mount(self, app: web.Application) -> None:
        """The gateway's chat, in words of the test."""

        async def chat(request: web.Request) -> web.StreamResponse:
            self.asked.append(await request.json())
            if self.chat_status != 200:
                body = {"error": {"message": "no such model", "type": "x"}}
                return web.json_response(body, status=self.chat_status)
            response = web.StreamResponse(headers={schema.REPLICA_HEADER: "a/0"})
            await response.prepare(request)
            for piece in self.answer:
                await response.write(b"data: " + piece + b"\n\n")
            return response

        app.router.add_post("/openai/v1/chat/completions", chat)


@contextmanager
def served_home() -> Iterator[tuple[Path, Node]]:
    """A home with a node that answers; only the socket is there, no process and no lock."""
    with tempfile.TemporaryDirectory(prefix="ck-") as folder:
        node = Node()
        up, stop = threading.Event(), threading.Event()

        async def serve() -> None:
            server = ApiServer(node, FakeMemory(), node.mount)
            await server.listen(paths.find({"COCKPIT_HOME": folder}).api_socket, None)
            up.set()
            await asyncio.to_thread(stop.wait)
            await server.close()

        thread = threading.Thread(target=asyncio.run, args=(serve(),))
        thread.start()
        assert up.wait(10)
        try:
            yield Path(folder), node
        finally:
            stop.set()
            thread.join()
