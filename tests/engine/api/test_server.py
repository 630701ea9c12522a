"""Routes over a real Unix socket: what is understood, what is refused and how."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from yarl import URL

from engine.api import schema
from engine.api.inputs import MAX_LIMIT
from engine.api.server import MAX_BODY_BYTES, MAX_LOG_BYTES
from engine.errors import EngineError, LaunchError, PlacementError, SpecError, StateError, UnknownTargetError
from engine.model import DeploymentSpec
from tests.engine.api.support import serve
from tests.support.wait_until import wait_until

ACTION = {"action": "stop", "target": "a/0"}
HUGE = "9" * 25


async def test_every_route_answers_in_its_type() -> None:
    talk = {"title": "x", "model": "m"}
    said = {"role": "user", "content": "hi"}
    spec = {"name": "a", "model": "m/m"}
    asked: list[tuple[str, str, Any, str]] = [
        ("GET", "/v1/status", None, "node"),
        ("GET", "/v1/events", None, "events"),
        ("GET", "/v1/launches", None, "launches"),
        ("GET", "/v1/logs?engine=a/0", None, "text"),
        ("GET", "/v1/launch-options", None, "interpreters"),
        ("POST", "/v1/engines/action", ACTION, "durable"),
        ("POST", "/v1/deployments", {"deployment": spec}, "engines"),
        ("DELETE", "/v1/deployments/a", None, "event"),
        ("GET", "/v1/conversations", None, "conversations"),
        ("GET", "/v1/conversations/1", None, "title"),
        ("POST", "/v1/conversations", talk, "title"),
        ("PATCH", "/v1/conversations/1", talk, "title"),
        ("POST", "/v1/conversations/1/messages", said, "content"),
        ("DELETE", "/v1/conversations/1/messages/7", None, "ok"),
        ("DELETE", "/v1/conversations/1", None, "ok"),
        ("PUT", "/v1/settings/theme", {"value": "paper"}, "value"),
        ("GET", "/v1/settings/theme", None, "value"),
        ("POST", "/v1/shutdown", {}, "ok"),
    ]
    async with serve() as node:
        for method, path, body, field in asked:
            status, answer = await node.ask(method, path, body)
            assert status == 200, (method, path, answer)
            assert field in answer, (method, path, answer)
        assert node.memory.removed == [(1, 7)]
        assert node.memory.settings == {"theme": "paper"}
        assert node.control.asked[-4:] == [
            schema.EngineAction("stop", "a/0"),
            schema.LaunchRequest(DeploymentSpec(name="a", model="m/m")),
            "a",
            schema.ShutdownRequest(),
        ]


async def test_a_name_with_a_slash_arrives_whole() -> None:
    async with serve() as node:
        url = URL("http://node/v1/deployments/a%2F0", encoded=True)
        async with node.session.delete(url) as response:
            assert response.status == 200
        assert node.control.asked == ["a/0"]


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (UnknownTargetError("m", "h"), 404, "unknown"),
        (StateError("m", "h"), 409, "state"),
        (SpecError("m", "h"), 400, "bad_input"),
        (PlacementError("m", "h"), 400, "bad_input"),
        (LaunchError("m", "h"), 400, "bad_input"),
        (EngineError("m", "h"), 400, "bad_input"),
    ],
)
async def test_each_refusal_has_its_status(error: EngineError, status: int, kind: str) -> None:
    async with serve() as node:
        node.control.error = error
        for method, path, body in (
            ("GET", "/v1/status", None),
            ("POST", "/v1/engines/action", ACTION),
            ("DELETE", "/v1/deployments/a", None),
        ):
            found = await node.ask(method, path, body)
            assert found == (status, {"error": {"message": "m", "hint": "h", "kind": kind}})


async def test_a_fault_of_ours_is_logged_and_told_without_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serve() as node:
        node.control.error = RuntimeError("secret detail")
        status, answer = await node.ask("GET", "/v1/status")
        assert status == 500
        assert "secret" not in str(answer)
        assert "secret detail" in caplog.text
        node.control.error = None
        assert (await node.ask("GET", "/v1/status"))[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "words"),
    [
        ("GET", "/v1/nothing", 404, "/v1/nothing"),
        ("GET", "/", 404, "/"),
        ("PUT", "/v1/status", 405, "GET"),
        ("GET", "/v1/engines/action", 405, "POST"),
        ("GET", "/v1/conversations/abc", 404, "abc"),
        ("GET", "/v1/conversations/77", 404, "77"),
        ("GET", f"/v1/conversations/{HUGE}", 400, "too large"),
        ("GET", f"/v1/conversations/{'9' * 5000}", 400, "number"),
        ("DELETE", f"/v1/conversations/1/messages/{HUGE}", 400, "too large"),
        ("GET", "/v1/events?limit=x", 400, "limit=x"),
        ("GET", "/v1/events?before=", 400, "before"),
        ("GET", f"/v1/events?before={HUGE}", 400, "too large"),
        ("GET", f"/v1/logs?engine=a/0&launch={HUGE}", 400, "too large"),
        ("GET", "/v1/stream?after_event=1.5", 400, "after_event"),
        ("GET", "/v1/logs", 400, "engine"),
    ],
)
async def test_what_is_not_understood_is_named(method: str, path: str, status: int, words: str) -> None:
    async with serve() as node:
        found, answer = await node.ask(method, path)
        assert found == status
        assert words in answer["error"]["message"] + answer["error"]["hint"]
        assert node.control.asked == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"action": "stop"}',
        b'{"action": "kill", "target": "a"}',
        b'{"action": "stop", "target": "a", "more": 1}',
        b'{"action": "stop", "target": 1}',
        b'{"action": "stop", "target": ' + b"[" * 100_000,
    ],
)
async def test_a_wrong_body_does_nothing(body: bytes) -> None:
    async with serve() as node:
        for path in (
            "/v1/engines/action",
            "/v1/deployments",
            "/v1/conversations",
            "/v1/conversations/1/messages",
        ):
            status, answer = await node.ask("POST", path, body)
            assert status == 400
            assert answer["error"]["kind"] == "bad_input"
        assert node.control.asked == []


async def test_a_body_that_is_too_large_is_refused() -> None:
    async with serve() as node:
        status, answer = await node.ask("POST", "/v1/conversations", b" " * (MAX_BODY_BYTES + 1))
        assert status == 413
        assert "conversations" in answer["error"]["message"]


@pytest.mark.parametrize(("asked", "given"), [("0", 1), ("-5", 1), ("7", 7), (str(MAX_LIMIT + 1), MAX_LIMIT)])
async def test_limits_are_kept_within_bounds(asked: str, given: int) -> None:
    async with serve() as node:
        await node.ask("GET", f"/v1/events?limit={asked}&target=a")
        await node.ask("GET", f"/v1/launches?limit={asked}")
        assert node.control.asked == [(given, None, "a"), (None, given)]


async def test_a_log_is_asked_from_its_end_unless_told_otherwise() -> None:
    async with serve() as node:
        await node.ask("GET", "/v1/logs?engine=a/0")
        await node.ask("GET", "/v1/logs?engine=a/0&launch=3&offset=0&limit=999999999")
        assert node.control.asked == [("a/0", None, -65_536, 65_536), ("a/0", 3, 0, MAX_LOG_BYTES)]


async def test_a_caller_that_goes_away_does_not_leave_an_action_half_applied() -> None:
    async with serve() as node:
        node.control.gate = asyncio.Event()
        caller = asyncio.create_task(node.ask("POST", "/v1/engines/action", ACTION))
        await wait_until(lambda: node.control.halves == ["first"])
        caller.cancel()
        await asyncio.wait({caller})
        async with node.session.get("http://node/v1/status") as response:
            assert response.status == 200  # the server has seen what came before
        node.control.gate.set()
        await wait_until(lambda: node.control.halves == ["first", "second"])


async def test_closing_waits_for_an_action_whose_caller_is_gone() -> None:
    async with serve() as node:
        node.control.gate = asyncio.Event()
        caller = asyncio.create_task(node.ask("DELETE", "/v1/deployments/a"))
        await wait_until(lambda: node.control.halves == ["first"])
        caller.cancel()
        await asyncio.wait({caller})
        closing = asyncio.create_task(node.server.close())
        node.control.gate.set()
        await closing
        assert node.control.halves == ["first", "second"]
        assert not node.path.exists()
