"""How lines of text fall into rows of a given width, and how a place among them moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rich.cells import cell_len

TextOf = Callable[[int], str | None]
"""The text of a line by its number; None outside of what is there."""


class Place(NamedTuple):
    """A row: of a line, counted from its first."""

    line: int
    row: int = 0


def row_starts(text: str, width: int) -> list[int]:
    """Cell at which each row of a wrapped line begins; one row for an empty line.

    A wide character never straddles two rows.
    """
    if width < 2:
        return [0]
    if text.isascii():
        return list(range(0, len(text), width)) or [0]
    starts, cell = [0], 0
    for character in text:
        cells = cell_len(character)
        if cell + cells - starts[-1] > width:
            starts.append(cell)
        cell += cells
    return starts


class Rows:
    """Rows of lines numbered from `lowest` to below `end`. `width` is None where lines are not wrapped."""

    def __init__(self, text_of: TextOf, lowest: int, end: int, width: int | None) -> None:
        self._text_of = text_of
        self._lowest = lowest
        self._end = end
        self._width = width

    def count(self, line: int) -> int:
        """How many rows a line takes."""
        text = self._text_of(line)
        return 1 if self._width is None or text is None else len(row_starts(text, self._width))

    def moved(self, place: Place, rows: int) -> Place:
        """The place some rows further down, or up where negative; held at both ends."""
        line, row = place
        row += rows
        while row < 0 and line > self._lowest:
            line -= 1
            row += self.count(line)
        while row > 0 and row >= (count := self.count(line)) and line + 1 < self._end:
            row -= count
            line += 1
        return Place(line, max(0, min(row, self.count(line) - 1)))

    def lowest_top(self, height: int) -> Place:
        """The top place that shows the very last row at the bottom."""
        last = max(self._lowest, self._end - 1)
        return self.moved(Place(last, self.count(last) - 1), 1 - height)

    def clamped(self, place: Place, height: int) -> Place:
        """The place, not beyond either end."""
        if place.line < self._lowest:
            place = Place(self._lowest)
        elif place.line >= self._end:
            place = Place(max(self._lowest, self._end - 1))
        place = Place(place.line, min(place.row, self.count(place.line) - 1))
        return min(place, self.lowest_top(height))
