"""From a request to what the engine will answer: tokens, block hashes, text and where it ends."""

from __future__ import annotations

import msgspec

from engine.model import SimulatedEngine
from engine.simulator.answers import answer_pieces, natural_length
from engine.simulator.blocks import content_hashes
from engine.simulator.timing import Request
from engine.simulator.tokens import pieces, token_ids
from engine.simulator.wire import ChatRequest, CompletionRequest, RequestProblem


class Plan(msgspec.Struct, frozen=True):
    """One answer, known in full before its first token is due."""

    request: Request
    pieces: tuple[str, ...]
    finish_reason: str
    """`stop` when it ends by itself, `length` when the limit cuts it."""
    max_tokens: int | None
    """The limit that the client gave."""


def plan_answer(body: ChatRequest | CompletionRequest, request_id: str, timing: SimulatedEngine) -> Plan:
    """Plan the answer to a request.

    Raises:
        RequestProblem: no prompt, a prompt over the context length, a limit that makes no sense, `n` not 1.
    """
    limit = body.limit
    _check_sampling(body, limit, timing.max_model_len)
    ids = body.prompt_ids()
    if not ids:
        raise RequestProblem(400, "BadRequestError", "The prompt cannot be empty.", "prompt")
    room = timing.max_model_len - len(ids)
    if room < 1:
        raise RequestProblem(
            400,
            "BadRequestError",
            f"This model's maximum context length is {timing.max_model_len} tokens. However, your prompt "
            f"contains {len(ids)} input tokens, which exceeds this limit even without any output tokens. "
            f"Please reduce the length of the input prompt. (parameter=input_tokens, value={len(ids)})",
            "input_tokens",
        )
    most = room if limit is None else min(limit, room)
    wanted = most if body.ignore_eos else max(natural_length(ids), body.min_tokens or 0)
    finish_reason = "length" if body.ignore_eos or wanted > most else "stop"
    answer = answer_pieces(ids, body.question, min(wanted, most))
    stopped = _cut_at_stop(answer, body.stop)
    if stopped is not None:
        answer, finish_reason = stopped, "stop"
    return Plan(
        request=Request(
            id=request_id,
            prompt_tokens=len(ids),
            output_tokens=len(answer),
            block_hashes=content_hashes([*ids, *token_ids(answer)], timing.block_tokens),
        ),
        pieces=tuple(answer),
        finish_reason=finish_reason,
        max_tokens=limit,
    )


def _check_sampling(body: ChatRequest | CompletionRequest, limit: int | None, max_model_len: int) -> None:
    if body.n not in (None, 1):
        raise RequestProblem(
            400, "BadRequestError", f"a simulated engine gives one choice, n={body.n} was asked", "n"
        )
    if limit is not None and limit < 1:
        raise RequestProblem(
            400,
            "BadRequestError",
            f"max_tokens must be at least 1, got {limit}. (parameter=max_tokens, value={limit})",
            "max_tokens",
        )
    if limit is not None and limit > max_model_len:
        raise RequestProblem(
            400,
            "BadRequestError",
            f"max_tokens={limit} cannot be greater than max_model_len={max_model_len}. Please request fewer "
            f"output tokens. (parameter=max_tokens, value={limit})",
            "max_tokens",
        )


def _cut_at_stop(answer: list[str], stop: str | list[str] | None) -> list[str] | None:
    """The answer up to the first stop string, or None when none occurs; at least one token stays."""
    words = [stop] if isinstance(stop, str) else stop or []
    text = "".join(answer)
    found = [position for word in words if word and (position := text.find(word)) >= 0]
    if not found:
        return None
    return pieces(text[: min(found)]) or [""]
