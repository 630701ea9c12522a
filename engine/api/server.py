"""Serves the API: decodes, asks the node, encodes. `engine.api.schema` has the routes."""

from __future__ import annotations

import asyncio
import grp
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec
from aiohttp import web

from engine.api import schema
from engine.api.control import Control, Memory
from engine.api.peers import peer
from engine.errors import EngineError, SpecError, StateError, UnknownTargetError
from engine.events import Actor

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_LIMIT = 10_000
MAX_LOG_BYTES = 1024 * 1024
MAX_BODY_BYTES = 32 * 2**20
"""As the gateway's: its routes are mounted here too."""
CLOSE_TIMEOUT_S = 1.0
"""What open streams get to end after their last line."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ApiServer:
    """HTTP on a Unix socket."""

    def __init__(self, control: Control, memory: Memory, mount: Callable[[web.Application], None]) -> None:
        """`mount` adds the gateway's routes, so that one socket serves a remote interface wholly."""
        self._control = control
        self._memory = memory
        app = web.Application(middlewares=[_errors], client_max_size=MAX_BODY_BYTES)
        app.add_routes(self._routes())
        mount(app)
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=CLOSE_TIMEOUT_S, handler_cancellation=True
        )

    async def listen(self, path: Path, group: str | None) -> None:
        """Open the socket: 0600, or 0660 for `group` in a folder that it can enter.

        Raises:
            SpecError: the group does not exist, or the node may not give the socket to it.
        """
        await self._runner.setup()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        # The socket is made without any access, and opened once owner and group are right.
        before = os.umask(0o177)
        try:
            await web.UnixSite(self._runner, str(path)).start()
        finally:
            os.umask(before)
        if group is None:
            path.parent.chmod(0o700)
            return
        try:
            gid = grp.getgrnam(group).gr_gid
            os.chown(path.parent, -1, gid)
            os.chown(path, -1, gid)
        except KeyError as error:
            raise SpecError(
                f"[node] socket_group: there is no group {group}", "create it, or remove the key"
            ) from error
        except PermissionError as error:
            raise SpecError(
                f"[node] socket_group: you are not a member of {group}", "join it, or remove the key"
            ) from error
        path.parent.chmod(0o710)
        path.chmod(0o660)

    async def close(self) -> None:
        """Stop serving."""
        await self._runner.cleanup()

    def _routes(self) -> list[web.RouteDef]:
        c = self._control
        return [
            web.get("/v1/status", self._answer(lambda _: _now(c.status()))),
            web.get("/v1/stream", self._stream),
            web.get("/v1/events", self._events),
            web.get("/v1/launches", self._launches),
            web.get("/v1/logs", self._logs),
            web.post("/v1/engines/action", self._act),
            web.post("/v1/deployments", self._launch),
            web.delete(
                "/v1/deployments/{name}", self._answer(lambda r: c.remove(r.match_info["name"], _by(r)))
            ),
            web.get("/v1/launch-options", self._answer(lambda _: c.launch_options())),
            web.post("/v1/shutdown", self._shutdown),
            web.get("/v1/conversations", self._conversations),
            web.post("/v1/conversations", self._create_conversation),
            web.get("/v1/conversations/{id:\\d+}", self._answer(lambda r: self._memory.conversation(_id(r)))),
            web.patch("/v1/conversations/{id:\\d+}", self._update_conversation),
            web.delete("/v1/conversations/{id:\\d+}", self._delete_conversation),
            web.post("/v1/conversations/{id:\\d+}/messages", self._add_message),
            web.delete("/v1/conversations/{id:\\d+}/messages/{message:\\d+}", self._delete_messages),
            web.get("/v1/settings/{key}", self._setting),
            web.put("/v1/settings/{key}", self._set_setting),
        ]

    def _answer(self, ask: Callable[[web.Request], Awaitable[msgspec.Struct]]) -> Handler:
        async def handler(request: web.Request) -> web.StreamResponse:
            return _json(await ask(request))

        return handler

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        after = _number(request, "after_event", None)
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", **_VERSION})
        await response.prepare(request)
        encode = msgspec.json.Encoder().encode
        async for line in self._control.stream(after):
            await response.write(encode(line) + b"\n")
        return response

    async def _events(self, request: web.Request) -> web.StreamResponse:
        limit = _limit(request, 200)
        before = _number(request, "before", None)
        found = await self._control.events(limit, before, request.query.get("target"))
        return _json(schema.EventsReply(events=found))

    async def _launches(self, request: web.Request) -> web.StreamResponse:
        found = await self._control.launches(request.query.get("engine"), _limit(request, 50))
        return _json(schema.LaunchesReply(launches=found))

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        engine = request.query.get("engine")
        if not engine:
            raise SpecError("the query has no `engine`", "add ?engine=NAME")
        offset = _number(request, "offset", -65_536) or 0
        limit = max(1, min(_number(request, "limit", 65_536) or 1, MAX_LOG_BYTES))
        return _json(await self._control.log(engine, _number(request, "launch", None), offset, limit))

    # Actions are shielded: a caller that goes away must not leave one half applied.

    async def _act(self, request: web.Request) -> web.StreamResponse:
        action = await _body(request, schema.EngineAction)
        return _json(await asyncio.shield(self._control.act(action, _by(request))))

    async def _launch(self, request: web.Request) -> web.StreamResponse:
        wish = await _body(request, schema.LaunchRequest)
        return _json(await asyncio.shield(self._control.launch(wish, _by(request))))

    async def _remove(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        return _json(await asyncio.shield(self._control.remove(name, _by(request))))

    async def _shutdown(self, request: web.Request) -> web.StreamResponse:
        wish = await _body(request, schema.ShutdownRequest)
        # The caller may go away while engines drain: the shutdown goes on all the same.
        await asyncio.shield(self._control.shutdown(wish, _by(request)))
        return _json(schema.Done())

    async def _conversations(self, _: web.Request) -> web.StreamResponse:
        return _json(schema.ConversationsReply(conversations=await self._memory.conversations()))

    async def _create_conversation(self, request: web.Request) -> web.StreamResponse:
        draft = await _body(request, schema.ConversationDraft)
        return _json(await self._memory.create_conversation(draft))

    async def _update_conversation(self, request: web.Request) -> web.StreamResponse:
        draft = await _body(request, schema.ConversationDraft)
        return _json(await self._memory.update_conversation(_id(request), draft))

    async def _delete_conversation(self, request: web.Request) -> web.StreamResponse:
        await self._memory.delete_conversation(_id(request))
        return _json(schema.Done())

    async def _add_message(self, request: web.Request) -> web.StreamResponse:
        draft = await _body(request, schema.MessageDraft)
        return _json(await self._memory.add_message(_id(request), draft))

    async def _delete_messages(self, request: web.Request) -> web.StreamResponse:
        await self._memory.delete_messages_from(_id(request), int(request.match_info["message"]))
        return _json(schema.Done())

    async def _setting(self, request: web.Request) -> web.StreamResponse:
        return _json(schema.Setting(await self._memory.setting(request.match_info["key"])))

    async def _set_setting(self, request: web.Request) -> web.StreamResponse:
        setting = await _body(request, schema.Setting)
        await self._memory.set_setting(request.match_info["key"], setting.value)
        return _json(setting)


_VERSION = {schema.VERSION_HEADER: str(schema.API_VERSION)}


async def _now(value: T) -> T:
    return value


def _by(request: web.Request) -> Actor:
    return peer(request.transport)


def _id(request: web.Request) -> int:
    return int(request.match_info["id"])


def _number(request: web.Request, key: str, default: int | None) -> int | None:
    raw = request.query.get(key)
    if raw is None:
        return default
    try:
        return int(raw)
    except ValueError as error:
        raise SpecError(f"?{key}={raw} is no whole number", f"write ?{key}=1") from error


def _limit(request: web.Request, default: int) -> int:
    return max(1, min(_number(request, "limit", default) or 1, MAX_LIMIT))


async def _body(request: web.Request, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SpecError(
            f"the body of {request.method} {request.path} is wrong: {error}", "see docs/api.schema.json"
        ) from error


def _json(value: msgspec.Struct, status: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(value), status=status, content_type="application/json", headers=_VERSION
    )


def _refusal(status: int, message: str, hint: str, kind: str) -> web.Response:
    return _json(schema.ApiError(schema.ErrorBody(message=message, hint=hint, kind=kind)), status)


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every failure as `ApiError`; no traceback leaves the node."""
    if not request.path.startswith("/v1/"):
        return await handler(request)  # the gateway has OpenAI's shape of errors
    try:
        return await handler(request)
    except UnknownTargetError as error:
        return _refusal(404, error.message, error.hint, "unknown")
    except StateError as error:
        return _refusal(409, error.message, error.hint, "state")
    except EngineError as error:
        return _refusal(400, error.message, error.hint, "bad_input")
    except web.HTTPException as error:
        return _refusal(error.status, f"{request.method} {request.path}: {error.reason}", "", "http")
    except ConnectionResetError:
        raise
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return _refusal(500, "the node failed on this request", "its log has the details", "fault")
