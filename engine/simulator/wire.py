"""What clients send to an engine and what it answers, in the shapes of vLLM 0.32.

Fields that a simulated engine has no use for (temperature, tools, …) are accepted and ignored.
"""

from __future__ import annotations

import msgspec

from engine.simulator.tokens import chat_pieces, pieces, token_ids

JsonObject = dict[str, object]


class RequestProblem(Exception):
    """A request that gets an error answer."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body: JsonObject = {
            "error": {"message": message, "type": kind, "param": param, "code": status},
        }


class ContentPart(msgspec.Struct, frozen=True):
    type: str = "text"
    text: str = ""


class ChatTurn(msgspec.Struct, frozen=True):
    role: str
    content: str | list[ContentPart] | None = None

    @property
    def text(self) -> str:
        """The words; pictures and sounds count for nothing."""
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool | None = False


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """What both generating routes read."""

    model: str | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: int | None = 1
    max_tokens: int | None = None
    min_tokens: int | None = 0
    ignore_eos: bool | None = False
    stop: str | list[str] | None = None


class ChatRequest(Sampling, frozen=True, kw_only=True):
    messages: list[ChatTurn]
    max_completion_tokens: int | None = None

    @property
    def limit(self) -> int | None:
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def question(self) -> str:
        return self.messages[-1].text if self.messages else ""

    def prompt_ids(self) -> list[int]:
        """The prompt's tokens."""
        return token_ids(chat_pieces([(turn.role, turn.text) for turn in self.messages]))


class CompletionRequest(Sampling, frozen=True, kw_only=True):
    prompt: str | list[int | str]

    @property
    def limit(self) -> int | None:
        # OpenAI's default for this route, which vLLM keeps.
        return 16 if self.max_tokens is None else self.max_tokens

    @property
    def question(self) -> str:
        return self.prompt if isinstance(self.prompt, str) else ""

    def prompt_ids(self) -> list[int]:
        """The prompt's tokens, or the ids that were sent.

        Raises:
            RequestProblem: several prompts in one request.
        """
        if isinstance(self.prompt, str):
            return token_ids(pieces(self.prompt))
        texts = [part for part in self.prompt if isinstance(part, str)]
        if len(texts) > 1:
            raise RequestProblem(
                400, "BadRequestError", "a simulated engine takes one prompt a request", "prompt"
            )
        if texts:
            return token_ids(pieces(texts[0]))
        return [part for part in self.prompt if isinstance(part, int)]


class EmbeddingRequest(msgspec.Struct, frozen=True):
    input: str | list[str]
    model: str | None = None
    encoding_format: str = "float"
    dimensions: int | None = None


class TokenizeRequest(msgspec.Struct, frozen=True):
    model: str | None = None
    prompt: str | None = None
    messages: list[ChatTurn] | None = None
    return_token_strs: bool | None = False


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int

    def to_json(self) -> JsonObject:
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "completion_tokens": self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }


def model_card(served_name: str, root: str, max_model_len: int, created: int) -> JsonObject:
    """The one entry of `/v1/models`."""
    return {
        "id": served_name,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": root,
        "parent": None,
        "max_model_len": max_model_len,
        "permission": [],
    }


class AnswerShape(msgspec.Struct, frozen=True):
    """Bodies of one answer: chat or text completion."""

    id: str
    created: int
    model: str
    chat: bool

    def whole(self, text: str, finish_reason: str, usage: Usage) -> JsonObject:
        """The answer in one piece."""
        content: JsonObject = {"text": text}
        if self.chat:
            content = {"message": {"role": "assistant", "content": text, "tool_calls": []}}
        return {
            **self._envelope("chat.completion" if self.chat else "text_completion"),
            "choices": [{**_choice(finish_reason), **content}],
            "usage": usage.to_json(),
        }

    def opening(self) -> JsonObject:
        """First chunk of a streamed chat."""
        return self._chunk({"delta": {"role": "assistant", "content": ""}}, None)

    def piece(self, text: str, finish_reason: str | None) -> JsonObject:
        """A chunk with text."""
        return self._chunk({"delta": {"content": text}} if self.chat else {"text": text}, finish_reason)

    def usage(self, usage: Usage) -> JsonObject:
        """Last chunk, when the client asked for it."""
        return {**self._envelope(self._stream_object), "choices": [], "usage": usage.to_json()}

    def _chunk(self, content: JsonObject, finish_reason: str | None) -> JsonObject:
        return {
            **self._envelope(self._stream_object),
            "choices": [{**_choice(finish_reason), **content}],
        }

    @property
    def _stream_object(self) -> str:
        return "chat.completion.chunk" if self.chat else "text_completion"

    def _envelope(self, kind: str) -> JsonObject:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def _choice(finish_reason: str | None) -> JsonObject:
    return {"index": 0, "logprobs": None, "finish_reason": finish_reason, "stop_reason": None}
