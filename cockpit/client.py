"""Typed client of the node's API, for the command line and the interface.

aiohttp is imported when the first request is made: it takes 200 ms, and a screen should be up before that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar
from urllib.parse import quote

import msgspec

from engine.api import schema

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")

REQUEST_TIMEOUT_S = 15.0
"""The node answers from memory or a local file; slower than this is a fault worth showing."""


class ClientError(Exception):
    """Base of what can go wrong between client and node.

    ClientError
    ├── NodeUnreachableError    no node listens, or it went away
    └── NodeRefusedError        the node answered with an error
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NodeUnreachableError(ClientError):
    """No node listens on the socket, or it went away in the middle."""


class NodeRefusedError(ClientError):
    """The node answered with an error."""

    def __init__(self, message: str, hint: str = "", *, status: int = 500, kind: str = "error") -> None:
        super().__init__(message, hint)
        self.status = status
        self.kind = kind


class ChatChunk(msgspec.Struct, frozen=True):
    """A piece of a streamed answer."""

    text: str = ""
    reasoning: str = ""
    served_by: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


class NodeApi(Protocol):
    """What the interface needs of a node; `NodeClient` is the real one, tests have their own."""

    async def status(self) -> schema.StatusReply: ...
    def stream(self, after_event: int | None = None) -> AsyncIterator[schema.StreamLine]: ...
    async def events(
        self, limit: int = 200, before: int | None = None, target: str | None = None
    ) -> tuple[schema.Event, ...]: ...
    async def launches(self, engine: str | None = None, limit: int = 50) -> tuple[schema.Launch, ...]: ...
    async def log(self, engine: str, launch: int | None, offset: int, limit: int = 65_536) -> schema.LogChunk: ...
    async def act(self, action: schema.EngineAction) -> schema.ActionReply: ...
    async def launch(self, request: schema.LaunchRequest) -> schema.ActionReply: ...
    async def remove(self, deployment: str) -> schema.ActionReply: ...
    async def launch_options(self) -> schema.LaunchOptions: ...
    async def conversations(self) -> tuple[schema.Conversation, ...]: ...
    async def conversation(self, conversation_id: int) -> schema.Conversation: ...
    async def create_conversation(self, draft: schema.ConversationDraft) -> schema.Conversation: ...
    async def update_conversation(
        self, conversation_id: int, draft: schema.ConversationDraft
    ) -> schema.Conversation: ...
    async def delete_conversation(self, conversation_id: int) -> None: ...
    async def add_message(self, conversation_id: int, draft: schema.MessageDraft) -> schema.Message: ...
    async def delete_messages_from(self, conversation_id: int, message_id: int) -> None: ...
    async def setting(self, key: str) -> str | None: ...
    async def set_setting(self, key: str, value: str | None) -> None: ...
    async def shutdown(self, reason: str | None = None) -> None: ...
    def chat(
        self,
        model: str,
        messages: list[dict[str, str]],
        *,
        replica: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> AsyncIterator[ChatChunk]: ...
    async def close(self) -> None: ...
