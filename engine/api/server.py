"""Serves the API: decodes, asks the node, encodes. `engine.api.schema` has the routes."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from engine.api import schema
from engine.api.answers import VERSION, Handler, errors_told, json_answer
from engine.api.control import Control, Memory
from engine.api.inputs import body_of, limit_of, number, path_id
from engine.api.peers import peer
from engine.api.socket_file import give_to, own_folder
from engine.errors import LaunchError, SpecError
from engine.events import Actor

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_LOG_BYTES = 1024 * 1024
MAX_BODY_BYTES = 32 * 2**20
"""As the gateway's: its routes are mounted here too."""
CLOSE_TIMEOUT_S = 1.0
"""What open streams get to end after their last line."""
UNCUT_TIMEOUT_S = 5.0
"""What actions whose caller is gone get to end when the API closes."""


class ApiServer:
    """HTTP on a Unix socket."""

    def __init__(self, control: Control, memory: Memory, mount: Callable[[web.Application], None]) -> None:
        """`mount` adds the gateway's routes, so that one socket serves a remote interface wholly."""
        self._control = control
        self._memory = memory
        self._path: Path | None = None
        self._uncut: set[asyncio.Task[Any]] = set()
        app = web.Application(middlewares=[errors_told], client_max_size=MAX_BODY_BYTES)
        app.add_routes(self._routes())
        mount(app)
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=CLOSE_TIMEOUT_S, handler_cancellation=True
        )

    async def listen(self, path: Path, group: str | None) -> None:
        """Open the socket: 0600, or 0660 for `group` in a folder that it can enter.

        Raises:
            SpecError: the group does not exist, or the node may not give the socket to it.
            LaunchError: the socket cannot be made there, or its folder is another user's.
        """
        await self._runner.setup()
        try:
            own_folder(path.parent)
            path.unlink(missing_ok=True)
            # The socket is made without any access for others, and opened once owner and group are right.
            before = os.umask(0o177)
            try:
                await web.UnixSite(self._runner, str(path)).start()
            finally:
                os.umask(before)
            self._path = path
            if group is not None:
                give_to(group, path)
        except OSError as error:
            raise LaunchError(
                f"the node's socket {path} cannot be made: {error.strerror or error}",
                "make its folder writable, or set COCKPIT_HOME to another folder",
            ) from error

    async def close(self) -> None:
        """Stop serving; actions that are under way come to their end first."""
        await self._runner.cleanup()
        if self._uncut:
            _, late = await asyncio.wait(self._uncut, timeout=UNCUT_TIMEOUT_S)
            for task in late:
                task.cancel()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

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
            web.delete("/v1/deployments/{name}", self._remove),
            web.get("/v1/launch-options", self._answer(lambda _: c.launch_options())),
            web.post("/v1/shutdown", self._shutdown),
            web.get("/v1/conversations", self._conversations),
            web.post("/v1/conversations", self._create_conversation),
            web.get(
                "/v1/conversations/{id:\\d+}", self._answer(lambda r: self._memory.conversation(path_id(r)))
            ),
            web.patch("/v1/conversations/{id:\\d+}", self._update_conversation),
            web.delete("/v1/conversations/{id:\\d+}", self._delete_conversation),
            web.post("/v1/conversations/{id:\\d+}/messages", self._add_message),
            web.delete("/v1/conversations/{id:\\d+}/messages/{message:\\d+}", self._delete_messages),
            web.get("/v1/settings/{key}", self._setting),
            web.put("/v1/settings/{key}", self._set_setting),
        ]

    def _answer(self, ask: Callable[[web.Request], Awaitable[msgspec.Struct]]) -> Handler:
        async def handler(request: web.Request) -> web.StreamResponse:
            return json_answer(await ask(request))

        return handler

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        after = number(request, "after_event", None)
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", **VERSION})
        await response.prepare(request)
        encode = msgspec.json.Encoder().encode
        async with aclosing(self._control.stream(after)) as lines:
            try:
                async for line in lines:
                    await response.write(encode(line) + b"\n")
            except ConnectionResetError:
                log.debug("the reader of a stream went away")
            except Exception:
                # The head is sent: cutting the connection is all that can still tell the reader.
                log.exception("a stream failed")
                response.force_close()
                if request.transport is not None:
                    request.transport.abort()
        return response

    async def _events(self, request: web.Request) -> web.StreamResponse:
        limit = limit_of(request, 200)
        before = number(request, "before", None)
        found = await self._control.events(limit, before, request.query.get("target"))
        return json_answer(schema.EventsReply(events=found))

    async def _launches(self, request: web.Request) -> web.StreamResponse:
        found = await self._control.launches(request.query.get("engine"), limit_of(request, 50))
        return json_answer(schema.LaunchesReply(launches=found))

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        engine = request.query.get("engine")
        if not engine:
            raise SpecError("the query has no `engine`", "add ?engine=NAME")
        offset = number(request, "offset", -65_536) or 0
        limit = limit_of(request, 65_536, MAX_LOG_BYTES)
        return json_answer(await self._control.log(engine, number(request, "launch", None), offset, limit))

    async def _whole(self, action: Coroutine[Any, Any, T]) -> T:
        """Do all of an action: a caller that goes away must not leave one half applied."""
        task = asyncio.create_task(action)
        self._uncut.add(task)
        task.add_done_callback(self._uncut.discard)
        return await asyncio.shield(task)

    async def _act(self, request: web.Request) -> web.StreamResponse:
        action = await body_of(request, schema.EngineAction)
        return json_answer(await self._whole(self._control.act(action, _by(request))))

    async def _launch(self, request: web.Request) -> web.StreamResponse:
        wish = await body_of(request, schema.LaunchRequest)
        return json_answer(await self._whole(self._control.launch(wish, _by(request))))

    async def _remove(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        return json_answer(await self._whole(self._control.remove(name, _by(request))))

    async def _shutdown(self, request: web.Request) -> web.StreamResponse:
        wish = await body_of(request, schema.ShutdownRequest)
        await self._whole(self._control.shutdown(wish, _by(request)))
        return json_answer(schema.Done())

    async def _conversations(self, _: web.Request) -> web.StreamResponse:
        return json_answer(schema.ConversationsReply(conversations=await self._memory.conversations()))

    async def _create_conversation(self, request: web.Request) -> web.StreamResponse:
        draft = await body_of(request, schema.ConversationDraft)
        return json_answer(await self._memory.create_conversation(draft))

    async def _update_conversation(self, request: web.Request) -> web.StreamResponse:
        draft = await body_of(request, schema.ConversationDraft)
        return json_answer(await self._memory.update_conversation(path_id(request), draft))

    async def _delete_conversation(self, request: web.Request) -> web.StreamResponse:
        await self._memory.delete_conversation(path_id(request))
        return json_answer(schema.Done())

    async def _add_message(self, request: web.Request) -> web.StreamResponse:
        draft = await body_of(request, schema.MessageDraft)
        return json_answer(await self._memory.add_message(path_id(request), draft))

    async def _delete_messages(self, request: web.Request) -> web.StreamResponse:
        await self._memory.delete_messages_from(path_id(request), path_id(request, "message"))
        return json_answer(schema.Done())

    async def _setting(self, request: web.Request) -> web.StreamResponse:
        return json_answer(schema.Setting(await self._memory.setting(request.match_info["key"])))

    async def _set_setting(self, request: web.Request) -> web.StreamResponse:
        setting = await body_of(request, schema.Setting)
        await self._memory.set_setting(request.match_info["key"], setting.value)
        return json_answer(setting)


async def _now(value: T) -> T:
    return value


def _by(request: web.Request) -> Actor:
    return peer(request.transport)
