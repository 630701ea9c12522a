"""What a client gets when engines are not there, break, or go silent."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from aiohttp import ClientPayloadError, web

from engine.gateway.limits import GatewayLimits
from engine.model import Endpoint
from tests.engine.gateway.raw_engine import OK, raw_engine
from tests.engine.gateway.support import replica, says_hello, stand, streams
from tests.support.wait_until import wait_until


async def test_an_unknown_model_is_404_and_names_the_known_ones(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        here.replicas = (replica("qwen/0"), replica("llama/0"))
        status, document = await here.chat(model="gpt-4o")
    assert status == 404
    assert document == {
        "error": {
            "message": "model 'gpt-4o' does not exist; known models: qwen, llama",
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        }
    }


async def test_no_ready_replica_is_503_with_the_states_and_when_to_retry(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        here.replicas = (
            replica("qwen/0", accepts=False, state="starting"),
            replica("qwen/1", accepts=False, state="failed"),
        )
        async with here.client.post(f"{here.url}/v1/completions", json={"model": "qwen"}) as answer:
            assert answer.status == 503
            assert answer.headers["Retry-After"] == "5"
            error = (await answer.json())["error"]
    assert error["message"] == "no engine of model 'qwen' is ready: qwen/0 is starting, qwen/1 is failed"
    assert error["type"] == "server_error"


async def test_a_replica_that_cannot_be_reached_is_left_for_another(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        here.replicas = (replica("qwen/0", str(tmp_path / "nobody.sock")),)
        await here.engine("qwen/1", says_hello)
        for _ in range(4):
            status, _ = await here.chat()
            assert status == 200
        assert here.gateway.in_flight("qwen/0") == here.gateway.in_flight("qwen/1") == 0


async def test_only_one_other_replica_is_tried(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        here.replicas = tuple(replica(f"qwen/{i}", str(tmp_path / f"nobody{i}.sock")) for i in range(2))
        reached = await here.engine("qwen/2", says_hello)
        status, document = await here.chat()
        assert (status, document["error"]["code"]) == (502, "engine_unreachable")
        assert not reached.requests


async def test_a_pinned_replica_that_cannot_be_reached_is_not_replaced(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        here.replicas = (replica("qwen/0", str(tmp_path / "nobody.sock")),)
        status, document = await here.chat()
    assert status == 502
    assert "qwen/0" in document["error"]["message"]


async def test_an_engine_that_breaks_before_its_head_is_502(tmp_path: Path) -> None:
    async def turn(_connection: int, _request: int, _writer: asyncio.StreamWriter) -> bool:
        return False

    async with stand(tmp_path) as here, raw_engine(tmp_path / "raw.sock", turn) as seen:
        here.replicas = (replica("qwen/0", str(tmp_path / "raw.sock")),)
        async with here.client.post(f"{here.url}/v1/completions", json={"model": "qwen"}) as answer:
            assert answer.status == 502
            assert answer.headers["X-Cockpit-Served-By"] == "qwen/0"
            assert (await answer.json())["error"]["code"] == "engine_failed"
        assert seen == [(0, 0)], "a new connection that broke is not retried"


async def test_an_engine_that_breaks_between_head_and_first_event_is_502(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        await here.engine("qwen/0", streams(then="break"))
        status, document = await here.chat(stream=True)
    assert (status, document["error"]["code"]) == (502, "engine_failed")


@pytest.mark.parametrize("cut", [b"data: 1\n\n", b'data: {"cho'])
async def test_an_engine_that_breaks_within_a_stream_gives_a_last_event_with_the_error(
    tmp_path: Path, cut: bytes
) -> None:
    async with stand(tmp_path) as here:
        await here.engine("qwen/0", streams(cut, then="break"))
        async with here.client.post(f"{here.url}/v1/completions", json={"model": "qwen"}) as answer:
            assert answer.status == 200
            events = (await answer.read()).split(b"\n\n")
    assert events[0] == cut.strip()
    assert events[1].startswith(b'data: {"error":{"message":"engine qwen/0 broke off')
    assert events[2:] == [b""]


async def test_a_short_answer_that_breaks_in_the_middle_is_502(tmp_path: Path) -> None:
    async def script(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"x" * 500)
        assert request.transport is not None
        request.transport.abort()
        return response

    async with stand(tmp_path) as here:
        await here.engine("qwen/0", script)
        status, document = await here.chat()
    assert (status, document["error"]["code"]) == (502, "engine_failed")


@pytest.mark.parametrize("length", ["1000", None])
async def test_a_long_answer_that_breaks_in_the_middle_cuts_the_connection(
    tmp_path: Path, length: str | None
) -> None:
    gate = asyncio.Event()

    async def script(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": length} if length else {})
        await response.prepare(request)
        await response.write(b"x" * 500)
        await gate.wait()
        assert request.transport is not None
        request.transport.abort()
        return response

    async with stand(tmp_path, GatewayLimits(answer_buffer_bytes=100)) as here:
        await here.engine("qwen/0", script)
        async with here.client.post(f"{here.url}/v1/completions", json={"model": "qwen"}) as answer:
            assert answer.status == 200
            await answer.content.readexactly(500)
            gate.set()
            with pytest.raises(ClientPayloadError):
                await answer.read()


async def test_a_silent_engine_is_504_and_its_request_is_ended(tmp_path: Path) -> None:
    async with stand(tmp_path, GatewayLimits(silence_s=0.05)) as here:
        engine = await here.engine("qwen/0", streams(then="hang"))
        status, document = await here.chat()
        assert (status, document["error"]["code"]) == (504, "engine_timeout")
        await wait_until(lambda: engine.aborted == 1)


async def test_a_reset_on_a_reused_connection_is_retried_on_a_fresh_one(tmp_path: Path) -> None:
    async def turn(_connection: int, request: int, writer: asyncio.StreamWriter) -> bool:
        if request == 0:
            writer.write(OK)
        return request == 0

    async with stand(tmp_path) as here, raw_engine(tmp_path / "raw.sock", turn) as seen:
        here.replicas = (replica("qwen/0", str(tmp_path / "raw.sock")),)
        assert [(await here.chat())[0] for _ in range(2)] == [200, 200]
        assert seen == [(0, 0), (0, 1), (1, 0)]
        metrics = await (await here.client.get(f"{here.url}/metrics")).text()
        assert 'retries_total{cause="stale_connection"} 1' in metrics


async def test_a_late_reset_on_a_reused_connection_is_no_idle_close(tmp_path: Path) -> None:
    async def turn(_connection: int, request: int, writer: asyncio.StreamWriter) -> bool:
        if request == 0:
            writer.write(OK)
            return True
        here.clock.now += 2.0
        return False

    async with stand(tmp_path) as here, raw_engine(tmp_path / "raw.sock", turn) as seen:
        here.replicas = (replica("qwen/0", str(tmp_path / "raw.sock")),)
        assert [(await here.chat())[0] for _ in range(2)] == [200, 502]
        assert seen == [(0, 0), (0, 1)]


@pytest.mark.parametrize("partial", [b"HTTP/1.1 200 OK\r\nContent-Ty", b"HTTP/1.1 200 OK\r\n", OK[:-1]])
async def test_a_reused_connection_that_breaks_within_its_answer_is_not_retried(
    tmp_path: Path, partial: bytes
) -> None:
    async def turn(_connection: int, request: int, writer: asyncio.StreamWriter) -> bool:
        writer.write(OK if request == 0 else partial)
        return request == 0

    async with stand(tmp_path) as here, raw_engine(tmp_path / "raw.sock", turn) as seen:
        here.replicas = (replica("qwen/0", str(tmp_path / "raw.sock")),)
        assert [(await here.chat())[0] for _ in range(2)] == [200, 502]
        assert seen == [(0, 0), (0, 1)]


async def test_an_engine_that_answers_no_http_is_502(tmp_path: Path) -> None:
    async def turn(_connection: int, _request: int, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"\x00\x01 what?\r\n\r\n")
        return False

    async with stand(tmp_path) as here, raw_engine(tmp_path / "raw.sock", turn):
        here.replicas = (replica("qwen/0", str(tmp_path / "raw.sock")),)
        status, _ = await here.chat()
    assert status == 502


async def test_an_unforeseen_error_is_a_500_without_a_traceback_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def table() -> tuple[()]:
        raise ZeroDivisionError("boom")

    async with stand(tmp_path) as here:
        here.gateway._fleet._table = table
        with caplog.at_level(logging.ERROR):
            status, document = await here.chat()
    assert (status, document["error"]["code"]) == (500, "internal_error")
    assert "boom" not in str(document)
    assert "ZeroDivisionError" in caplog.text


async def test_a_new_launch_gets_new_connections(tmp_path: Path) -> None:
    async def turn(_connection: int, _request: int, writer: asyncio.StreamWriter) -> bool:
        writer.write(OK)
        return True

    async with stand(tmp_path) as here, raw_engine(tmp_path / "raw.sock", turn) as seen:
        here.replicas = (replica("qwen/0", str(tmp_path / "raw.sock")),)
        await here.chat()
        await here.chat()
        here.change("qwen/0", generation=2)
        await here.chat()
        await here.chat()
        assert seen == [(0, 0), (0, 1), (1, 0), (1, 1)]


async def test_a_replica_that_goes_away_keeps_its_open_stream(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with stand(tmp_path) as here:
        await here.engine("qwen/0", streams(b"data: 1\n\n", b"data: 2\n\n", gate=gate))
        async with here.client.post(f"{here.url}/v1/completions", json={"model": "qwen"}) as answer:
            await answer.content.readany()
            here.replicas = ()
            await here.engine("llama/0", says_hello)
            await here.chat(model="llama")
            gate.set()
            assert await answer.read() == b"data: 2\n\n"


async def test_an_engine_on_loopback_tcp_is_reached(tmp_path: Path) -> None:
    async def turn(_connection: int, _request: int, writer: asyncio.StreamWriter) -> bool:
        writer.write(OK)
        return True

    async with stand(tmp_path) as here, raw_engine(("127.0.0.1", 0), turn) as seen:
        here.replicas = (replica("qwen/0", endpoint=Endpoint(host="127.0.0.1", port=seen.port)),)
        assert [(await here.chat())[0] for _ in range(2)] == [200, 200]
        assert seen == [(0, 0), (0, 1)]


async def test_a_client_that_never_reads_is_cut_and_its_request_ended(tmp_path: Path) -> None:
    async def script(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65_536)

    async with stand(tmp_path, GatewayLimits(client_stall_s=0.1)) as here:
        engine = await here.engine("qwen/0", script)
        host, _, port = here.address.partition(":")
        _, writer = await asyncio.open_connection(host, int(port), limit=1024)
        writer.write(
            b'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{"model":"qwen"}'
        )
        await wait_until(lambda: engine.aborted == 1)
        await wait_until(lambda: here.gateway.in_flight("qwen/0") == 0)
        writer.close()
