"""Figures of an answer, from pieces and the times at which they came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.chat_answer import Answer, AnswerMeter, figures_line
from cockpit.chat_stream import ChatChunk


def test_ttft_ends_with_the_first_content_not_with_the_headers() -> None:
    meter = AnswerMeter(sent_s=10.0)
    meter.add(ChatChunk(served_by="qwen/1"), 10.05)
    meter.add(ChatChunk(text="Paged"), 10.142)
    meter.add(ChatChunk(text=" attention"), 10.3)

    answer = meter.answer()

    assert answer.ttft_s == pytest.approx(0.142)
    assert answer.text == "Paged attention"
    assert answer.served_by == "qwen/1"


def test_rate_leaves_the_first_token_to_ttft() -> None:
    meter = AnswerMeter(sent_s=0.0)
    meter.add(ChatChunk(text="a"), 1.0)
    meter.add(ChatChunk(text="b"), 3.0)
    meter.add(ChatChunk(finish_reason="stop"), 3.0)
    meter.add(ChatChunk(prompt_tokens=118, completion_tokens=21, cached_tokens=96), 9.0)

    answer = meter.answer()

    assert answer.tokens_per_s == pytest.approx(10.0)
    assert (answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens) == (118, 21, 96)


def test_reasoning_counts_as_the_first_piece() -> None:
    meter = AnswerMeter(sent_s=0.0)
    meter.add(ChatChunk(reasoning="hm"), 0.5)
    meter.add(ChatChunk(text="yes"), 4.0)

    assert meter.answer().ttft_s == pytest.approx(0.5)
    assert meter.answer().reasoning == "hm"
    assert meter.answer().text == "yes"


@pytest.mark.parametrize(
    ("tokens", "first_s", "last_s"),
    [(None, 1.0, 2.0), (1, 1.0, 2.0), (0, 1.0, 2.0), (8, 1.0, 1.0)],
)
def test_rate_is_unknown_without_count_or_duration(tokens: int | None, first_s: float, last_s: float) -> None:
    meter = AnswerMeter(sent_s=0.0)
    meter.add(ChatChunk(text="a"), first_s)
    meter.add(ChatChunk(text="b", completion_tokens=tokens), last_s)

    assert meter.answer().tokens_per_s is None


def test_stopped_answer_keeps_its_text_and_says_so() -> None:
    meter = AnswerMeter(sent_s=0.0)
    meter.add(ChatChunk(text="half"), 0.2)
    meter.cancel()

    assert meter.answer().stopped
    assert meter.answer().text == "half"
    assert "stopped" in figures_line(meter.answer())


def test_figures_line_reads_as_on_the_screen() -> None:
    answer = Answer(
        served_by="qwen/1",
        ttft_s=0.142,
        tokens_per_s=61.2,
        completion_tokens=38,
        cached_tokens=96,
        prompt_tokens=118,
        finish_reason="stop",
    )

    assert figures_line(answer) == "qwen/1  TTFT 142 ms  61 tok/s  38 tok  cached 96 of 118"
    assert figures_line(answer, simulated=True).endswith("  SIM")


def test_figures_line_draws_unknown_as_dashes() -> None:
    assert figures_line(Answer()) == "–  TTFT –  – tok/s  – tok  cached – of –"


@given(st.lists(st.floats(min_value=0.001, max_value=5), min_size=2, max_size=30), st.integers(2, 10_000))
def test_rate_times_duration_is_the_number_of_later_tokens(gaps: list[float], tokens: int) -> None:
    meter, now_s = AnswerMeter(sent_s=0.0), 0.0
    for gap in gaps:
        now_s += gap
        meter.add(ChatChunk(text="x"), now_s)
    meter.add(ChatChunk(completion_tokens=tokens), now_s + 1)

    answer = meter.answer()

    assert answer.tokens_per_s is not None
    assert answer.ttft_s is not None
    assert answer.tokens_per_s * (now_s - answer.ttft_s) == pytest.approx(tokens - 1)
