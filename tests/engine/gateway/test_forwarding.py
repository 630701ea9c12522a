"""What reaches the engine, and what comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from yarl import URL

from tests.engine.gateway.support import says_hello, stand, streams
from tests.support.wait_until import wait_until


async def test_an_answer_comes_back_with_status_body_and_headers(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        await here.engine("qwen/0", says_hello)
        async with here.client.post(
            f"{here.url}/v1/chat/completions", json={"model": "qwen"}, headers={"X-Request-Id": "mine-1"}
        ) as answer:
            assert answer.status == 200
            assert (await answer.json())["choices"][0]["message"]["content"] == "hello"
            assert answer.headers["X-Request-Id"] == "mine-1"
            assert answer.headers["X-Cockpit-Served-By"] == "qwen/0"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"])
async def test_the_path_reaches_the_engine_as_it_was_asked(tmp_path: Path, path: str) -> None:
    async with stand(tmp_path) as here:
        engine = await here.engine("qwen/0", says_hello)
        async with here.client.post(
            URL(f"{here.url}{path}?a=1%2F2", encoded=True), json={"model": "qwen"}
        ) as answer:
            assert answer.status == 200
        assert engine.requests[0].raw_path == f"{path}?a=1%2F2"


async def test_the_engine_gets_its_own_key_and_never_the_clients(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        engine = await here.engine("qwen/0", says_hello)
        headers = {
            "Authorization": "Bearer clients",
            "Proxy-Authorization": "Basic x",
            "Connection": "X-Private",
            "X-Private": "1",
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "X-Cockpit-Replica": "qwen/0",
        }
        async with here.client.post(
            f"{here.url}/v1/completions", json={"model": "qwen"}, headers=headers
        ) as answer:
            assert answer.status == 200
        got = engine.requests[0].headers
        assert got.getall("Authorization") == ["Bearer key of qwen/0"]
        assert got["traceparent"] == headers["traceparent"]
        assert not {"Proxy-Authorization", "X-Private", "X-Cockpit-Replica"} & set(got)


@pytest.mark.parametrize("given", ["", "two words", "x" * 129, "ümlaut"])
async def test_a_request_id_that_cannot_be_passed_on_is_replaced(tmp_path: Path, given: str) -> None:
    async with stand(tmp_path) as here:
        engine = await here.engine("qwen/0", says_hello)
        headers = {"X-Request-Id": given} if given else {}
        async with here.client.post(
            f"{here.url}/v1/completions", json={"model": "qwen"}, headers=headers
        ) as answer:
            made = answer.headers["X-Request-Id"]
        assert made != given and len(made) == 32
        assert engine.requests[0].headers["X-Request-Id"] == made


async def test_hop_by_hop_headers_of_an_answer_stay_behind(tmp_path: Path) -> None:
    async def script(_request: web.Request) -> web.StreamResponse:
        return web.json_response({}, headers={"Keep-Alive": "timeout=5", "X-Kept": "yes"})

    async with stand(tmp_path) as here:
        await here.engine("qwen/0", script)
        async with here.client.post(f"{here.url}/v1/completions", json={"model": "qwen"}) as answer:
            assert answer.headers["X-Kept"] == "yes"
            assert "Keep-Alive" not in answer.headers


async def test_the_body_is_untouched_when_the_engine_knows_the_name(tmp_path: Path) -> None:
    raw = b'{ "model":"qwen",\n "x": 1.50, "unicode": "\\u00e9" }'
    async with stand(tmp_path) as here:
        engine = await here.engine("qwen/0", says_hello)
        async with here.client.post(
            f"{here.url}/v1/completions", data=raw, headers={"Content-Type": "application/json"}
        ) as answer:
            assert answer.status == 200
        assert engine.bodies == [raw]


async def test_only_the_model_changes_when_the_engine_has_another_name(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        engine = await here.engine("qwen/0", says_hello, served_name="inner")
        raw = b'{"seed":12345678901234567890123,"model":"qwen","t":1.50}'
        async with here.client.post(
            f"{here.url}/v1/completions", data=raw, headers={"Content-Type": "application/json"}
        ) as answer:
            assert (await answer.json())["model"] == "inner"
        assert engine.bodies == [b'{"seed":12345678901234567890123,"model":"inner","t":1.50}']


async def test_an_alias_reaches_the_engine_under_the_served_name(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        engine = await here.engine("qwen/0", says_hello)
        status, _ = await here.chat(model="org/qwen")
        assert status == 200
        assert msgspec.json.decode(engine.bodies[0])["model"] == "qwen"


async def test_a_large_body_passes_whole(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        engine = await here.engine("qwen/0", says_hello)
        status, _ = await here.chat(prompt="x" * 3_000_000)
        assert status == 200
        assert len(msgspec.json.decode(engine.bodies[0])["prompt"]) == 3_000_000


async def test_an_engines_own_error_is_passed_as_it_is(tmp_path: Path) -> None:
    async def script(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "too long", "code": 400}}, status=400)

    async with stand(tmp_path) as here:
        await here.engine("qwen/0", script)
        assert await here.chat() == (400, {"error": {"message": "too long", "code": 400}})


async def test_the_first_event_arrives_before_the_engine_sends_the_second(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with stand(tmp_path) as here:
        await here.engine("qwen/0", streams(b"data: 1\n\n", b"data: 2\n\n", b"data: [DONE]\n\n", gate=gate))
        async with here.client.post(
            f"{here.url}/v1/chat/completions", json={"model": "qwen", "stream": True}
        ) as answer:
            first = await asyncio.wait_for(answer.content.readany(), 5)
            assert first == b"data: 1\n\n"
            gate.set()
            assert await answer.read() == b"data: 2\n\ndata: [DONE]\n\n"
            assert answer.content_type == "text/event-stream"


async def test_a_client_that_leaves_mid_stream_ends_the_request_at_the_engine(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        engine = await here.engine("qwen/0", streams(b"data: 1\n\n", then="hang"))
        answer = await here.client.post(f"{here.url}/v1/chat/completions", json={"model": "qwen"})
        await answer.content.readany()
        assert here.gateway.in_flight("qwen/0") == 1
        answer.close()
        await wait_until(lambda: engine.aborted == 1)
        await wait_until(lambda: here.gateway.in_flight("qwen/0") == 0)


async def test_a_client_that_leaves_before_the_first_byte_ends_the_request_at_the_engine(
    tmp_path: Path,
) -> None:
    async with stand(tmp_path) as here:
        engine = await here.engine("qwen/0", streams(then="hang"))
        asking = asyncio.ensure_future(here.chat())
        await wait_until(lambda: len(engine.requests) == 1)
        asking.cancel()
        await wait_until(lambda: engine.aborted == 1)
        await wait_until(lambda: here.gateway.in_flight("qwen/0") == 0)


async def test_a_client_that_does_not_read_holds_the_engine_back(tmp_path: Path) -> None:
    written = 0

    async def script(request: web.Request) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for _ in range(1000):
            await response.write(b"x" * 65_536)
            written += 65_536
        return response

    async with stand(tmp_path) as here:
        await here.engine("qwen/0", script)
        reader, writer = await asyncio.open_connection(*here.address.split(":"), limit=1024)
        writer.write(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n" + b'{"model":"qwen"}'
        )
        await reader.read(1)
        seen = -1
        unchanged = 0

        def stalled() -> bool:
            nonlocal seen, unchanged
            unchanged = unchanged + 1 if seen == written else 0
            seen = written
            return unchanged == 20

        await wait_until(stalled)
        assert written < 30_000_000
        writer.close()
        await wait_until(lambda: here.gateway.in_flight("qwen/0") == 0)
