"""Faults, in real engine processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import aiohttp
import msgspec
import pytest

from tests.support.simulated_engine import QUICK, EngineProcess, simulated_engine, spawned_engine
from tests.support.wait_until import wait_until

PROMPT = {"prompt": "Hello", "max_tokens": 3}


@pytest.fixture(scope="module")
def shared() -> Iterator[EngineProcess]:
    with spawned_engine() as engine:
        yield engine


@pytest.fixture
async def engine(shared: EngineProcess) -> AsyncIterator[EngineProcess]:
    """One process for all tests whose faults can be cleared."""
    await shared.until_ready()
    yield shared
    async with shared.client() as http:
        await _set(http)


async def _complete(http: aiohttp.ClientSession) -> int:
    async with http.post("/v1/completions", json=PROMPT) as response:
        await response.read()
        return response.status


async def _set(http: aiohttp.ClientSession, *words: str) -> None:
    async with http.post("/sim/faults", json=list(words)) as response:
        assert (response.status, await response.json()) == (200, list(words))


async def _hangs(engine: EngineProcess, path: str) -> bool:
    async with engine.client() as http:
        try:
            async with asyncio.timeout(0.3), http.get(path):
                return False
        except TimeoutError:
            return True


async def test_out_of_memory_at_start_exits_with_1_and_says_so() -> None:
    async with simulated_engine(faults=["oom-at-start"]) as engine:
        assert await engine.exit_code() == 1
        assert "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate" in engine.output
        assert "Application startup complete" not in engine.output


async def test_a_bad_argument_exits_with_2_as_argparse_does() -> None:
    async with simulated_engine(faults=["bad-argument"]) as engine:
        assert await engine.exit_code() == 2
        assert "error: unrecognized arguments:" in engine.output


async def test_a_slow_start_takes_longer_than_its_timing() -> None:
    with spawned_engine(faults=["slow-start=60"]) as engine:
        await wait_until(lambda: "Initializing" in engine.output or engine.ready, 20.0)
        assert not engine.ready


async def test_faults_in_the_timing_count_too() -> None:
    timing = msgspec.structs.replace(QUICK, faults=["oom-at-start"])
    async with simulated_engine(timing=timing) as engine:
        assert await engine.exit_code() == 1


async def test_it_crashes_at_the_request_after_the_last_allowed() -> None:
    async with simulated_engine(faults=["crash-after=1"]) as engine, engine.client() as http:
        assert await _complete(http) == 200
        with pytest.raises(aiohttp.ClientError):
            await _complete(http)
        assert await engine.exit_code() == 1
        assert "Traceback (most recent call last)" in engine.output


async def test_it_hangs_with_open_connections_until_the_faults_are_cleared(engine: EngineProcess) -> None:
    async with engine.client() as http:
        await _set(http, "hang-after=0")
        assert not await _hangs(engine, "/health")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await _complete(http)
        assert await _hangs(engine, "/health")
        assert await _hangs(engine, "/metrics")
        assert engine.alive
        await _set(http)
        assert await _complete(http) == 200


async def test_a_stream_breaks_after_its_chunks(engine: EngineProcess) -> None:
    async with engine.client() as http:
        await _set(http, "break-stream-after=2")
        body = {"prompt": "Hello", "max_tokens": 50, "ignore_eos": True, "stream": True}
        async with http.post("/v1/completions", json=body) as response:
            received = b""
            with pytest.raises(aiohttp.ClientPayloadError):
                async for data in response.content.iter_any():
                    received += data
        assert received.count(b"data: ") == 2
        assert await _complete(http) == 200


async def test_a_reused_connection_is_reset_once(engine: EngineProcess) -> None:
    async with engine.client() as http:
        assert await _complete(http) == 200
        await _set(http, "reset-idle")
        # A POST, since aiohttp itself repeats a GET that met a reset.
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await _complete(http)
        assert await _complete(http) == 200
        assert await _complete(http) == 200


async def test_a_first_request_on_a_connection_is_not_reset(engine: EngineProcess) -> None:
    async with engine.client() as http:
        await _set(http, "reset-idle")
    async with engine.client() as http:
        assert await _complete(http) == 200


async def test_sigterm_is_ignored_until_the_fault_is_cleared() -> None:
    async with simulated_engine(faults=["ignore-sigterm"]) as engine, engine.client() as http:
        engine.terminate()
        await wait_until(lambda: "SIGTERM ignored" in engine.output)
        assert await _complete(http) == 200
        await _set(http)
        engine.terminate()
        assert await engine.exit_code() == 0


async def test_the_control_route_shows_replaces_and_refuses(engine: EngineProcess) -> None:
    async with engine.client() as http:
        await _set(http, "crash-after=9")
        async with http.get("/sim/faults") as response:
            assert await response.json() == ["crash-after=9"]
        await _set(http, "ignore-sigterm", "hang-after=4")
        for body in (b'["explode"]', b'["oom-at-start"]', b'{"hang-after": 1}', b"["):
            async with http.post("/sim/faults", data=body) as response:
                assert response.status == 400
                assert (await response.json())["error"]["message"]
        async with http.get("/sim/faults") as response:
            assert await response.json() == ["ignore-sigterm", "hang-after=4"]
