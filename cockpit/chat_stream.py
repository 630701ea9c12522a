"""One line of a streamed chat answer, as OpenAI's protocol sends it."""

from __future__ import annotations

import msgspec

from engine.api import schema


class ChatChunk(msgspec.Struct, frozen=True):
    """A piece of a streamed answer."""

    text: str = ""
    reasoning: str = ""
    served_by: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


class StreamBrokenError(Exception):
    """The stream carried an error event: the engine failed after its first byte."""

    def __init__(self, body: schema.ErrorBody) -> None:
        super().__init__(body.message)
        self.body = body


class _Details(msgspec.Struct, frozen=True):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    delta: _Delta = _Delta()
    finish_reason: str | None = None


class _StreamBody(msgspec.Struct, frozen=True):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: schema.ErrorBody | None = None


def parse_line(line: bytes, served_by: str | None) -> ChatChunk | None:
    """One line of a server-sent event stream, or None where it says nothing.

    Raises:
        StreamBrokenError: the line is an error event.
    """
    if not line.startswith(b"data:"):
        return None
    payload = line[5:].strip()
    if not payload or payload == b"[DONE]":
        return None
    body = msgspec.json.decode(payload, type=_StreamBody)
    if body.error is not None:
        raise StreamBrokenError(body.error)
    choice = body.choices[0] if body.choices else _Choice()
    usage = body.usage or _Usage()
    details = usage.prompt_tokens_details or _Details()
    return ChatChunk(
        text=choice.delta.content or "",
        reasoning=choice.delta.reasoning_content or choice.delta.reasoning or "",
        served_by=served_by,
        finish_reason=choice.finish_reason,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=details.cached_tokens,
    )
