"""Reading a log through the node, piece by piece."""

from __future__ import annotations

import pytest

from cockpit.log_reader import LogReader
from cockpit.log_window import PIECE_BYTES, WINDOW_BYTES, LogWindow
from tests.support.log_file import LogFile
from tests.support.room_node import RoomNode

LINE_BYTES = 100


def lines(count: int, first: int = 0) -> bytes:
    return b"".join(
        b"%07d %s\n" % (number, b"x" * (LINE_BYTES - 9)) for number in range(first, first + count)
    )


def reader(log: LogFile) -> LogReader:
    node = RoomNode()
    node.logs[1] = log
    return LogReader(node, "qwen/0", 1)


def first_and_last(window: LogWindow) -> tuple[int, int]:
    numbers = [int(line.text[:7]) for line in window]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    return numbers[0], numbers[-1]


async def test_opening_a_large_file_reads_one_piece() -> None:
    log = LogFile(lines(50_000))

    window = await reader(log).tail()

    assert log.reads == [(-PIECE_BYTES, PIECE_BYTES)]
    assert first_and_last(window)[1] == 49_999
    assert window.at_end


async def test_line_far_away_is_shown_with_what_comes_before() -> None:
    window = await reader(LogFile(lines(50_000))).around(20_000 * LINE_BYTES)

    first, last = first_and_last(window)
    assert first < 20_000 <= last
    number = window.number_at(20_000 * LINE_BYTES)
    assert number is not None
    line = window.line(number)
    assert line is not None
    assert line.text.startswith("0020000")


async def test_following_catches_up_with_all_that_was_written() -> None:
    log = LogFile(lines(10))
    read = reader(log)
    window = await read.tail()
    log.write(lines(3_000, first=10))

    window = await read.following(window)

    assert window.at_end
    assert first_and_last(window) == (0, 3_009)


async def test_following_skips_what_comes_too_fast_and_says_how_much() -> None:
    log = LogFile(lines(10))
    read = reader(log)
    window = await read.tail()
    log.write(lines(4 * WINDOW_BYTES // LINE_BYTES, first=10))

    window = await read.following(window)

    assert window.at_end
    assert window.skipped_bytes > 2 * WINDOW_BYTES
    again = await read.older(window)
    assert again.skipped_bytes == 0
    first_and_last(again)


async def test_measuring_reads_no_text_into_the_window() -> None:
    log = LogFile(lines(10))
    read = reader(log)
    window = await read.tail()
    log.write(lines(5, first=10))

    measured = await read.measured(window)

    assert measured.size_bytes == 15 * LINE_BYTES
    assert not measured.at_end
    assert measured.pieces == window.pieces


@pytest.mark.parametrize("needle", ["0000007 ", "0044444 "])
async def test_search_looks_through_the_whole_file(needle: str) -> None:
    log = LogFile(lines(50_000))

    results = [result async for result in reader(log).search(needle)]

    assert results[-1].complete
    assert results[-1].hits == (int(needle) * LINE_BYTES,)
    assert max(limit for _, limit in log.reads) <= 262_144


async def test_search_of_an_empty_file_ends() -> None:
    results = [result async for result in reader(LogFile()).search("x")]

    assert results[-1].hits == ()
