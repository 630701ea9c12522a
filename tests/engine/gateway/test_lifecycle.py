"""Listening, the mount on the node's API, draining and closing."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession, UnixConnector, web

from engine.errors import GatewayError, StateError
from engine.gateway.in_flight import InFlight
from engine.gateway.port_holder import port_holder
from engine.gateway.server import Gateway
from engine.ports import Traffic
from tests.engine.gateway.support import HeldClock, says_hello, stand, streams
from tests.support.wait_until import wait_until


async def test_a_taken_port_is_refused_with_who_has_it_and_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(GatewayError) as caught:
            await Gateway(lambda: (), HeldClock()).listen("127.0.0.1", port)
        assert f"127.0.0.1:{port}" in caught.value.message
        assert f"(pid {os.getpid()})" in caught.value.message
        assert "[gateway] listen" in caught.value.hint


@pytest.mark.parametrize(
    ("host", "port"), [("192.0.2.1", 0), ("no.such.host.invalid", 80), ("127.0.0.1", 70_000)]
)
async def test_an_address_that_cannot_be_had_is_refused_by_name(host: str, port: int) -> None:
    with pytest.raises(GatewayError) as caught:
        await Gateway(lambda: (), HeldClock()).listen(host, port)
    assert f"{host}:{port}" in caught.value.message
    assert caught.value.hint


async def test_a_port_that_nobody_holds_has_no_holder() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert port_holder(free.getsockname()[1]) is None


async def test_a_holder_of_another_user_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    row = "0: 0100007F:1F40 00000000:0000 0A 0:0 00:0 0 0 0 4242 1"
    (tmp_path / "net" / "tcp").write_text(f"  sl  local_address\n{row}\n")
    (tmp_path / "77").mkdir()
    assert port_holder(8000, tmp_path) is None
    (tmp_path / "77" / "fd").mkdir()
    (tmp_path / "77" / "fd" / "3").symlink_to("socket:[4242]")
    (tmp_path / "77" / "comm").write_text("vllm\n")
    holder = port_holder(8000, tmp_path)
    assert holder is not None
    assert (holder.pid, holder.name) == (77, "vllm")


async def test_it_listens_once(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        with pytest.raises(StateError):
            await here.gateway.listen("127.0.0.1", 0)


async def test_the_port_is_free_again_after_closing() -> None:
    first, second = (Gateway(lambda: (), HeldClock()) for _ in range(2))
    address = await first.listen("127.0.0.1", 0)
    await first.close()
    assert first.view().listen is None
    host, _, port = address.partition(":")
    assert await second.listen(host, int(port)) == address
    await second.close()


async def test_a_replica_is_pinned_on_the_mount_and_nowhere_else(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        for index in range(3):
            await here.engine(f"qwen/{index}", says_hello)
        app = web.Application()
        here.gateway.mount(app)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
        await runner.setup()
        await web.UnixSite(runner, str(tmp_path / "api.sock")).start()
        pin = {"X-Cockpit-Replica": "qwen/2"}
        async with ClientSession(connector=UnixConnector(str(tmp_path / "api.sock"))) as own:
            served = set()
            for _ in range(3):
                async with own.post(
                    "http://node/openai/v1/completions", json={"model": "qwen"}, headers=pin
                ) as answer:
                    served.add(answer.headers["X-Cockpit-Served-By"])
            assert served == {"qwen/2"}
            async with own.post(
                "http://node/openai/v1/completions",
                json={"model": "qwen"},
                headers={"X-Cockpit-Replica": "qwen/9"},
            ) as answer:
                assert answer.status == 404
                assert "qwen/0, qwen/1, qwen/2" in (await answer.json())["error"]["message"]
            async with own.get("http://node/openai/v1/models/org%2Fqwen") as answer:
                assert (await answer.json())["id"] == "qwen"
            async with own.get("http://node/openai/nowhere") as answer:
                assert (await answer.json())["error"]["code"] == "route_not_found"
        served = set()
        for _ in range(3):
            async with here.client.post(
                f"{here.url}/v1/completions", json={"model": "qwen"}, headers=pin
            ) as answer:
                served.add(answer.headers["X-Cockpit-Served-By"])
        assert len(served) == 3
        await here.gateway.close()
        async with ClientSession(connector=UnixConnector(str(tmp_path / "api.sock"))) as own:
            async with own.post("http://node/openai/v1/completions", json={"model": "qwen"}) as answer:
                assert answer.status == 503
                assert "Retry-After" in answer.headers
            async with own.get("http://node/openai/health") as answer:
                assert answer.status == 503
        await runner.cleanup()


async def test_draining_waits_for_the_last_open_request(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with stand(tmp_path) as here:
        await here.engine("qwen/0", streams(b"data: 1\n\n", b"data: 2\n\n", gate=gate))
        traffic: Traffic = here.gateway
        assert await traffic.wait_idle("qwen/0", 0.0)
        answer = await here.client.post(f"{here.url}/v1/completions", json={"model": "qwen"})
        await answer.content.readany()
        here.change("qwen/0", accepts=False, state="draining")
        assert (await here.chat())[0] == 503
        assert not await traffic.wait_idle("qwen/0", 0.01)
        waiting = asyncio.ensure_future(traffic.wait_idle("qwen/0", 5.0))
        gate.set()
        assert await answer.read() == b"data: 2\n\n"
        assert await waiting


async def test_a_wait_that_timed_out_leaves_the_others_waiting() -> None:
    open_now = InFlight()
    with open_now.held("a"):
        with open_now.held("a"):
            assert open_now.counts == {"a": 2}
            patient = asyncio.ensure_future(open_now.wait_idle("a", 5.0))
            assert not await open_now.wait_idle("a", 0.0)
        assert not await open_now.wait_idle("a", 0.0)
        assert not patient.done()
    assert await patient
    assert open_now.counts == {}


async def test_closing_lets_open_requests_end_within_the_deadline(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with stand(tmp_path) as here:
        await here.engine("qwen/0", streams(b"data: 1\n\n", b"data: 2\n\n", gate=gate))
        answer = await here.client.post(f"{here.url}/v1/completions", json={"model": "qwen"})
        await answer.content.readany()
        closing = asyncio.ensure_future(here.gateway.close(deadline_s=5.0))
        async with ClientSession() as late:
            with pytest.raises(ClientError):
                await late.get(f"{here.url}/v1/models")
        gate.set()
        assert await answer.read() == b"data: 2\n\n"
        await closing


async def test_closing_cuts_what_does_not_end(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        engine = await here.engine("qwen/0", streams(b"data: 1\n\n", then="hang"))
        answer = await here.client.post(f"{here.url}/v1/completions", json={"model": "qwen"})
        await answer.content.readany()
        async with asyncio.timeout(5):
            await here.gateway.close(deadline_s=0.05)
        with pytest.raises(ClientError):
            await answer.read()
        await wait_until(lambda: engine.aborted == 1)
        assert here.gateway.in_flight("qwen/0") == 0
