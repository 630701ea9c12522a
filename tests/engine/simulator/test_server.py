"""The HTTP surface, asked of real engine processes."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import aiohttp
import msgspec
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.simulated_engine import QUICK, EngineProcess, simulated_engine, spawned_engine
from tests.support.wait_until import wait_until

SLOW = msgspec.structs.replace(QUICK, decode_base_s=0.05)
CHAT = {"model": "served", "messages": [{"role": "user", "content": "Hello there"}]}


async def _metrics(http: aiohttp.ClientSession) -> dict[str, float]:
    async with http.get("/metrics") as response:
        families = text_string_to_metric_families(await response.text())
        return {
            sample.name + sample.labels.get("finished_reason", ""): sample.value
            for family in families
            for sample in family.samples
        }


async def _running(http: aiohttp.ClientSession) -> float:
    return (await _metrics(http))["vllm:num_requests_running"]


async def _until_running(http: aiohttp.ClientSession, wanted: int) -> None:
    deadline_s = time.monotonic() + 5.0
    while await _running(http) != wanted:
        assert time.monotonic() < deadline_s, f"never {wanted} running"


@pytest.fixture(scope="module")
def spawned() -> Iterator[EngineProcess]:
    with spawned_engine() as engine:
        yield engine


@pytest.fixture
async def engine(spawned: EngineProcess) -> EngineProcess:
    """One process for all tests that leave it as it was."""
    await spawned.until_ready()
    return spawned


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_the_openai_package_chats_unchanged() -> None:
    port = _free_port()
    async with (
        simulated_engine("--port", str(port), environment={"VLLM_API_KEY": "secret"}),
        openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="secret", max_retries=0) as client,
    ):
        assert [model.id async for model in client.models.list()] == ["served"]
        whole = await client.chat.completions.create(
            model="served", messages=[{"role": "user", "content": "Why is the sky blue?"}], max_tokens=12
        )
        assert whole.choices[0].message.content
        assert (
            "imulated" in whole.choices[0].message.content or "No model" in whole.choices[0].message.content
        )
        assert whole.choices[0].finish_reason == "length"
        assert whole.usage is not None
        assert whole.usage.completion_tokens == 12
        stream = await client.chat.completions.create(
            model="served",
            messages=[{"role": "user", "content": "Why is the sky blue?"}],
            max_completion_tokens=12,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == whole.choices[0].message.content
        assert chunks[0].choices[0].delta.role == "assistant"
        assert chunks[-2].choices[0].finish_reason == "length"
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.completion_tokens == 12
        completion = await client.completions.create(model="served", prompt="Once upon", max_tokens=5)
        assert completion.usage is not None
        assert completion.usage.completion_tokens == 5
        embedding = await client.embeddings.create(model="served", input=["a", "b"])
        assert [round(sum(v * v for v in item.embedding), 3) for item in embedding.data] == [1.0, 1.0]
        with pytest.raises(openai.NotFoundError, match="`other` does not exist"):
            await client.chat.completions.create(model="other", messages=[{"role": "user", "content": "Hi"}])
        with pytest.raises(openai.AuthenticationError):
            await client.with_options(api_key="wrong").models.list()


async def test_errors_have_vllms_shape_and_status(engine: EngineProcess) -> None:
    cases: list[tuple[str, bytes, int, str | None, str]] = [
        ("/v1/chat/completions", b'{"model": "ser', 400, "body", "validation error"),
        ("/v1/chat/completions", b'{"model": "served"}', 400, "body", "messages"),
        ("/v1/completions", b'{"prompt": "a", "model": "x"}', 404, "model", "does not exist"),
        ("/v1/completions", b'{"prompt": ""}', 400, "prompt", "empty"),
        ("/v1/completions", b'{"prompt": "a", "max_tokens": 0}', 400, "max_tokens", "at least 1, got 0"),
        ("/v1/completions", b'{"prompt": "a", "max_tokens": 9999}', 400, "max_tokens", "max_model_len=4096"),
        ("/v1/completions", b'{"prompt": "a", "n": 2}', 400, "n", "one choice"),
        ("/v1/completions", b'{"prompt": ["a", "b"]}', 400, "prompt", "one prompt"),
        (
            "/v1/completions",
            msgspec.json.encode({"prompt": [1] * 4_096}),
            400,
            "input_tokens",
            "maximum context length is 4096 tokens. However, your prompt contains 4096 input tokens",
        ),
    ]
    async with engine.client() as http:
        for path, body, status, param, message in cases:
            async with http.post(path, data=body) as response:
                error = (await response.json())["error"]
                assert (response.status, error["code"], error["param"]) == (status, status, param), body
                assert message in error["message"]
        async with http.get("/v1/nothing") as response:
            assert (response.status, await response.json()) == (404, {"detail": "Not Found"})
        async with http.get("/v1/completions") as response:
            assert (response.status, await response.json()) == (405, {"detail": "Method Not Allowed"})
        assert await _running(http) == 0


async def test_the_key_guards_v1_and_nothing_else() -> None:
    async with (
        simulated_engine(environment={"VLLM_API_KEY": "secret"}) as engine,
        engine.client() as http,
    ):
        for authorization in (None, "Bearer wrong", "Basic secret", "Bearer"):
            headers = {"Authorization": authorization} if authorization else {}
            async with http.get("/v1/models", headers=headers) as response:
                assert (response.status, await response.json()) == (401, {"error": "Unauthorized"})
        async with http.get("/v1/models", headers={"Authorization": "Bearer secret"}) as response:
            assert (await response.json())["data"][0]["root"] == "lab/model-8b"
        for path in ("/health", "/metrics", "/version"):
            async with http.get(path) as response:
                assert response.status == 200
        assert "secret" not in engine.output


async def test_usage_names_the_tokens_found_in_the_prefix_cache(engine: EngineProcess) -> None:
    async with engine.client() as http:
        before = (await _metrics(http))["vllm:prefix_cache_hits_total"]
        messages = [{"role": "user", "content": "word " * 100}]
        cached, answers = [], []
        for _ in range(2):
            body = {"messages": messages, "max_tokens": 40}
            async with http.post("/v1/chat/completions", json=body) as response:
                reply: dict[str, Any] = await response.json()
            cached.append(reply["usage"]["prompt_tokens_details"]["cached_tokens"])
            answers.append(reply["choices"][0]["message"]["content"])
            messages = [
                *messages,
                {"role": "assistant", "content": answers[-1]},
                {"role": "user", "content": "Go on"},
            ]
        # 103 prompt tokens and the answer's 40 are 8 full blocks and a rest.
        assert cached == [0, 128]
        assert (await _metrics(http))["vllm:prefix_cache_hits_total"] - before == 128


async def test_an_answer_ends_by_itself_unless_told_to_go_on(engine: EngineProcess) -> None:
    async with engine.client() as http:
        async with http.post("/v1/chat/completions", json=CHAT) as response:
            natural = await response.json()
        assert natural["choices"][0]["finish_reason"] == "stop"
        body = {**CHAT, "ignore_eos": True, "max_tokens": 300}
        async with http.post("/v1/chat/completions", json=body) as response:
            forced = await response.json()
        assert forced["choices"][0]["finish_reason"] == "length"
        assert forced["usage"]["completion_tokens"] == 300
        async with http.post("/v1/chat/completions", json={**CHAT, "stop": ["."]}) as response:
            cut = await response.json()
        assert "." not in cut["choices"][0]["message"]["content"]
        assert cut["choices"][0]["finish_reason"] == "stop"


async def test_a_request_id_becomes_part_of_the_answers_id(engine: EngineProcess) -> None:
    async with engine.client() as http:
        headers = {"X-Request-Id": "trace-7"}
        replies = [http.post("/v1/chat/completions", json=CHAT, headers=headers) for _ in range(2)]
        for response in await asyncio.gather(*replies):
            assert response.status == 200
            assert (await response.json())["id"] == "chatcmpl-trace-7"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_goes_away_aborts_its_sequence(engine: EngineProcess, stream: bool) -> None:
    async with engine.client() as http:
        before = (await _metrics(http))["vllm:request_success_totalabort"]
        body = {**CHAT, "ignore_eos": True, "max_tokens": 4_000, "stream": stream}
        async with engine.client() as leaving:
            request = asyncio.ensure_future(leaving.post("/v1/chat/completions", json=body))
            await _until_running(http, 1)
            if stream:
                (await request).close()
            else:
                request.cancel()
                await asyncio.gather(request, return_exceptions=True)
        await _until_running(http, 0)
        assert (await _metrics(http))["vllm:request_success_totalabort"] - before == 1


async def test_tokens_are_counted_as_prompts_are(engine: EngineProcess) -> None:
    async with engine.client() as http:
        async with http.post("/tokenize", json={"messages": CHAT["messages"]}) as response:
            tokenized = await response.json()
        async with http.post("/v1/chat/completions", json={**CHAT, "max_tokens": 1}) as response:
            usage = (await response.json())["usage"]
        assert tokenized["count"] == len(tokenized["tokens"]) == usage["prompt_tokens"]
        assert tokenized["max_model_len"] == 4_096


async def test_the_version_says_that_it_is_simulated(engine: EngineProcess) -> None:
    async with engine.client() as http, http.get("/version") as response:
        assert (await response.json())["version"].endswith("+simulated")


async def test_start_logs_vllms_milestones_and_refuses_connections_until_ready() -> None:
    timing = msgspec.structs.replace(QUICK, startup_s=0.6)
    with spawned_engine(timing=timing) as engine:
        async with engine.client() as http:
            await wait_until(lambda: "Starting to load model" in engine.output, 20.0)
            with pytest.raises(aiohttp.ClientConnectorError):
                await http.get("/health")
            await wait_until(lambda: engine.ready)
            positions = [
                engine.output.index(milestone)
                for milestone in (
                    "Initializing a V1 LLM engine",
                    "Starting to load model",
                    "Loading weights took",
                    "Available KV cache memory",
                    "KV cache size: 9,600 tokens, Maximum concurrency",
                    "Graph capturing finished",
                    "init engine",
                    "Application startup complete",
                )
            ]
            assert positions == sorted(positions)
            async with http.get("/health") as response:
                assert response.status == 200


async def test_sigterm_lets_requests_finish_and_exits_with_0() -> None:
    async with simulated_engine(timing=SLOW) as engine, engine.client() as http:
        body = {**CHAT, "ignore_eos": True, "max_tokens": 12}
        request = asyncio.ensure_future(http.post("/v1/chat/completions", json=body))
        await _until_running(http, 1)
        engine.terminate()
        reply = await (await request).json()
        assert reply["usage"]["completion_tokens"] == 12
        assert await engine.exit_code() == 0
        with pytest.raises(aiohttp.ClientConnectorError):
            await http.get("/health")


async def test_sigterm_while_starting_ends_it() -> None:
    timing = msgspec.structs.replace(QUICK, startup_s=60.0)
    with spawned_engine(timing=timing) as engine:
        await wait_until(lambda: "Simulated engine" in engine.output, 20.0)
        engine.terminate()
        assert await engine.exit_code() == 0


async def test_an_address_in_use_ends_the_start_with_1() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        async with simulated_engine("--port", str(taken.getsockname()[1])) as engine:
            assert await engine.exit_code() == 1
            assert "[Errno 98] Address already in use" in engine.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--timing", "{"], "truncated"),
        (["--timing", '{"max_num_sequences": 3}'], "unknown field `max_num_sequences`"),
        (["--timing", '{"kv_blocks": 10}'], "cannot hold one sequence"),
        (["--fault", "explode"], "unknown fault 'explode'"),
    ],
)
async def test_bad_arguments_end_with_2_and_one_line(arguments: list[str], complaint: str) -> None:
    async with simulated_engine(*arguments) as engine:
        assert await engine.exit_code() == 2
        assert complaint in engine.output
        assert "Traceback" not in engine.output


async def test_a_process_loads_little() -> None:
    """Eight of them start together on two cores."""
    code = (
        "import sys, engine.simulator.__main__;"
        "print([m for m in ('prometheus_client','pydantic','uvloop','numpy','textual') if m in sys.modules])"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    output, _ = await asyncio.wait_for(process.communicate(), 20.0)
    assert output.strip() == b"[]"
