"""A node for the chat, log and launch screens: keeps conversations, answers chats, has log files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec

from cockpit.chat_stream import ChatChunk
from cockpit.client import ClientError, NodeRefusedError
from engine.api import schema
from engine.events import Event
from engine.model import (
    EngineState,
    EngineView,
    Frame,
    GatewayView,
    GpuReading,
    HostView,
    NodeView,
)
from tests.support.log_file import LogFile

NOW_S = 1_700_000_000.0


class ScriptedAnswer:
    """What the next chat answers: pieces, an optional pause after them, an optional error at the end."""

    def __init__(
        self,
        pieces: Sequence[ChatChunk] = (),
        *,
        error: ClientError | None = None,
        hold: bool = False,
    ) -> None:
        self.pieces = pieces
        self.error = error
        self.cancelled = False
        """The reader went away before the end."""
        self.release = asyncio.Event()
        """Lets a held answer go on."""
        if not hold:
            self.release.set()


def answered(text: str, served_by: str = "qwen/0") -> ScriptedAnswer:
    """A whole answer in two pieces, with usage."""
    half = len(text) // 2
    return ScriptedAnswer(
        [
            ChatChunk(served_by=served_by),
            ChatChunk(text=text[:half], served_by=served_by),
            ChatChunk(text=text[half:], served_by=served_by, finish_reason="stop"),
            ChatChunk(served_by=served_by, prompt_tokens=118, completion_tokens=38, cached_tokens=96),
        ]
    )


class RoomNode:
    """`NodeApi` as far as these screens use it; everything asked of it can be looked at afterwards."""

    def __init__(self) -> None:
        self.saved: dict[int, schema.Conversation] = {}
        self.answers: list[ScriptedAnswer] = []
        """Answers of the next chats, in order."""
        self.requests: list[dict[str, object]] = []
        """What each chat asked."""
        self.storage_error: ClientError | None = None
        self.logs: dict[int, LogFile] = {}
        self.known_launches: list[schema.Launch] = []
        """Newest first."""
        self.options = schema.LaunchOptions(interpreters=(), gpus=(), simulated=False)
        self.launched: list[schema.LaunchRequest] = []
        self.launch_error: ClientError | None = None
        self._ids = iter(range(1, 10_000))

    async def status(self) -> schema.StatusReply:
        raise NotImplementedError

    def stream(self, after_event: int | None = None) -> AsyncIterator[schema.StreamLine]:
        raise NotImplementedError

    async def events(
        self, limit: int = 200, before: int | None = None, target: str | None = None
    ) -> tuple[Event, ...]:
        return ()

    async def launches(self, engine: str | None = None, limit: int = 50) -> tuple[schema.Launch, ...]:
        return tuple(one for one in self.known_launches if engine in (None, one.engine))[:limit]

    async def log(self, engine: str, launch: int | None, offset: int, limit: int = 65_536) -> schema.LogChunk:
        if launch is None or launch not in self.logs:
            raise NodeRefusedError(f"{engine} has no such launch", "choose another", status=404)
        return self.logs[launch].chunk(offset, limit)

    async def act(self, action: schema.EngineAction) -> schema.ActionReply:
        raise NotImplementedError

    async def launch(self, request: schema.LaunchRequest) -> schema.ActionReply:
        if self.launch_error is not None:
            raise self.launch_error
        self.launched.append(request)
        name = request.deployment.name
        event = Event(at_s=NOW_S, kind="action.launch", target=name, message=f"{name} launched")
        return schema.ActionReply(event=event, durable=True, engines=(f"{name}/0",))

    async def remove(self, deployment: str) -> schema.ActionReply:
        raise NotImplementedError

    async def launch_options(self) -> schema.LaunchOptions:
        return self.options

    async def conversations(self) -> tuple[schema.Conversation, ...]:
        listed = sorted(self.saved.values(), key=lambda one: -one.updated_at_s)
        return tuple(msgspec.structs.replace(one, messages=()) for one in listed)

    async def conversation(self, conversation_id: int) -> schema.Conversation:
        return self.saved[conversation_id]

    async def create_conversation(self, draft: schema.ConversationDraft) -> schema.Conversation:
        self._check_storage()
        made = schema.Conversation(
            id=next(self._ids), created_at_s=NOW_S, updated_at_s=NOW_S, **msgspec.structs.asdict(draft)
        )
        self.saved[made.id] = made
        return made

    async def update_conversation(
        self, conversation_id: int, draft: schema.ConversationDraft
    ) -> schema.Conversation:
        self._check_storage()
        changed = msgspec.structs.replace(self.saved[conversation_id], **msgspec.structs.asdict(draft))
        self.saved[conversation_id] = changed
        return changed

    async def delete_conversation(self, conversation_id: int) -> None:
        self._check_storage()
        del self.saved[conversation_id]

    async def add_message(self, conversation_id: int, draft: schema.MessageDraft) -> schema.Message:
        self._check_storage()
        message = schema.Message(id=next(self._ids), at_s=NOW_S, **msgspec.structs.asdict(draft))
        kept = self.saved[conversation_id]
        self.saved[conversation_id] = msgspec.structs.replace(kept, messages=(*kept.messages, message))
        return message

    async def delete_messages_from(self, conversation_id: int, message_id: int) -> None:
        self._check_storage()
        kept = self.saved[conversation_id]
        left = tuple(message for message in kept.messages if message.id < message_id)
        self.saved[conversation_id] = msgspec.structs.replace(kept, messages=left)

    async def setting(self, key: str) -> str | None:
        return None

    async def set_setting(self, key: str, value: str | None) -> None:
        return None

    async def shutdown(self, reason: str | None = None) -> None:
        raise NotImplementedError

    async def chat(
        self,
        model: str,
        messages: list[dict[str, str]],
        *,
        replica: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> AsyncIterator[ChatChunk]:
        self.requests.append(
            {
                "model": model,
                "messages": messages,
                "replica": replica,
                "temperature": temperature,
                "max_tokens": max_tokens,
            }
        )
        script = self.answers.pop(0)
        try:
            for piece in script.pieces:
                yield piece
            await script.release.wait()
        except (asyncio.CancelledError, GeneratorExit):
            script.cancelled = True
            raise
        if script.error is not None:
            raise script.error

    async def close(self) -> None:
        return None

    def _check_storage(self) -> None:
        if self.storage_error is not None:
            raise self.storage_error


def engine_view(
    name: str,
    state: EngineState = EngineState.READY,
    *,
    simulated: bool = False,
    gpus: tuple[int, ...] = (),
    launch_id: int | None = None,
) -> EngineView:
    """An engine of a frame."""
    return EngineView(
        name=name,
        deployment=name.partition("/")[0],
        state=state,
        backend="simulated" if simulated else "vllm",
        simulated=simulated,
        model="Qwen/Qwen3-8B",
        gpu_indexes=gpus,
        launch_id=launch_id,
    )


def frame_of(*engines: EngineView, gpus: tuple[GpuReading, ...] = ()) -> Frame:
    """A frame with these engines."""
    return Frame(
        at_s=NOW_S,
        node=NodeView(name="lab-7", pid=1, version="0", uptime_s=1.0, state_dir="/state"),
        simulated=any(engine.simulated for engine in engines),
        gpus=gpus,
        engines=engines,
        gateway=GatewayView(listen="127.0.0.1:8000"),
        host=HostView(),
    )
