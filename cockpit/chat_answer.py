"""An answer while it streams: its text so far, and the figures measured on the client's side."""

from __future__ import annotations

import msgspec

from cockpit.chat_stream import ChatChunk

CANCELLED = "cancelled"
"""Finish reason of an answer that the operator stopped; OpenAI's `stop` means a natural end."""


class Answer(msgspec.Struct, frozen=True):
    """An answer as it stands. Times are seconds, measured where the operator sits."""

    text: str = ""
    reasoning: str = ""
    served_by: str | None = None
    """Engine that answered."""
    ttft_s: float | None = None
    """First content or reasoning minus the moment of sending."""
    tokens_per_s: float | None = None
    """(completion tokens - 1) / (last piece - first piece): the first token belongs to TTFT."""
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    """Prompt tokens that the prefix cache had."""
    finish_reason: str | None = None
    error: str | None = None
    """What broke it, with a remedy, or None."""
    hint: str = ""

    @property
    def stopped(self) -> bool:
        """The operator cut it short."""
        return self.finish_reason == CANCELLED


class AnswerMeter:
    """Takes the pieces of one answer and the times at which they came.

    Pure: the caller reads the clock. A piece may carry several tokens, so tokens are never counted
    by pieces; without the engine's own count the rate stays unknown.
    """

    def __init__(self, sent_s: float) -> None:
        self._sent_s = sent_s
        self._first_s: float | None = None
        self._last_s: float | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._seen = Answer()

    def add(self, chunk: ChatChunk, now_s: float) -> None:
        """Take a piece that came at `now_s`."""
        if chunk.text or chunk.reasoning:
            self._first_s = now_s if self._first_s is None else self._first_s
            self._last_s = now_s
            self._text.append(chunk.text)
            self._reasoning.append(chunk.reasoning)
        seen = self._seen
        self._seen = msgspec.structs.replace(
            seen,
            served_by=chunk.served_by or seen.served_by,
            finish_reason=chunk.finish_reason or seen.finish_reason,
            prompt_tokens=_newer(chunk.prompt_tokens, seen.prompt_tokens),
            completion_tokens=_newer(chunk.completion_tokens, seen.completion_tokens),
            cached_tokens=_newer(chunk.cached_tokens, seen.cached_tokens),
        )

    def cancel(self) -> None:
        """The operator stopped it."""
        self._seen = msgspec.structs.replace(self._seen, finish_reason=CANCELLED)

    def fail(self, error: str, hint: str = "") -> None:
        """It broke off."""
        self._seen = msgspec.structs.replace(self._seen, error=error, hint=hint)

    def answer(self) -> Answer:
        """The answer as it stands."""
        return msgspec.structs.replace(
            self._seen,
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            ttft_s=None if self._first_s is None else self._first_s - self._sent_s,
            tokens_per_s=self._tokens_per_s(),
        )

    def _tokens_per_s(self) -> float | None:
        tokens = self._seen.completion_tokens
        if tokens is None or tokens < 2 or self._first_s is None or self._last_s is None:
            return None
        elapsed_s = self._last_s - self._first_s
        return (tokens - 1) / elapsed_s if elapsed_s > 0 else None


def _newer(new: int | None, old: int | None) -> int | None:
    return old if new is None else new


def figures_line(answer: Answer, *, simulated: bool = False) -> str:
    """One line under an answer: `qwen/1  TTFT 142 ms  61 tok/s  38 tok  cached 96 of 118`."""
    parts = [answer.served_by or "–", f"TTFT {_milliseconds(answer.ttft_s)}"]
    parts.append(f"{_number(answer.tokens_per_s)} tok/s")
    parts.append(f"{_number(answer.completion_tokens)} tok")
    # An engine without a prefix cache, or one that does not say, leaves the share unknown.
    parts.append(f"cached {_number(answer.cached_tokens)} of {_number(answer.prompt_tokens)}")
    if answer.stopped:
        parts.append("stopped")
    elif answer.finish_reason == "length":
        parts.append("cut at max tokens")
    if simulated:
        parts.append("SIM")
    return "  ".join(parts)


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds * 1000:.0f} ms" if seconds < 10 else f"{seconds:.1f} s"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    # Below ten a rate's decimal says something; counts have none.
    return f"{value:.1f}" if value < 10 and value != int(value) else f"{value:,.0f}"
