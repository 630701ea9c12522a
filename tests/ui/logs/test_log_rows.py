"""Places among wrapped rows."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from cockpit.widgets.log_rows import Place, Rows, row_starts

TEXTS = ["", "a" * 25, "b", "c" * 10, "d" * 11]


def rows(width: int | None) -> Rows:
    return Rows(lambda number: TEXTS[number] if 0 <= number < len(TEXTS) else None, 0, len(TEXTS), width)


def test_wide_characters_never_straddle_two_rows() -> None:
    assert row_starts("模" * 5, 5) == [0, 4, 8]
    assert row_starts("", 5) == [0]
    assert row_starts("a" * 25, 10) == [0, 10, 20]


@given(st.text(alphabet="a模é", max_size=40), st.integers(2, 12))
def test_rows_cover_the_line_and_fit(text: str, width: int) -> None:
    starts = [*row_starts(text, width), cell_len(text)]

    assert all(0 <= following - start <= width for start, following in pairwise(starts))


def test_places_move_by_rows_and_hold_at_both_ends() -> None:
    assert rows(10).moved(Place(0), 1) == Place(1)
    assert rows(10).moved(Place(0), 3) == Place(1, 2)
    assert rows(10).moved(Place(2), -1) == Place(1, 2)
    assert rows(10).moved(Place(0), -5) == Place(0)
    assert rows(10).moved(Place(0), 50) == Place(4, 1)
    assert rows(None).moved(Place(0), 3) == Place(3)


def test_last_page_ends_with_the_last_row() -> None:
    assert rows(10).lowest_top(3) == Place(3)
    assert rows(None).lowest_top(3) == Place(2)
    assert rows(None).lowest_top(50) == Place(0)


@given(st.integers(-60, 60), st.integers(0, 4), st.integers(1, 12))
def test_moving_there_and_back_comes_home_within_the_lines(steps: int, line: int, width: int) -> None:
    start = Place(line)
    there = rows(width).moved(start, steps)

    if there not in (rows(width).moved(start, -10_000), rows(width).moved(start, 10_000)):
        assert rows(width).moved(there, -steps) == start
