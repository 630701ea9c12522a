"""The wire types of the node's API, version 1.

HTTP over the Unix socket, JSON bodies, NDJSON for streams. The structs of `engine.model` and
`engine.events` that appear here are part of the wire: `docs/api.schema.json` is generated from
this module and a test keeps the two equal, so that no change of the wire goes unseen.

| route | body | answer |
|---|---|---|
| `GET /v1/status` | | `StatusReply` |
| `GET /v1/stream?after_event=ID` | | NDJSON of `StreamLine`; ends with the node |
| `GET /v1/events?limit=N&before=ID&target=NAME` | | `EventsReply`, newest first |
| `GET /v1/launches?engine=NAME&limit=N` | | `LaunchesReply`, newest first |
| `GET /v1/logs?engine=NAME&launch=ID&offset=N&limit=N` | | `LogChunk`; negative offset counts from the end |
| `POST /v1/engines/action` | `EngineAction` | `ActionReply` |
| `POST /v1/deployments` | `LaunchRequest` | `ActionReply` |
| `DELETE /v1/deployments/NAME` | | `ActionReply` |
| `GET /v1/conversations`, `GET /v1/conversations/ID` | | `ConversationsReply`, `Conversation` |
| `POST /v1/conversations` | `ConversationDraft` | `Conversation` |
| `PATCH /v1/conversations/ID` | `ConversationDraft` | `Conversation` |
| `DELETE /v1/conversations/ID` | | `Done` |
| `POST /v1/conversations/ID/messages` | `MessageDraft` | `Message` |
| `DELETE /v1/conversations/ID/messages/MESSAGE` | | `Done`; removes it and all later ones |
| `GET /v1/settings/KEY`, `PUT /v1/settings/KEY` | `Setting` | `Setting` |
| `POST /v1/shutdown` | `ShutdownRequest` | `Done`, once no engine process is left |
| `GET /v1/launch-options` | | `LaunchOptions` |
| `* /openai/…` | | the gateway's routes; header `X-Cockpit-Replica` pins one engine |

Errors are `ApiError` with status 400 (bad input), 404 (unknown name), 409 (state), 500.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from engine.events import Event
from engine.model import (
    DeploymentSpec,
    EngineView,
    ExitCause,
    Frame,
    GatewayView,
    GpuReading,
    HostView,
    NodeView,
)

API_VERSION = 1
VERSION_HEADER = "X-Cockpit-Api"
"""Sent by both sides; a client that finds another number says so instead of guessing."""
PIN_HEADER = "X-Cockpit-Replica"
"""Names the one engine that must answer; honoured on the Unix socket only."""
REPLICA_HEADER = "X-Cockpit-Served-By"
"""Answer header: the engine that served the request."""


class ErrorBody(msgspec.Struct, frozen=True):
    message: str
    hint: str = ""
    kind: str = "error"


class ApiError(msgspec.Struct, frozen=True):
    """Every failed answer."""

    error: ErrorBody


class Done(msgspec.Struct, frozen=True):
    """Nothing more to say."""

    ok: bool = True


class StatusReply(msgspec.Struct, frozen=True):
    """`cockpit status --json`."""

    api_version: int
    node: NodeView
    simulated: bool
    gpus: tuple[GpuReading, ...]
    engines: tuple[EngineView, ...]
    gateway: GatewayView
    host: HostView


class FrameLine(msgspec.Struct, frozen=True, tag="frame", tag_field="type"):
    """A frame; a slow reader misses frames, never events."""

    frame: Frame


class EventLine(msgspec.Struct, frozen=True, tag="event", tag_field="type"):
    """An event; every one since `after_event`, in order."""

    event: Event


class HelloLine(msgspec.Struct, frozen=True, tag="hello", tag_field="type"):
    """First line of a stream."""

    api_version: int
    node: NodeView


class StoppingLine(msgspec.Struct, frozen=True, tag="stopping", tag_field="type"):
    """Last line: the node goes down by an operator's wish, so a client need not start it again."""

    by: str


StreamLine = HelloLine | FrameLine | EventLine | StoppingLine


class EventsReply(msgspec.Struct, frozen=True):
    events: tuple[Event, ...]


class Launch(msgspec.Struct, frozen=True):
    """One start of an engine."""

    id: int
    engine: str
    started_at_s: float
    pid: int
    session_id: int
    log_path: str
    log_bytes: int | None = None
    """Size of its log file; None once it is gone."""
    ready_at_s: float | None = None
    ended_at_s: float | None = None
    cause: ExitCause | None = None


class LaunchesReply(msgspec.Struct, frozen=True):
    launches: tuple[Launch, ...]


class LogChunk(msgspec.Struct, frozen=True):
    """A piece of a launch's log, cut at line ends where possible."""

    launch_id: int
    offset: int
    """Byte offset of `text` in the file."""
    next_offset: int
    size_bytes: int
    text: str
    """Decoded as UTF-8; undecodable bytes are replaced."""
    ended: bool
    """True when the launch is over and the file will not grow."""


class EngineAction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Start, stop or restart engines."""

    action: Literal["start", "stop", "restart"]
    target: str
    """Engine, deployment, or GPU (`gpu0`, UUID)."""
    reason: str | None = None
    wait: bool = False
    """Answer when it is done rather than when it is accepted."""


class LaunchRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new deployment, as from the launch form."""

    deployment: DeploymentSpec
    reason: str | None = None


class ActionReply(msgspec.Struct, frozen=True):
    """The action is recorded and under way (or done, with `wait`)."""

    event: Event
    durable: bool
    """False while the database cannot be written: the action stands, its record only in memory."""
    engines: tuple[str, ...]


class LaunchOptions(msgspec.Struct, frozen=True):
    """What a new deployment can use."""

    interpreters: tuple[Interpreter, ...]
    gpus: tuple[GpuReading, ...]
    simulated: bool


class Interpreter(msgspec.Struct, frozen=True):
    """A Python that has vLLM."""

    python: str
    vllm_version: str
    cpu_build: bool


class Message(msgspec.Struct, frozen=True):
    """One turn of a conversation."""

    id: int
    role: Literal["system", "user", "assistant"]
    content: str
    at_s: float
    served_by: str | None = None
    """Engine that answered."""
    ttft_s: float | None = None
    tokens_per_s: float | None = None
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    error: str | None = None


class MessageDraft(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Literal["system", "user", "assistant"]
    content: str
    served_by: str | None = None
    ttft_s: float | None = None
    tokens_per_s: float | None = None
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    error: str | None = None


class ConversationDraft(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    model: str
    """Deployment, or `deployment/replica` when pinned."""
    system_prompt: str = ""
    temperature: float = 0.7
    max_tokens: int = 512


class Conversation(msgspec.Struct, frozen=True):
    """A saved chat."""

    id: int
    title: str
    model: str
    system_prompt: str
    temperature: float
    max_tokens: int
    created_at_s: float
    updated_at_s: float
    messages: tuple[Message, ...] = ()
    """Empty in listings."""


class ConversationsReply(msgspec.Struct, frozen=True):
    conversations: tuple[Conversation, ...]


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A remembered choice, such as the theme."""

    value: str | None


class ShutdownRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stop the node and every engine."""

    reason: str | None = None
