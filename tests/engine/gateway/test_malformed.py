"""Bad requests: always an answer in OpenAI's shape or a closed connection, and the next one is served."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.gateway.limits import GatewayLimits
from engine.gateway.refusal import Refusal
from engine.gateway.request_body import parse_body
from tests.engine.gateway.support import Stand, says_hello, stand

POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"


async def exchange(here: Stand, data: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send bytes, read until the gateway closes: status, headers, body."""
    host, _, port = here.address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    return int(lines[0].split()[1]), headers, body


def with_length(body: bytes, *headers: bytes) -> bytes:
    return POST + b"".join(h + b"\r\n" for h in headers) + b"Content-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /v1/models HTTP/1.1\r\n\r\n", 400),
        (b"GET /v1/models HTTP/9.9\r\n\r\n", 400),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /v1/models HTTP/1.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", 400),
        (b"GET /v1/models HTTP/1.1\r\n" + b"X: 1\r\n" * 1000 + b"\r\n", 400),
        (b"GET /v1/models HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (POST + b"Content-Length: -1\r\n\r\n", 400),
        (POST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (with_length(b"no gzip", b"Content-Encoding: gzip"), 400),
        (POST + b"Expect: a miracle\r\nContent-Length: 2\r\n\r\n{}", 417),
        (b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
        (b"GET /%ff%00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
        (b"GET /v1/models/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
        (b"DELETE /v1/models/qwen HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405),
        (b"GET /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405),
        (b"OPTIONS /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405),
        (with_length(b""), 400),
        (with_length(b"{"), 400),
        (with_length(b"[]"), 400),
        (with_length(b"null"), 400),
        (with_length(b'"qwen"'), 400),
        (with_length(b"{}"), 400),
        (with_length(b'{"model": 7}'), 400),
        (with_length(b'{"model": null}'), 400),
        (with_length(b'{"model": ["qwen"]}'), 400),
        (with_length(b'{"model": "\\ud800"}'), 400),
        (with_length(b'{"model":"qwen","x":"\xff\xfe"}'), 400),
        (with_length(b'{"model":"qwen","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), 400),
        (with_length('{"model":"qwen"}'.encode("utf-16")), 400),
        (with_length(b'{"model":"qwen"}', b"Content-Type: text/plain"), 415),
        (with_length(b'{"model":"qwen"}', b"Content-Type: application/x-www-form-urlencoded"), 415),
        (with_length(b'{"model":"' + b"x" * 5000 + b'"}'), 404),
    ],
)
async def test_a_bad_request_is_answered_in_openais_shape(tmp_path: Path, data: bytes, status: int) -> None:
    async with stand(tmp_path) as here:
        engine = await here.engine("qwen/0", says_hello)
        got, headers, body = await exchange(here, data)
        assert got == status
        error = msgspec.json.decode(body)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"] and len(error["message"]) < 500
        assert b"Traceback" not in body
        assert headers["content-type"].startswith("application/json")
        assert not engine.requests
        assert (await here.chat())[0] == 200


async def test_a_405_names_the_methods_that_work(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        _, headers, _ = await exchange(
            here, b"GET /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        assert headers["allow"] == "POST"


async def test_head_is_answered_without_a_body(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        status, headers, body = await exchange(
            here, b"HEAD /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        assert (status, body) == (200, b"")
        assert int(headers["content-length"]) > 0


async def test_a_declared_length_over_the_limit_is_refused_unread(tmp_path: Path) -> None:
    async with stand(tmp_path, GatewayLimits(body_bytes=1000, linger_s=0.05)) as here:
        status, _, body = await exchange(here, POST + b"Content-Length: 1001\r\n\r\n")
    assert status == 413
    assert "1000 bytes" in msgspec.json.decode(body)["error"]["message"]


async def test_a_chunked_body_over_the_limit_is_refused_before_its_end(tmp_path: Path) -> None:
    async with stand(tmp_path, GatewayLimits(body_bytes=1000, linger_s=0.05)) as here:
        data = POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\ny\r\n"
        assert (await exchange(here, data))[0] == 413


async def test_a_body_that_unpacks_over_the_limit_is_refused(tmp_path: Path) -> None:
    async with stand(tmp_path, GatewayLimits(body_bytes=100_000)) as here:
        bomb = gzip.compress(b" " * 50_000_000)
        assert len(bomb) < 100_000
        assert (await exchange(here, with_length(bomb, b"Content-Encoding: gzip")))[0] == 413


async def test_a_body_of_exactly_the_limit_passes(tmp_path: Path) -> None:
    body = b'{"model":"qwen"}'
    async with stand(tmp_path, GatewayLimits(body_bytes=len(body))) as here:
        await here.engine("qwen/0", says_hello)
        assert (await exchange(here, with_length(body)))[0] == 200


@pytest.mark.parametrize("extra", [(), (b"Content-Type: application/json; charset=utf-8",)])
async def test_a_chunked_body_without_length_passes(tmp_path: Path, extra: tuple[bytes, ...]) -> None:
    async with stand(tmp_path) as here:
        engine = await here.engine("qwen/0", says_hello)
        head = POST + b"".join(line + b"\r\n" for line in extra) + b"Transfer-Encoding: chunked\r\n\r\n"
        assert (await exchange(here, head + b'7\r\n{"model\r\n9\r\n":"qwen"}\r\n0\r\n\r\n'))[0] == 200
        assert engine.bodies == [b'{"model":"qwen"}']


async def test_a_compressed_body_reaches_the_engine_unpacked(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        engine = await here.engine("qwen/0", says_hello)
        packed = gzip.compress(b'{"model":"qwen"}')
        assert (await exchange(here, with_length(packed, b"Content-Encoding: gzip")))[0] == 200
        assert engine.bodies == [b'{"model":"qwen"}']
        assert "Content-Encoding" not in engine.requests[0].headers


async def test_an_old_http_client_gets_a_stream_that_ends_with_the_connection(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        await here.engine("qwen/0", says_hello)
        data = b'POST /v1/completions HTTP/1.0\r\nContent-Length: 16\r\n\r\n{"model":"qwen"}'
        status, headers, body = await exchange(here, data)
        assert status == 200
        assert "transfer-encoding" not in headers
        assert b"hello" in body


async def test_a_client_that_asks_before_sending_is_told_to_go_on(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        await here.engine("qwen/0", says_hello)
        host, _, port = here.address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(POST + b"Expect: 100-continue\r\nContent-Length: 16\r\n\r\n")
        async with asyncio.timeout(5):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b'{"model":"qwen"}')
            assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        writer.close()


async def test_a_client_that_stalls_within_its_body_is_let_go(tmp_path: Path) -> None:
    async with stand(tmp_path, GatewayLimits(body_idle_s=0.05, linger_s=0.05)) as here:
        assert (await exchange(here, POST + b"Content-Length: 100\r\n\r\n{"))[0] == 408


@pytest.mark.parametrize("cut", [1, 40, 100, -1])
async def test_a_client_that_leaves_early_disturbs_nobody(tmp_path: Path, cut: int) -> None:
    async with stand(tmp_path) as here:
        await here.engine("qwen/0", says_hello)
        host, _, port = here.address.partition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(with_length(b'{"model":"qwen"}')[:cut])
        writer.transport.abort()
        assert (await here.chat())[0] == 200


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_bytes_as_a_body_parse_or_are_refused(raw: bytes) -> None:
    try:
        body = parse_body(raw)
    except Refusal as refusal:
        assert refusal.status == 400
    else:
        assert body.model == msgspec.json.decode(raw)["model"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=5), st.text(), st.text())
@settings(max_examples=100, deadline=None)
def test_renaming_the_model_changes_nothing_else(fields: dict[str, object], model: str, served: str) -> None:
    body = parse_body(msgspec.json.encode({**fields, "model": model}))
    assert body.model == model
    assert msgspec.json.decode(body.for_engine(served)) == {
        **msgspec.json.decode(msgspec.json.encode(fields)),
        "model": served,
    }


@given(
    st.lists(
        st.sampled_from(
            [
                b"GET ",
                b"POST ",
                b"/v1/models",
                b" HTTP/1.1\r\n",
                b"\r\n",
                b"A: b\r\n",
                b"Content-Length: 5\r\n",
                b"Transfer-Encoding: chunked\r\n",
                b"0\r\n\r\n",
                b"{}",
                b"\x00",
                b"\xff",
            ]
        ),
        max_size=12,
    )
)
@settings(max_examples=40, deadline=None)
def test_any_mix_of_http_pieces_leaves_the_gateway_up(pieces: list[bytes]) -> None:
    async def run() -> None:
        async with stand(Path("/nowhere")) as here:
            host, _, port = here.address.partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"".join(pieces))
            # An unfinished request is waited for; half a close is the end of the client to aiohttp.
            writer.write_eof()
            async with asyncio.timeout(10):
                answer = await reader.read()
            writer.close()
            assert b"Traceback" not in answer
            async with here.client.get(f"{here.url}/v1/models") as models:
                assert models.status == 200

    asyncio.run(run())
