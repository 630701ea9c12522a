"""Lines of a streamed answer."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.chat_stream import ChatChunk, StreamBrokenError, parse_line


def _data(body: object) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n"


@given(st.text(), st.text(), st.none() | st.sampled_from(["stop", "length"]))
def test_text_and_reasoning_arrive_as_they_were_sent(text: str, thought: str, finish: str | None) -> None:
    delta = {"role": "assistant", "content": text, "reasoning_content": thought}
    line = _data({"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    assert parse_line(line, "a/0") == ChatChunk(
        text=text, reasoning=thought, served_by="a/0", finish_reason=finish
    )


@given(st.binary(max_size=60))
def test_a_line_is_a_chunk_or_nothing_or_not_understood(line: bytes) -> None:
    try:
        chunk = parse_line(line, None)
    except msgspec.DecodeError:
        assert line.startswith(b"data:")
    else:
        assert chunk is None or line.startswith(b"data:")


@pytest.mark.parametrize(
    "line", [b"", b"\n", b": ping\n", b"event: message\n", b"data:\n", b"data: [DONE]\n", b"data:[DONE]"]
)
def test_lines_that_say_nothing(line: bytes) -> None:
    assert parse_line(line, None) is None


def test_usage_comes_without_choices() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 2}}
    chunk = parse_line(_data({"choices": [], "usage": usage}), "a/0")
    assert chunk == ChatChunk(served_by="a/0", prompt_tokens=3, completion_tokens=5, cached_tokens=2)


@pytest.mark.parametrize("body", [{}, {"choices": None}, {"choices": [{"delta": None}]}])
def test_what_is_missing_is_unknown(body: dict[str, object]) -> None:
    if body:
        with pytest.raises(msgspec.DecodeError):
            parse_line(_data(body), None)
    else:
        assert parse_line(_data(body), None) == ChatChunk()


def test_newer_engines_name_their_reasoning_otherwise() -> None:
    chunk = parse_line(_data({"choices": [{"delta": {"reasoning": "hm"}}]}), None)
    assert chunk is not None
    assert chunk.reasoning == "hm"


def test_an_error_event_breaks_the_stream_in_its_own_words() -> None:
    with pytest.raises(StreamBrokenError) as caught:
        parse_line(_data({"error": {"message": "the engine broke", "type": "server_error"}}), None)
    assert caught.value.body.message == "the engine broke"
