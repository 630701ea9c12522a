"""Lines of spans: cut, padded, wrapped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.event_lines import event_line
from cockpit.spans import Line, apart, fit_line, heat, line_cells, text_of, wrap_line
from engine.events import Event
from tests.support.fake_node import past_events

LINES = st.lists(st.tuples(st.text("ab 日é", max_size=12), st.just("text")), max_size=6).map(tuple)


@given(LINES, st.integers(1, 60))
def test_fitted_lines_take_exactly_their_cells(line: Line, width: int) -> None:
    fitted = fit_line(line, width)
    assert line_cells(fitted) == width
    if line_cells(line) > width:
        assert "…" in text_of(fitted)


@given(LINES, LINES, st.integers(1, 60))
def test_left_and_right_share_a_line(left: Line, right: Line, width: int) -> None:
    line = apart(left, right, width)
    assert line_cells(line) == width
    if line_cells(right) < width:
        assert text_of(line).endswith(text_of(right))


@given(LINES, st.integers(8, 40), st.integers(0, 6))
def test_wrapped_lines_lose_no_word_and_fit(line: Line, width: int, indent: int) -> None:
    wrapped = wrap_line(line, width, indent)
    assert "".join(text_of(wrapped_line) for wrapped_line in wrapped).replace(" ", "") == text_of(
        line
    ).replace(" ", "")
    assert all(line_cells(fit_line(part, width)) == width for part in wrapped)
    assert all(len(text_of(part).rstrip()) <= width for part in wrapped)


def test_wrapping_breaks_at_blanks_and_indents() -> None:
    line: Line = (("label ", "muted"), ("one two three", "text"))
    assert [text_of(part).rstrip() for part in wrap_line(line, 14, 6)] == ["label one two", "      three"]


def test_heat_rises_with_the_share() -> None:
    assert [heat(ratio) for ratio in (0.0, 0.1, 0.5, 0.85, 0.99)] == [
        "heat-0", "heat-1", "heat-2", "heat-3", "heat-4",
    ]  # fmt: skip
    assert heat(None) == "muted"


def test_events_say_when_who_and_what_at_any_width() -> None:
    for width in (20, 60, 120):
        for event in past_events():
            assert line_cells(event_line(event, width)) == width
    assert "anna" in text_of(event_line(past_events()[-1], 80))
    assert "maintenance" in text_of(event_line(past_events()[-1], 80))


@pytest.mark.parametrize("width", [30, 45, 59, 60, 120])
def test_an_event_names_what_it_is_about_at_any_width(width: int) -> None:
    event = Event(at_s=0.0, kind="engine.launched", target="qwen/0", message="launched as pid 7")
    assert "qwen/0" in text_of(event_line(event, width))
