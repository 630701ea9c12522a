"""Finding text in a log: where it stands in the file, and which hit comes next.

Case never matters. A hit is the byte offset of the line it stands in, so that hits of the whole file and
lines of the window compare.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import msgspec

from cockpit.log_window import opened
from engine.api.schema import LogChunk

MAX_HITS = 10_000
"""Kept at most, the last of the file: the newest lines are what a reader of a log is after."""


class SearchResult(msgspec.Struct, frozen=True):
    """What was found so far."""

    needle: str
    hits: tuple[int, ...] = ()
    """Byte offsets of the lines that hold it, rising; the last `MAX_HITS` of them."""
    total: int = 0
    """How many were found, kept or not."""
    scanned_bytes: int = 0
    size_bytes: int = 0

    @property
    def complete(self) -> bool:
        """The whole file was looked through."""
        return self.scanned_bytes >= self.size_bytes


def scanned(result: SearchResult, chunk: LogChunk) -> SearchResult:
    """With the hits of the chunk that follows what was scanned."""
    folded = result.needle.casefold()
    found = [
        line.offset
        for line in opened(chunk, line_start=True)
        if line.offset >= result.scanned_bytes and folded in line.text.casefold()
    ]
    return SearchResult(
        result.needle,
        (*result.hits, *found)[-MAX_HITS:],
        result.total + len(found),
        max(result.scanned_bytes, chunk.next_offset),
        chunk.size_bytes,
    )


def hit_from(hits: Sequence[int], offset: int) -> int | None:
    """The first hit at `offset` or after it, else the nearest before; None without any."""
    if not hits:
        return None
    return hits[min(bisect.bisect_left(hits, offset), len(hits) - 1)]


def next_hit(hits: Sequence[int], offset: int) -> int | None:
    """Index of the first hit after `offset`, from the start again after the last."""
    return bisect.bisect_right(hits, offset) % len(hits) if hits else None


def previous_hit(hits: Sequence[int], offset: int) -> int | None:
    """Index of the last hit before `offset`, from the end again before the first."""
    return (bisect.bisect_left(hits, offset) - 1) % len(hits) if hits else None


def spans(text: str, needle: str) -> list[tuple[int, int]]:
    """Where the needle stands in a line, as character positions, left to right without overlap."""
    if not needle:
        return []
    # Lower case may change a line's length (İ becomes two characters), and then positions do not carry over.
    line, wanted = text.casefold(), needle.casefold()
    if len(line) != len(text):
        line, wanted = text, needle
    found: list[tuple[int, int]] = []
    position = line.find(wanted)
    while position >= 0:
        found.append((position, position + len(wanted)))
        position = line.find(wanted, position + len(wanted))
    return found
