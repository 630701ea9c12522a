"""Shapes of series in characters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cockpit import charts

LEVELS = "▁▂▃▄▅▆▇█"
VALUES = st.lists(st.none() | st.floats(0, 1e6), max_size=400)


def test_bars_end_with_the_newest_and_leave_gaps_where_unknown() -> None:
    assert charts.bars([0.0, 0.5, None, 1.0], 6, LEVELS) == "  ▁▅ █"
    assert charts.bars([0.0, 1.0, 1.0], 2, LEVELS) == "██"


def test_gauge_fills_from_the_left() -> None:
    assert charts.gauge(0.75, 4, LEVELS) == "▆▆▆▁"
    assert charts.gauge(None, 4, LEVELS) == "    "
    assert charts.gauge(1.7, 4, LEVELS) == "▆▆▆▆"


def test_buckets_are_means_and_the_newest_is_last() -> None:
    assert charts.buckets([1.0, 3.0, 5.0, None], 2, 4) == [2.0, 5.0]
    assert charts.buckets([7.0], 3, 3) == [None, None, 7.0]


@given(VALUES, st.integers(1, 120), st.integers(1, 400))
def test_buckets_stay_within_the_values(series: list[float | None], count: int, span: int) -> None:
    known = [value for value in series if value is not None]
    means = charts.buckets(series, count, span)
    assert len(means) == count
    for mean in means:
        assert mean is None or min(known) * 0.999 - 1e-9 <= mean <= max(known) * 1.001 + 1e-9


def test_braille_draws_bottom_and_top() -> None:
    assert charts.braille([0.0, 0.0], 1, 1.0) == ["⣀"]
    assert charts.braille([1.0, 1.0], 1, 1.0) == ["⠉"]
    assert charts.braille([None, None], 2, 1.0) == [" ", " "]


def test_braille_holds_together_over_a_jump() -> None:
    rows = charts.braille([0.0, 1.0], 2, 1.0)
    dots = sum((ord(cell) - charts.BRAILLE).bit_count() for row in rows for cell in row if cell != " ")
    assert dots == 8


@given(VALUES, st.integers(1, 12))
def test_braille_fills_its_box_and_no_more(points: list[float | None], rows: int) -> None:
    top = charts.nice_top(max((point for point in points if point is not None), default=0.0))
    drawn = charts.braille(points, rows, top)
    assert len(drawn) == rows
    assert {len(row) for row in drawn} == {(len(points) + 1) // 2}


@given(st.floats(1e-6, 1e12))
def test_axis_ends_at_a_round_number_not_far_above(highest: float) -> None:
    top = charts.nice_top(highest)
    assert highest <= top * (1 + 1e-9)
    assert top <= highest * 1.7
