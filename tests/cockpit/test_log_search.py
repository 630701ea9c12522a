"""Hits of a whole file, and which comes next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cockpit.log_search import MAX_HITS, SearchResult, hit_from, next_hit, previous_hit, scanned, spans
from tests.support.log_file import LogFile


def search(log: LogFile, needle: str, limit: int) -> SearchResult:
    result = SearchResult(needle)
    while True:
        chunk = log.chunk(result.scanned_bytes, limit)
        stuck = chunk.next_offset <= result.scanned_bytes
        result = scanned(result, chunk)
        if stuck or result.complete:
            return result


def test_hits_are_the_offsets_of_their_lines_in_any_case() -> None:
    log = LogFile(b"INFO up\nerror one\nfine\nthe ERROR two\n")

    result = search(log, "Error", 1_000)

    assert result.hits == (8, 23)
    assert result.complete


def test_chunks_of_any_size_find_the_same() -> None:
    log = LogFile(b"".join(b"line %d %s\n" % (i, b"needle" if i % 7 == 0 else b"hay") for i in range(300)))

    assert search(log, "needle", 40).hits == search(log, "needle", 10_000).hits
    assert len(search(log, "needle", 40).hits) == 43


def test_escapes_do_not_hide_a_word() -> None:
    assert search(LogFile(b"\x1b[31mER\x1b[0mROR\n"), "error", 100).hits == (0,)


def test_of_too_many_hits_the_last_are_kept_and_all_are_counted() -> None:
    result = search(LogFile(b"x\n" * (MAX_HITS + 50)), "x", 4_096)

    assert result.complete
    assert result.total == MAX_HITS + 50
    assert (len(result.hits), result.hits[0]) == (MAX_HITS, 100)


def test_search_stands_on_the_first_hit_from_here_else_the_nearest_before() -> None:
    assert [hit_from((10, 20, 30), offset) for offset in (0, 10, 11, 31)] == [10, 10, 20, 30]
    assert hit_from((), 0) is None


def test_next_and_previous_go_round() -> None:
    hits = (10, 20, 30)

    assert [next_hit(hits, offset) for offset in (0, 10, 25, 30, 99)] == [0, 1, 2, 0, 0]
    assert [previous_hit(hits, offset) for offset in (0, 10, 25, 30, 99)] == [2, 2, 1, 1, 2]
    assert next_hit((), 5) is None
    assert previous_hit((), 5) is None


def test_spans_are_those_of_the_drawn_text() -> None:
    assert spans("aXbxx", "x") == [(1, 2), (3, 4), (4, 5)]
    assert spans("aaaa", "aa") == [(0, 2), (2, 4)]
    assert spans("abc", "") == []


@given(st.text(max_size=40), st.text(min_size=1, max_size=4))
def test_spans_lie_within_the_line(text: str, needle: str) -> None:
    assert all(0 <= start < end <= len(text) for start, end in spans(text, needle))
