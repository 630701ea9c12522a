"""Columns of a live table: which of them fit a width, and where they stand. Pure.

A table that is too wide for its terminal drops whole columns, never parts of one: those with the
highest `drop` first. What is left over goes to the columns that may grow, so that numbers keep their place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cockpit.format import fit
from cockpit.spans import Line, Role, fit_line, line_cells

OPTIONAL = 20
"""Columns with a `drop` from here on are an extra for wide terminals."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    key: str
    title: str
    unit: str = ""
    """Second line of the header."""
    width: int = 4
    least: int | None = None
    """Width that will do where even the plain columns are tight; default: the width."""
    align: Literal["left", "right"] = "right"
    drop: int = 0
    """Columns with a higher number go first; 0 stays always."""
    gap: int = 2
    """Empty cells before it."""
    grow: int = 0
    """Cells that it may take beyond its width."""
    by_content: bool = False
    """Grows only as far as its longest cell: for names, which do not change from one second to the next."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row; the key is the object that it shows, wherever it stands."""

    key: str
    cells: Mapping[str, Line]
    """By column key; what is missing stays empty."""


def fitting(columns: Sequence[Column], width: int, rows: Sequence[TableRow] = ()) -> tuple[Column, ...]:
    """The columns that fit, in their order, with the width that each gets."""
    kept = list(columns)
    names = sum(
        max(0, min(column.width + column.grow, _longest(column, rows)) - column.width)
        for column in columns
        if column.by_content
    )
    while (last := max(kept, key=lambda column: column.drop)).drop > 0:
        # A whole name is worth an extra column, but none of the plain ones.
        needed = _taken(kept) + (names if last.drop >= OPTIONAL else 0)
        if needed <= width:
            break
        kept.remove(last)
    tight = all(column.drop < OPTIONAL for column in kept)
    widths = {column.key: column.least or column.width if tight else column.width for column in kept}
    spare = max(0, width - _taken(kept))
    # Names first: a column whose content is cut says less than one with room to spare.
    for column in sorted(kept, key=lambda column: not column.by_content):
        most = column.width + column.grow
        wish = min(most, _longest(column, rows)) if column.by_content else most
        more = max(0, min(wish - widths[column.key], spare))
        widths[column.key] += more
        spare -= more
    return tuple(replace(column, width=widths[column.key]) for column in kept)


def _longest(column: Column, rows: Sequence[TableRow]) -> int:
    return max((line_cells(row.cells.get(column.key, ())) for row in rows), default=0)


def header_lines(columns: Sequence[Column], width: int) -> tuple[Line, Line]:
    """Titles and, under them, units."""
    return (
        row_line(columns, {column.key: ((column.title, "muted"),) for column in columns}, width),
        row_line(columns, {column.key: ((column.unit, "muted"),) for column in columns}, width),
    )


def row_line(columns: Sequence[Column], cells: Mapping[str, Line], width: int, mark: str = " ") -> Line:
    """A row's cells in their places, cut at `width`; `mark` stands in the first cell."""
    parts: list[tuple[str, Role]] = []
    for number, column in enumerate(columns):
        gap = " " * column.gap if number else mark + " " * (column.gap - 1)
        parts.append((gap, "accent" if not number else "text"))
        cell = cells.get(column.key, ())
        if column.by_content:
            cell = _cut_name(cell, column.width)
        padding = column.width - line_cells(cell)
        if column.align == "right" and padding > 0:
            parts.append((" " * padding, "text"))
            parts.extend(cell)
        else:
            parts.extend(fit_line(cell, column.width))
    return fit_line(tuple(parts), width)


def _cut_name(cell: Line, width: int) -> Line:
    """A name that is too long loses its middle: `tiny-lla…/0`, since the replica tells two of them apart."""
    text = "".join(piece for piece, _ in cell)
    head, slash, replica = text.rpartition("/")
    room = width - len(slash) - len(replica)
    if line_cells(cell) <= width or not slash or room < 2:
        return cell
    return ((fit(head, room) + slash + replica, cell[0][1]),)


def _taken(columns: Sequence[Column]) -> int:
    """Cells that these need. Columns give way only when no optional one is left to drop."""
    tight = all(column.drop < OPTIONAL for column in columns)
    return sum(column.gap + (column.least or column.width if tight else column.width) for column in columns)
