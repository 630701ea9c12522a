"""A bounded stretch of a log file that may be of any size.

The window is a run of pieces without holes. Pieces begin at line starts, so their byte offsets are exact
and the file can be read on in either direction; a line's own offset is exact unless bytes that are no
UTF-8 stand before it in its piece. Lines carry numbers that stay theirs while the window moves: numbers
below the first grow downwards from it, so that a view's place survives text added above.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from cockpit.log_text import clean_line
from engine.api.schema import LogChunk

PIECE_BYTES = 65_536
"""What is fetched at once: some 500 lines, several screens."""
WINDOW_BYTES = 16 * PIECE_BYTES
"""Kept at most: a megabyte of text, some 8,000 lines."""
LINE_CHARACTERS = 4_096
"""What is kept of one line; a request's dump in a log can have megabytes."""


class LogLine(NamedTuple):
    """A line as it is drawn, and where it begins in the file."""

    offset: int
    text: str


class Piece(msgspec.Struct, frozen=True):
    """A run of lines from one byte to another."""

    offset: int
    end: int
    lines: tuple[LogLine, ...]
    tail: str
    """Raw text of the last line while it has no line end yet, else empty."""


class LogWindow(msgspec.Struct, frozen=True):
    """Pieces in file order; none while the file is empty or gone."""

    launch_id: int
    pieces: tuple[Piece, ...] = ()
    first: int = 0
    """Number of the first line."""
    size_bytes: int = 0
    ended: bool = False
    skipped_bytes: int = 0
    """Text that came too fast to show and was passed over just before the window."""

    @property
    def start(self) -> int:
        """Byte offset of the first line."""
        return self.pieces[0].offset if self.pieces else 0

    @property
    def end(self) -> int:
        """Byte offset after the last line: where to read on."""
        return self.pieces[-1].end if self.pieces else 0

    @property
    def last(self) -> int:
        """Number after the last line's."""
        return self.first + sum(len(piece.lines) for piece in self.pieces)

    @property
    def at_start(self) -> bool:
        """Nothing comes before it."""
        return self.start == 0

    @property
    def at_end(self) -> bool:
        """Nothing is known to come after it."""
        return self.end >= self.size_bytes

    def line(self, number: int) -> LogLine | None:
        """The line of that number, or None outside of the window."""
        index = number - self.first
        if index < 0:
            return None
        for piece in self.pieces:
            if index < len(piece.lines):
                return piece.lines[index]
            index -= len(piece.lines)
        return None

    def number_at(self, offset: int) -> int | None:
        """Number of the line that holds that byte, or None outside of the window."""
        number = self.first
        for piece in self.pieces:
            if piece.offset <= offset < piece.end:
                within = bisect.bisect_right(piece.lines, offset, key=lambda line: line.offset) - 1
                return number + max(0, within)
            number += len(piece.lines)
        return None

    def __iter__(self) -> Iterator[LogLine]:
        for piece in self.pieces:
            yield from piece.lines


def opened(chunk: LogChunk, *, line_start: bool, skipped_bytes: int = 0) -> LogWindow:
    """A window on one chunk. `line_start`: the chunk is known to begin at a line's start."""
    window = LogWindow(chunk.launch_id, size_bytes=chunk.size_bytes, ended=chunk.ended)
    piece = _piece(chunk, line_start=line_start or chunk.offset == 0)
    if piece is not None:
        window = msgspec.structs.replace(window, pieces=(piece,), skipped_bytes=skipped_bytes)
    return window


def extended_down(window: LogWindow, chunk: LogChunk) -> LogWindow:
    """With the text that follows; what no longer fits leaves at the top."""
    window = msgspec.structs.replace(
        window, size_bytes=max(chunk.size_bytes, chunk.next_offset), ended=chunk.ended
    )
    if chunk.next_offset <= window.end or not chunk.text:
        return window
    last = window.pieces[-1] if window.pieces else None
    if last is None:
        piece = _piece(chunk, line_start=True)
        return msgspec.structs.replace(window, pieces=(piece,) if piece else ())
    if last.tail or last.end - last.offset < PIECE_BYTES:
        pieces = (*window.pieces[:-1], _continued(last, chunk))
    else:
        piece = _piece(chunk, line_start=True)
        pieces = (*window.pieces, *((piece,) if piece else ()))
    first, skipped = window.first, window.skipped_bytes
    while len(pieces) > 1 and pieces[-1].end - pieces[0].offset > WINDOW_BYTES:
        first, skipped = first + len(pieces[0].lines), 0
        pieces = pieces[1:]
    return msgspec.structs.replace(window, pieces=pieces, first=first, skipped_bytes=skipped)


def extended_up(window: LogWindow, chunk: LogChunk) -> LogWindow:
    """With the text that comes before; what no longer fits leaves at the bottom."""
    piece = _piece(chunk, line_start=chunk.offset == 0)
    if piece is None or piece.offset >= window.start:
        return window
    pieces = (piece, *window.pieces)
    while len(pieces) > 1 and pieces[-1].end - pieces[0].offset > WINDOW_BYTES:
        pieces = pieces[:-1]
    return msgspec.structs.replace(
        window, pieces=pieces, first=window.first - len(piece.lines), skipped_bytes=0
    )


def span_before(window: LogWindow) -> tuple[int, int]:
    """Offset and length of the piece to read before the window."""
    offset = max(0, window.start - PIECE_BYTES)
    return offset, window.start - offset


def _piece(chunk: LogChunk, *, line_start: bool) -> Piece | None:
    """The chunk's lines; a first line that began before the chunk is left to the piece before it."""
    text, offset = chunk.text, chunk.offset
    if not line_start:
        head, newline, rest = text.partition("\n")
        if newline and rest:
            text, offset = rest, min(offset + _bytes(head) + 1, chunk.next_offset)
    if not text:
        return None
    lines, tail = _lines(text, offset)
    return Piece(offset, chunk.next_offset, lines, tail)


def _continued(piece: Piece, chunk: LogChunk) -> Piece:
    """The piece with the chunk's text; an unfinished last line goes on."""
    kept = piece.lines[:-1] if piece.tail else piece.lines
    offset = piece.lines[-1].offset if piece.tail else piece.end
    lines, tail = _lines(piece.tail + chunk.text, offset)
    return Piece(piece.offset, chunk.next_offset, (*kept, *lines), tail)


def _lines(text: str, offset: int) -> tuple[tuple[LogLine, ...], str]:
    raw = text.split("\n")
    tail = raw[-1]
    if not tail:
        raw.pop()
    # A line without end is broken here, so that no piece grows without bound.
    return tuple(_numbered(raw, offset)), tail if len(tail) <= PIECE_BYTES else ""


def _numbered(raw: Sequence[str], offset: int) -> Iterator[LogLine]:
    for line in raw:
        yield LogLine(offset, clean_line(line)[:LINE_CHARACTERS])
        offset += _bytes(line) + 1


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))
