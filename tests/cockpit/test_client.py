"""The client against a real server on a real socket, and against servers that misbehave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from cockpit import client as client_module
from cockpit.chat_stream import ChatChunk
from cockpit.client import ClientError, NodeClient, NodeRefusedError, NodeUnreachableError
from engine.api import schema
from engine.errors import StateError, UnknownTargetError
from engine.model import DeploymentSpec
from tests.engine.api.support import NODE, Served, event, frame, serve
from tests.support.wait_until import wait_until

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
TURNS = [{"role": "user", "content": "hi"}]


@asynccontextmanager
async def _node() -> AsyncIterator[tuple[NodeClient, Served]]:
    async with serve() as served, NodeClient(served.path) as client:
        yield client, served


@asynccontextmanager
async def _answering(folder: Path, handler: Handler) -> AsyncIterator[NodeClient]:
    """A server that answers everything with one handler."""
    runner = web.ServerRunner(web.Server(handler, access_log=None, handler_cancellation=True))
    await runner.setup()
    path = folder / "s"
    try:
        await web.UnixSite(runner, str(path)).start()
        async with NodeClient(path) as client:
            yield client
    finally:
        await runner.cleanup()


async def test_each_method_reaches_its_route() -> None:
    async with _node() as (client, node):
        assert (await client.status()).node == NODE
        assert [e.id for e in await client.events(5, 9, "a/0")] == [2, 1]
        assert await client.launches("a/0", 3) == ()
        assert (await client.log("a/0", 4, -10)).text == "x"
        assert (await client.act(schema.EngineAction("stop", "a/0", wait=True))).durable
        assert (await client.launch(schema.LaunchRequest(DeploymentSpec("a", "m")))).engines == ("a/0",)
        assert (await client.remove("we/ird name")).durable
        assert (await client.launch_options()).simulated
        await client.shutdown("enough")
        assert node.control.asked == [
            (5, 9, "a/0"),
            ("a/0", 3),
            ("a/0", 4, -10, 65_536),
            schema.EngineAction("stop", "a/0", wait=True),
            schema.LaunchRequest(DeploymentSpec("a", "m")),
            "we/ird name",
            schema.ShutdownRequest("enough"),
        ]
        draft = schema.ConversationDraft(title="new", model="m")
        assert (await client.create_conversation(draft)).title == "new"
        assert (await client.update_conversation(1, draft)).title == "new"
        assert len(await client.conversations()) == 1
        assert (await client.conversation(1)).id == 1
        assert (await client.add_message(1, schema.MessageDraft(role="user", content="x"))).content == "x"
        await client.delete_messages_from(1, 2)
        await client.delete_conversation(1)
        await client.set_setting("a/b c", "v")
        assert await client.setting("a/b c") == "v"
        assert await client.setting("other") is None


async def test_refusals_keep_their_words_status_and_kind() -> None:
    async with _node() as (client, node):
        for error, status, kind in (
            (UnknownTargetError("m", "h"), 404, "unknown"),
            (StateError("m", "h"), 409, "state"),
        ):
            node.control.error = error
            with pytest.raises(NodeRefusedError) as caught:
                await client.status()
            found = caught.value
            assert (found.message, found.hint, found.status, found.kind) == ("m", "h", status, kind)


async def test_no_node_is_unreachable_with_the_way_to_start_one(tmp_path: Path) -> None:
    async with NodeClient(tmp_path / "nothing.sock") as client:
        with pytest.raises(NodeUnreachableError) as caught:
            await client.status()
        assert "cockpit up" in caught.value.hint
        with pytest.raises(NodeUnreachableError):
            await anext(client.stream())
        with pytest.raises(NodeUnreachableError):
            await anext(client.chat("m", TURNS))


async def test_a_node_that_does_not_answer_in_time_is_told_from_one_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "REQUEST_TIMEOUT_S", 0.05)

    async def hang(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with _answering(tmp_path, hang) as client:
        with pytest.raises(NodeUnreachableError, match="in time"):
            await anext(client.stream())
        with pytest.raises(NodeUnreachableError, match="in time"):
            await client.events()


async def test_another_version_of_the_api_is_said(tmp_path: Path) -> None:
    async def newer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.headers[schema.VERSION_HEADER] == str(schema.API_VERSION)
        return web.Response(body=b"{}", headers={schema.VERSION_HEADER: "99"})

    async with _answering(tmp_path, newer) as client:
        for ask in (client.status, lambda: anext(client.stream())):
            with pytest.raises(ClientError, match="version 99") as caught:
                await ask()
            assert "cockpit down" in caught.value.hint


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b"\xff", b'{"type": "newer"}\n'])
async def test_an_answer_that_is_not_understood_is_said(tmp_path: Path, body: bytes) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=body)

    async with _answering(tmp_path, answer) as client:
        with pytest.raises(ClientError, match="not understood"):
            await client.status()
        if body:
            with pytest.raises(ClientError, match="not understood"):
                await anext(client.stream())


async def test_an_error_that_is_no_json_is_quoted(tmp_path: Path) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=500, text="<html>oops")

    async with _answering(tmp_path, answer) as client:
        with pytest.raises(NodeRefusedError, match="HTTP 500: <html>oops"):
            await client.status()


async def test_a_stream_yields_what_was_sent_and_ends_with_the_node() -> None:
    sent: list[schema.StreamLine] = [
        schema.HelloLine(1, NODE),
        schema.FrameLine(frame(1.0)),
        schema.EventLine(event(1)),
        schema.StoppingLine(by="me"),
    ]
    async with _node() as (client, node):
        for line in (*sent, None):
            node.control.lines.put_nowait(line)
        assert [line async for line in client.stream(after_event=4)] == sent
        assert node.control.asked == [4]


async def test_a_stream_that_is_cut_is_no_end() -> None:
    async with _node() as (client, node):
        node.control.lines.put_nowait(schema.HelloLine(1, NODE))
        node.control.lines.put_nowait(RuntimeError("cut"))
        with pytest.raises(NodeUnreachableError):
            async for _ in client.stream():
                pass


def _chunk(text: str) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"


class _Chat:
    """A gateway that streams what it is told, and sees its client go."""

    def __init__(self, *pieces: bytes, hold: bool = False) -> None:
        self.pieces, self.hold = pieces, hold
        self.body: dict[str, object] = {}
        self.pin: str | None = None
        self.cancelled = False

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        assert request.path == "/openai/v1/chat/completions"
        self.body = json.loads(await request.read())
        self.pin = request.headers.get(schema.PIN_HEADER)
        response = web.StreamResponse(headers={schema.REPLICA_HEADER: "a/1"})
        await response.prepare(request)
        for piece in self.pieces:
            await response.write(piece)
        if self.hold:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled = True
        return response


async def test_a_chat_yields_pieces_and_says_who_serves_it(tmp_path: Path) -> None:
    chat = _Chat(_chunk("Hel")[:9], _chunk("Hel")[9:], b": ping\n\n", _chunk("lo"), b"data: [DONE]\n\n")
    async with _answering(tmp_path, chat) as client:
        pieces = [p async for p in client.chat("a", TURNS, replica="a/1", temperature=0.0, max_tokens=7)]
    assert pieces == [ChatChunk(text=text, served_by="a/1") for text in ("", "Hel", "lo")]
    assert chat.pin == "a/1"
    assert chat.body == {
        "model": "a",
        "messages": TURNS,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.0,
        "max_tokens": 7,
    }


async def test_leaving_a_chat_closes_its_request(tmp_path: Path) -> None:
    chat = _Chat(_chunk("x"), hold=True)
    async with _answering(tmp_path, chat) as client:
        async with aclosing(client.chat("a", TURNS)) as pieces:
            async for piece in pieces:
                if piece.text:
                    break
        await wait_until(lambda: chat.cancelled)


async def test_cancelling_a_chat_closes_its_request(tmp_path: Path) -> None:
    chat = _Chat(hold=True)

    async def read(client: NodeClient) -> None:
        async for _ in client.chat("a", TURNS):
            pass

    async with _answering(tmp_path, chat) as client:
        task = asyncio.create_task(read(client))
        await wait_until(lambda: bool(chat.body))
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        await wait_until(lambda: chat.cancelled)


async def test_an_error_in_mid_stream_is_a_refusal_after_what_came_before(tmp_path: Path) -> None:
    seen: list[str] = []
    chat = _Chat(_chunk("half"), b'data: {"error": {"message": "it broke"}}\n\n')
    async with _answering(tmp_path, chat) as client:
        with pytest.raises(NodeRefusedError, match="it broke") as caught:
            async for piece in client.chat("a", TURNS):
                seen += [piece.text]
    assert seen == ["", "half"]
    assert caught.value.status == 502


async def test_a_chat_line_that_is_not_understood_is_said(tmp_path: Path) -> None:
    async with _answering(tmp_path, _Chat(b"data: {broken\n\n")) as client:
        with pytest.raises(ClientError, match="answer of a is not understood"):
            async for _ in client.chat("a", TURNS):
                pass


async def test_the_gateways_refusals_are_told_in_its_words(tmp_path: Path) -> None:
    async def refuse(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no model", "type": "x", "code": None}}, status=404)

    async with _answering(tmp_path, refuse) as client:
        with pytest.raises(NodeRefusedError, match="no model") as caught:
            await anext(client.chat("a", TURNS))
        assert caught.value.status == 404


async def test_closing_twice_is_fine_and_asking_again_opens_again() -> None:
    async with _node() as (client, _):
        await client.status()
        await client.close()
        await client.close()
        assert (await client.status()).node == NODE
