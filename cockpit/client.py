"""Typed client of the node's API, for the command line and the interface.

aiohttp is imported when the first request is made: it takes 200 ms, and a screen should be up before that.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar
from urllib.parse import quote

import msgspec

from cockpit.chat_stream import ChatChunk, StreamBrokenError, parse_line
from engine.api import schema
from engine.events import Event

if TYPE_CHECKING:
    import aiohttp

__all__ = [
    "ChatChunk",
    "ClientError",
    "NodeApi",
    "NodeClient",
    "NodeRefusedError",
    "NodeUnreachableError",
]

T = TypeVar("T")

REQUEST_TIMEOUT_S = 15.0
"""The node answers from memory or a local file; slower than this is a fault worth showing."""
OTHER_VERSION = "node and cockpit differ in version; run `cockpit down` and `cockpit up`"


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


class NodeApi(Protocol):
    """What the interface needs of a node; `NodeClient` is the real one, tests have their own."""

    async def status(self) -> schema.StatusReply: ...
    def stream(self, after_event: int | None = None) -> AsyncIterator[schema.StreamLine]: ...
    async def events(
        self, limit: int = 200, before: int | None = None, target: str | None = None
    ) -> tuple[Event, ...]: ...
    async def launches(self, engine: str | None = None, limit: int = 50) -> tuple[schema.Launch, ...]: ...
    async def log(
        self, engine: str, launch: int | None, offset: int, limit: int = 65_536
    ) -> schema.LogChunk: ...
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


class NodeClient:
    """A node, over its Unix socket. Satisfies `NodeApi`.

    One connection pool for its life; close it, or use it as an async context.
    """

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._session: aiohttp.ClientSession | None = None
        self._module: ModuleType | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Release the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def status(self) -> schema.StatusReply:
        """The newest frame as one object."""
        return await self._call("GET", "/v1/status", schema.StatusReply)

    async def stream(self, after_event: int | None = None) -> AsyncGenerator[schema.StreamLine, None]:
        """Frames and events as they come; ends when the node does.

        Raises:
            NodeUnreachableError: nothing listens, or the stream broke off.
        """
        aiohttp = await self._load()

        query = {} if after_event is None else {"after_event": str(after_event)}
        # A frame is due each second: silence of many means that the node hangs.
        timeout = aiohttp.ClientTimeout(total=None, sock_read=REQUEST_TIMEOUT_S)
        decode = msgspec.json.Decoder(schema.StreamLine).decode
        try:
            async with (await self._open()).get(_url("/v1/stream", query), timeout=timeout) as response:
                await _refuse(response)
                async for line in response.content:
                    yield decode(line)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(error) from error
        except (msgspec.DecodeError, ValueError) as error:
            raise _not_understood("/v1/stream", error) from error

    async def events(
        self, limit: int = 200, before: int | None = None, target: str | None = None
    ) -> tuple[Event, ...]:
        """Past events, newest first."""
        query = {"limit": str(limit)}
        if before is not None:
            query["before"] = str(before)
        if target is not None:
            query["target"] = target
        return (await self._call("GET", "/v1/events", schema.EventsReply, query=query)).events

    async def launches(self, engine: str | None = None, limit: int = 50) -> tuple[schema.Launch, ...]:
        """Starts of an engine, or of all, newest first."""
        query = {"limit": str(limit)} | ({"engine": engine} if engine else {})
        return (await self._call("GET", "/v1/launches", schema.LaunchesReply, query=query)).launches

    async def log(self, engine: str, launch: int | None, offset: int, limit: int = 65_536) -> schema.LogChunk:
        """A piece of a launch's log, the newest without `launch`; a negative offset counts from the end."""
        query = {"engine": engine, "offset": str(offset), "limit": str(limit)}
        if launch is not None:
            query["launch"] = str(launch)
        return await self._call("GET", "/v1/logs", schema.LogChunk, query=query)

    async def act(self, action: schema.EngineAction) -> schema.ActionReply:
        """Start, stop or restart; recorded before it is acknowledged."""
        timeout_s = None if action.wait else REQUEST_TIMEOUT_S
        return await self._call("POST", "/v1/engines/action", schema.ActionReply, action, timeout_s=timeout_s)

    async def launch(self, request: schema.LaunchRequest) -> schema.ActionReply:
        """Add a deployment and start its replicas."""
        return await self._call("POST", "/v1/deployments", schema.ActionReply, request)

    async def remove(self, deployment: str) -> schema.ActionReply:
        """Stop a deployment's replicas and forget it."""
        path = f"/v1/deployments/{quote(deployment, safe='')}"
        return await self._call("DELETE", path, schema.ActionReply)

    async def launch_options(self) -> schema.LaunchOptions:
        """Interpreters and GPUs that a new deployment can use; probing interpreters takes seconds."""
        return await self._call("GET", "/v1/launch-options", schema.LaunchOptions, timeout_s=60.0)

    async def conversations(self) -> tuple[schema.Conversation, ...]:
        """Saved chats without their messages, last used first."""
        return (await self._call("GET", "/v1/conversations", schema.ConversationsReply)).conversations

    async def conversation(self, conversation_id: int) -> schema.Conversation:
        """One saved chat with its messages."""
        return await self._call("GET", f"/v1/conversations/{conversation_id}", schema.Conversation)

    async def create_conversation(self, draft: schema.ConversationDraft) -> schema.Conversation:
        """Begin a saved chat."""
        return await self._call("POST", "/v1/conversations", schema.Conversation, draft)

    async def update_conversation(
        self, conversation_id: int, draft: schema.ConversationDraft
    ) -> schema.Conversation:
        """Change title, model or parameters."""
        return await self._call("PATCH", f"/v1/conversations/{conversation_id}", schema.Conversation, draft)

    async def delete_conversation(self, conversation_id: int) -> None:
        """Remove a chat and its messages."""
        await self._call("DELETE", f"/v1/conversations/{conversation_id}", schema.Done)

    async def add_message(self, conversation_id: int, draft: schema.MessageDraft) -> schema.Message:
        """Append a turn."""
        return await self._call(
            "POST", f"/v1/conversations/{conversation_id}/messages", schema.Message, draft
        )

    async def delete_messages_from(self, conversation_id: int, message_id: int) -> None:
        """Remove a turn and all after it."""
        path = f"/v1/conversations/{conversation_id}/messages/{message_id}"
        await self._call("DELETE", path, schema.Done)

    async def setting(self, key: str) -> str | None:
        """A remembered choice, or None."""
        return (await self._call("GET", f"/v1/settings/{quote(key, safe='')}", schema.Setting)).value

    async def set_setting(self, key: str, value: str | None) -> None:
        """Remember a choice; None forgets it."""
        await self._call("PUT", f"/v1/settings/{quote(key, safe='')}", schema.Setting, schema.Setting(value))

    async def shutdown(self, reason: str | None = None) -> None:
        """Stop every engine and the node; returns when no engine process is left."""
        await self._call(
            "POST", "/v1/shutdown", schema.Done, schema.ShutdownRequest(reason=reason), timeout_s=None
        )

    async def chat(
        self,
        model: str,
        messages: list[dict[str, str]],
        *,
        replica: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> AsyncGenerator[ChatChunk, None]:
        """A streamed answer through the gateway's own routes; leaving the iterator cancels the request.

        Raises:
            NodeRefusedError: the gateway or the engine answered with an error, also in mid-stream.
        """
        aiohttp = await self._load()

        body: dict[str, Any] = {
            "model": model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if temperature is not None:
            body["temperature"] = temperature
        if max_tokens is not None:
            body["max_tokens"] = max_tokens
        headers = {schema.PIN_HEADER: replica} if replica else {}
        timeout = aiohttp.ClientTimeout(total=None)
        try:
            async with (await self._open()).post(
                _url("/openai/v1/chat/completions"), json=body, headers=headers, timeout=timeout
            ) as response:
                await _refuse(response)
                served_by = response.headers.get(schema.REPLICA_HEADER)
                yield ChatChunk(served_by=served_by)
                async for line in response.content:
                    chunk = parse_line(line, served_by)
                    if chunk is not None:
                        yield chunk
        except StreamBrokenError as error:
            raise NodeRefusedError(error.body.message, error.body.hint, status=502) from error
        except (msgspec.DecodeError, ValueError) as error:
            raise ClientError(
                f"the answer of {model} is not understood: {error}", "see the engine's log"
            ) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(error) from error

    async def _call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: msgspec.Struct | None = None,
        *,
        query: dict[str, str] | None = None,
        timeout_s: float | None = REQUEST_TIMEOUT_S,
    ) -> T:
        aiohttp = await self._load()

        data = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with (await self._open()).request(
                method, _url(path, query), data=data, headers=headers, timeout=timeout
            ) as response:
                await _refuse(response)
                return msgspec.json.decode(await response.read(), type=answer)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(error) from error
        except msgspec.DecodeError as error:
            raise _not_understood(path, error) from error

    async def _load(self) -> ModuleType:
        """aiohttp, imported in a thread, so that a screen goes on drawing meanwhile."""
        if self._module is None:
            self._module = await asyncio.to_thread(importlib.import_module, "aiohttp")
        return self._module

    async def _open(self) -> aiohttp.ClientSession:
        module = await self._load()
        if self._session is None:
            self._session = module.ClientSession(
                connector=module.UnixConnector(path=str(self._socket)),
                headers={schema.VERSION_HEADER: str(schema.API_VERSION)},
                read_bufsize=2**20,
            )
        return self._session

    def _unreachable(self, error: BaseException) -> NodeUnreachableError:
        if isinstance(error, TimeoutError):
            return NodeUnreachableError("the node does not answer in time", f"socket {self._socket}")
        return NodeUnreachableError("no node is running, or it went away", "start one with `cockpit up`")


def _url(path: str, query: dict[str, str] | None = None) -> Any:
    from yarl import URL

    # `encoded` keeps the %2F of names such as qwen/0 as it is.
    return URL(f"http://node{path}", encoded=True).with_query(query or {})


def _not_understood(path: str, error: Exception) -> ClientError:
    return ClientError(f"the node's answer to {path} is not understood: {error}", OTHER_VERSION)


async def _refuse(response: aiohttp.ClientResponse) -> None:
    """Raise for an error answer, in the node's own words or in OpenAI's shape, and for another version."""
    version = response.headers.get(schema.VERSION_HEADER, str(schema.API_VERSION))
    if version != str(schema.API_VERSION):
        raise ClientError(
            f"the node speaks version {version} of the API, this cockpit {schema.API_VERSION}", OTHER_VERSION
        )
    if response.status < 400:
        return
    raw = await response.read()
    try:
        error = msgspec.json.decode(raw, type=schema.ApiError).error
    except msgspec.DecodeError:
        error = schema.ErrorBody(message=f"HTTP {response.status}: {raw[:200].decode(errors='replace')}")
    raise NodeRefusedError(error.message, error.hint, status=response.status, kind=error.kind)
