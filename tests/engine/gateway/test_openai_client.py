"""The `openai` package as it comes, against the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest
from aiohttp import web
from openai import AsyncOpenAI

from tests.engine.gateway.support import Stand, replica, stand, streams

DELTA = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"qwen",'
    b'"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":null}]}\n\n'
)


async def whole(_request: web.Request) -> web.StreamResponse:
    return web.json_response(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "qwen",
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
            ],
        }
    )


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Stand]:
    async with stand(tmp_path) as built:
        yield built


@pytest.fixture
async def client(here: Stand) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{here.url}/v1", api_key="any", max_retries=0) as built:
        yield built


async def test_it_lists_and_finds_models(here: Stand, client: AsyncOpenAI) -> None:
    here.replicas = (replica("qwen/0"),)
    assert [model.id async for model in client.models.list()] == ["qwen"]
    assert (await client.models.retrieve("org/qwen")).id == "qwen"


async def test_it_chats(here: Stand, client: AsyncOpenAI) -> None:
    await here.engine("qwen/0", whole)
    answer = await client.chat.completions.create(model="qwen", messages=[{"role": "user", "content": "hi"}])
    assert answer.choices[0].message.content == "hello"
    assert answer._request_id is not None


async def test_it_streams(here: Stand, client: AsyncOpenAI) -> None:
    await here.engine("qwen/0", streams(DELTA % b"hel", DELTA % b"lo", b"data: [DONE]\n\n"))
    stream = await client.chat.completions.create(
        model="qwen", messages=[{"role": "user", "content": "hi"}], stream=True
    )
    assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "hello"


async def test_it_raises_its_own_errors(here: Stand, client: AsyncOpenAI) -> None:
    here.replicas = (replica("qwen/0", accepts=False, state="starting"),)
    with pytest.raises(openai.NotFoundError, match="known models: qwen") as unknown:
        await client.chat.completions.create(model="gpt-4o", messages=[])
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.InternalServerError, match="qwen/0 is starting") as unready:
        await client.chat.completions.create(model="qwen", messages=[])
    assert unready.value.status_code == 503


async def test_it_sees_an_engine_that_breaks_within_a_stream(here: Stand, client: AsyncOpenAI) -> None:
    await here.engine("qwen/0", streams(DELTA % b"hel", then="break"))
    stream = await client.chat.completions.create(
        model="qwen", messages=[{"role": "user", "content": "hi"}], stream=True
    )
    assert (await anext(stream)).choices[0].delta.content == "hel"
    with pytest.raises(openai.APIError, match="qwen/0 broke off"):
        await anext(stream)
