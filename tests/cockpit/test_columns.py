"""Which columns fit, and where they stand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.columns import OPTIONAL, Column, TableRow, fitting, header_lines, row_line
from cockpit.fleet_rows import COLUMNS
from cockpit.spans import line_cells, text_of

ALWAYS = {column.key for column in COLUMNS if not column.drop}


def keys(width: int) -> list[str]:
    return [column.key for column in fitting(COLUMNS, width)]


def needed(columns: tuple[Column, ...]) -> int:
    return sum(column.gap + column.width for column in columns)


def test_eighty_cells_show_what_the_operator_needs_most() -> None:
    assert keys(79) == [
        "gpu", "engine", "state", "sm", "memory", "kv", "running", "waiting", "ttft", "temperature",
    ]  # fmt: skip


@given(st.integers(0, 400))
def test_columns_never_overflow_and_keep_their_order(width: int) -> None:
    placed = fitting(COLUMNS, width)
    order = [column.key for column in COLUMNS]
    assert [column.key for column in placed] == sorted((column.key for column in placed), key=order.index)
    assert {column.key for column in placed} >= ALWAYS
    assert needed(placed) <= width or {column.key for column in placed} == ALWAYS


@given(st.integers(40, 300))
def test_a_wider_terminal_never_shows_less(width: int) -> None:
    assert set(keys(width)) <= set(keys(width + 1))


@given(st.integers(0, 300))
def test_columns_leave_in_the_stated_order(width: int) -> None:
    shown = set(keys(width))
    left_out = [column.drop for column in COLUMNS if column.key not in shown]
    kept = [column.drop for column in COLUMNS if column.key in shown]
    assert not left_out or min(left_out) >= max(kept)


def test_names_get_the_room_they_need_before_the_state_grows() -> None:
    row = TableRow("a", {"engine": (("qwen3-coder/0", "text"),)})
    with_name = {column.key: column.width for column in fitting(COLUMNS, 79, (row,))}
    without = {column.key: column.width for column in fitting(COLUMNS, 79)}
    assert with_name["engine"] == 13
    assert without["engine"] == 10
    assert without["state"] > with_name["state"]


@given(st.integers(1, 200), st.text("abc –●", max_size=40))
def test_lines_are_as_wide_as_asked(width: int, text: str) -> None:
    columns = fitting(COLUMNS, width)
    line = row_line(columns, {"engine": ((text, "text"),), "kv": ((text, "text"),)}, width)
    assert line_cells(line) == width
    assert [line_cells(one) for one in header_lines(columns, width)] == [width, width]


def test_numbers_end_where_their_header_ends() -> None:
    columns = fitting(COLUMNS, 79)
    title = text_of(header_lines(columns, 80)[0])
    row = text_of(row_line(columns, {"kv": (("100", "text"),), "ttft": (("7", "text"),)}, 80))
    assert row.index("100") + 3 == title.index("KV") + 2
    assert row.index("7") + 1 == title.index("TTFT95") + 6


@pytest.mark.parametrize("width", [80, 100, 110, 120, 160])
def test_a_whole_name_is_worth_an_extra_column(width: int) -> None:
    row = TableRow("a", {"engine": (("tiny-llama-instruct/0", "text"),)})
    columns = fitting(COLUMNS, width, (row,))
    extra = [column.key for column in columns if column.drop >= OPTIONAL]
    whole = "tiny-llama-instruct/0" in text_of(row_line(columns, row.cells, width))
    assert whole or not extra
    assert {column.key for column in columns if column.drop < OPTIONAL} == {
        column.key for column in fitting(COLUMNS, width) if column.drop < OPTIONAL
    }


@given(st.integers(80, 200), st.from_regex(r"[a-z][a-z-]{0,40}/[0-9]{1,2}", fullmatch=True))
def test_a_name_that_is_cut_keeps_its_replica(width: int, name: str) -> None:
    row = TableRow("a", {"engine": ((name, "text"),)})
    shown = text_of(row_line(fitting(COLUMNS, width, (row,)), row.cells, width))
    assert "/" + name.rpartition("/")[2] in shown
