"""The `openai` package, unchanged, against two real vLLM engines through the gateway."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests.support.cockpit_home import CockpitHome

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(500)]

MODEL = "tiny-llama"


@pytest.fixture
def client(vllm_node: CockpitHome) -> Iterator[openai.OpenAI]:
    """A client as any user would make one."""
    listen = vllm_node.status()["gateway"]["listen"]
    url = f"http://{listen}/v1"
    with openai.OpenAI(base_url=url, api_key="anything", max_retries=0, timeout=60) as client:
        yield client


def test_models_are_the_deployments(client: openai.OpenAI) -> None:
    assert MODEL in [model.id for model in client.models.list()]


def test_chat_answers(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Say something."}],
        max_tokens=8,
        extra_body={"ignore_eos": True},
    )
    assert answer.model == MODEL
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8


def test_chat_streams_piece_by_piece(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "Count."}],
        max_tokens=16,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )
    chunks = list(stream)
    assert len([chunk for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]) > 3
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 16


def test_completions_answer(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model=MODEL, prompt="Once upon", max_tokens=4, extra_body={"ignore_eos": True}
    )
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 4


def test_unknown_model_is_a_404_that_names_the_known(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match=MODEL):
        client.chat.completions.create(model="gpt-99", messages=[{"role": "user", "content": "x"}])


def test_an_engines_own_refusal_passes_through(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match=r"max_tokens|maximum context|context length"):
        client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "x"}], max_tokens=1_000_000
        )


def test_both_replicas_serve(client: openai.OpenAI) -> None:
    served = set()
    for _ in range(8):
        raw = client.chat.completions.with_raw_response.create(
            model=MODEL, messages=[{"role": "user", "content": "x"}], max_tokens=1
        )
        served.add(raw.headers["x-cockpit-served-by"])
    assert served == {"tiny-llama/0", "tiny-llama/1"}


def test_the_engine_itself_is_closed_to_others(vllm_node: CockpitHome) -> None:
    """It listens on a socket in a 0700 folder, and its key is nowhere on a command line."""
    for engine in vllm_node.status()["engines"]:
        assert engine["endpoint"].startswith("unix:")
        assert engine["open_to_local_users"] is None
        socket = vllm_node.path / "state" / "run" / "engines"
        assert socket.stat().st_mode & 0o777 == 0o700
        with open(f"/proc/{engine['pid']}/cmdline", "rb") as file:  # noqa: PTH123
            assert b"api-key" not in file.read()
