"""A bounded window moves over a file of any size without losing, doubling or renumbering a line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cockpit.log_window import (
    LINE_CHARACTERS,
    PIECE_BYTES,
    WINDOW_BYTES,
    LogWindow,
    extended_down,
    extended_up,
    opened,
    span_before,
)
from tests.support.log_file import LogFile

LONG = LogFile(b"".join(b"%07d %s\n" % (number, b"x" * 92) for number in range(40_000)))
"""4 MB: four windows."""


def texts(window: LogWindow) -> list[str]:
    return [line.text for line in window]


def down(window: LogWindow, log: LogFile, limit: int = PIECE_BYTES) -> LogWindow:
    return extended_down(window, log.chunk(window.end, limit))


def up(window: LogWindow, log: LogFile) -> LogWindow:
    offset, length = span_before(window)
    return extended_up(window, log.chunk(offset, length))


def test_tail_leaves_out_the_line_that_began_before_it() -> None:
    log = LogFile(b"first line\nsecond\nthird\n")

    window = opened(log.chunk(-12, 12), line_start=False)

    assert texts(window) == ["third"]
    assert (window.start, window.end, window.at_end) == (18, 24, True)


def test_unfinished_last_line_goes_on_when_more_is_written() -> None:
    log = LogFile(b"one\ntw")
    window = opened(log.chunk(0, 100), line_start=True)
    assert texts(window) == ["one", "tw"]

    log.write(b"o\nthree\n")
    window = down(window, log)

    assert texts(window) == ["one", "two", "three"]
    assert [line.offset for line in window] == [0, 4, 8]


def test_reading_down_is_bounded_and_keeps_line_numbers() -> None:
    window = opened(LONG.chunk(0, PIECE_BYTES), line_start=True)
    for _ in range(40):
        window = down(window, LONG)

        assert window.end - window.start <= WINDOW_BYTES
        line = window.line(window.last - 1)
        assert line is not None
        assert int(line.text[:7]) == window.last - 1
    first = window.line(window.first)
    assert window.first > 0
    assert first is not None
    assert int(first.text[:7]) == window.first


def test_reading_up_meets_the_window_exactly() -> None:
    window = opened(LONG.chunk(-PIECE_BYTES, PIECE_BYTES), line_start=False)
    for _ in range(40):
        window = up(window, LONG)
        numbers = [int(line.text[:7]) for line in window]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert window.end - window.start <= WINDOW_BYTES


def test_reading_up_to_the_start_ends_there() -> None:
    log = LogFile(b"a\nb\nc\n")
    window = opened(log.chunk(4, 10), line_start=True)

    window = up(window, log)

    assert texts(window) == ["a", "b", "c"]
    assert window.at_start
    assert window.first == -2
    assert up(window, log) == window


def test_line_is_found_by_its_byte() -> None:
    window = opened(LogFile("ü1\nü2\nü3\n".encode()).chunk(0, 100), line_start=True)

    assert [window.number_at(offset) for offset in (0, 2, 3, 4, 8, 11)] == [0, 0, 0, 1, 2, 2]
    assert window.number_at(12) is None


def test_line_without_end_does_not_grow_without_bound() -> None:
    log = LogFile(b"y" * (4 * WINDOW_BYTES))
    window = opened(log.chunk(0, PIECE_BYTES), line_start=True)
    for _ in range(60):
        window = down(window, log)

    assert window.end - window.start <= WINDOW_BYTES
    assert all(len(line.text) <= LINE_CHARACTERS for line in window)
    assert max(len(piece.tail) for piece in window.pieces) <= PIECE_BYTES


def test_nothing_new_leaves_the_lines_and_learns_the_end() -> None:
    log = LogFile(b"a\n")
    window = opened(log.chunk(0, 10), line_start=True)
    log.ended = True

    again = down(window, log)

    assert texts(again) == ["a"]
    assert again.ended


@given(
    st.lists(st.text(alphabet="abü模 \r\t", max_size=12), max_size=30),
    st.lists(st.integers(1, 9), min_size=1, max_size=20),
)
def test_any_cutting_of_a_growing_file_shows_the_same_lines(lines: list[str], steps: list[int]) -> None:
    """The writer may stop anywhere between characters, and each poll sees what is there."""
    text = "\n".join(lines)
    log, window = LogFile(), opened(LogFile().chunk(0, 1), line_start=True)
    position = 0
    while position < len(text):
        step = steps[position % len(steps)]
        log.write(text[position : position + step].encode())
        position += step
        window = down(window, log)

    assert texts(window) == texts(opened(log.chunk(0, 10_000), line_start=True))
    assert [line.offset for line in window] == [
        line.offset for line in opened(log.chunk(0, 10_000), line_start=True)
    ]
