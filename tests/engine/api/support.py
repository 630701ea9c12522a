"""A node and its memory in the test's hand, served on a real socket."""

from __future__ import annotations

import asyncio
import io
import json
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from engine.api import schema
from engine.api.server import ApiServer
from engine.errors import StateError, UnknownTargetError
from engine.events import Actor, Event
from engine.model import Frame, GatewayView, HostView, NodeView

NODE = NodeView(name="n", pid=1, version="0", uptime_s=1.0, state_dir="/s")


def event(number: int) -> Event:
    """An event with an id."""
    return Event(at_s=float(number), kind="test.event", target="a/0", message=f"event {number}", id=number)


def frame(at_s: float) -> Frame:
    """A frame of an empty machine."""
    return Frame(
        at_s=at_s,
        node=NODE,
        simulated=True,
        gpus=(),
        engines=(),
        gateway=GatewayView(listen=None),
        host=HostView(),
    )


class FakeControl:
    """Satisfies `Control`; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.by: list[Actor] = []
        self.error: Exception | None = None
        self.gate: asyncio.Event | None = None
        """An action waits for it half-way."""
        self.halves: list[str] = []
        self.lines: asyncio.Queue[schema.StreamLine | Exception | None] = asyncio.Queue()
        self.streams_open = 0

    def status(self) -> schema.StatusReply:
        self._may_fail()
        return schema.StatusReply(
            api_version=1,
            node=NODE,
            simulated=True,
            gpus=(),
            engines=(),
            gateway=GatewayView(listen=None),
            host=HostView(),
        )

    async def stream(self, after_event: int | None) -> AsyncGenerator[schema.StreamLine, None]:
        self.asked.append(after_event)
        self.streams_open += 1
        try:
            while (line := await self.lines.get()) is not None:
                if isinstance(line, Exception):
                    raise line
                yield line
        finally:
            self.streams_open -= 1

    async def events(self, limit: int, before: int | None, target: str | None) -> tuple[Event, ...]:
        self.asked.append((limit, before, target))
        return (event(2), event(1))

    async def launches(self, engine: str | None, limit: int) -> tuple[schema.Launch, ...]:
        self.asked.append((engine, limit))
        return ()

    async def log(self, engine: str, launch: int | None, offset: int, limit: int) -> schema.LogChunk:
        self.asked.append((engine, launch, offset, limit))
        return schema.LogChunk(launch_id=1, offset=0, next_offset=1, size_bytes=1, text="x", ended=True)

    async def act(self, action: schema.EngineAction, by: Actor) -> schema.ActionReply:
        return await self._operate(action, by)

    async def launch(self, request: schema.LaunchRequest, by: Actor) -> schema.ActionReply:
        return await self._operate(request, by)

    async def remove(self, deployment: str, by: Actor) -> schema.ActionReply:
        return await self._operate(deployment, by)

    async def launch_options(self) -> schema.LaunchOptions:
        self._may_fail()
        return schema.LaunchOptions(interpreters=(), gpus=(), simulated=True)

    async def shutdown(self, request: schema.ShutdownRequest, by: Actor) -> None:
        await self._operate(request, by)

    async def _operate(self, asked: Any, by: Actor) -> schema.ActionReply:
        self._may_fail()
        self.asked.append(asked)
        self.by.append(by)
        self.halves.append("first")
        if self.gate is not None:
            await self.gate.wait()
        self.halves.append("second")
        return schema.ActionReply(event=event(1), durable=True, engines=("a/0",))

    def _may_fail(self) -> None:
        if self.error is not None:
            raise self.error


class FakeMemory:
    """Satisfies `Memory` with one conversation, number 1."""

    def __init__(self) -> None:
        self.talk = schema.Conversation(1, "t", "m", "", 0.7, 512, 1.0, 1.0)
        self.settings: dict[str, str] = {}
        self.removed: list[tuple[int, int]] = []

    async def conversations(self) -> tuple[schema.Conversation, ...]:
        return (self.talk,)

    async def conversation(self, conversation_id: int) -> schema.Conversation:
        if conversation_id != 1:
            raise UnknownTargetError(f"there is no conversation {conversation_id}", "list them first")
        return self.talk

    async def create_conversation(self, draft: schema.ConversationDraft) -> schema.Conversation:
        self.talk = msgspec.structs.replace(self.talk, **msgspec.structs.asdict(draft))
        return self.talk

    async def update_conversation(
        self, conversation_id: int, draft: schema.ConversationDraft
    ) -> schema.Conversation:
        await self.conversation(conversation_id)
        return await self.create_conversation(draft)

    async def delete_conversation(self, conversation_id: int) -> None:
        await self.conversation(conversation_id)

    async def add_message(self, conversation_id: int, draft: schema.MessageDraft) -> schema.Message:
        await self.conversation(conversation_id)
        return schema.Message(id=1, role=draft.role, content=draft.content, at_s=1.0)

    async def delete_messages_from(self, conversation_id: int, message_id: int) -> None:
        self.removed.append((conversation_id, message_id))

    async def setting(self, key: str) -> str | None:
        return self.settings.get(key)

    async def set_setting(self, key: str, value: str | None) -> None:
        if value is None:
            raise StateError("not now")
        self.settings[key] = value


class Served:
    """A server on a socket, and a client of it."""

    def __init__(self, server: ApiServer, control: FakeControl, memory: FakeMemory, path: Path) -> None:
        self.server, self.control, self.memory, self.path = server, control, memory, path
        self.session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(path=str(path)))

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """Status and JSON; `body` is sent as it is when it is bytes."""
        data = (
            None
            if body is None
            else io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        )
        async with self.session.request(method, f"http://node{path}", data=data) as response:
            assert response.headers[schema.VERSION_HEADER] == str(schema.API_VERSION)
            found = await response.json()
            assert isinstance(found, dict)
            return response.status, found


@asynccontextmanager
async def serve(group: str | None = None) -> AsyncIterator[Served]:
    """Serve in a short folder of its own."""
    with tempfile.TemporaryDirectory(prefix="ck-") as folder:
        control, memory = FakeControl(), FakeMemory()
        server = ApiServer(control, memory, lambda app: None)
        path = Path(folder) / "run" / "api.sock"
        try:
            await server.listen(path, group)
            served = Served(server, control, memory, path)
            try:
                yield served
            finally:
                await served.session.close()
        finally:
            await server.close()
