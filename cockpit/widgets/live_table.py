"""A table that is drawn anew each second and stays where the operator's eye is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from cockpit.columns import Column, TableRow, fitting, header_lines, row_line
from cockpit.spans import Line
from cockpit.widgets.painted import PaintedLines

HEADER_LINES = 2
WHEEL_ROWS = 3
CURSOR_MARK = "▌"


class LiveTable(PaintedLines, can_focus=True):
    """Columns of fixed width, rows by key.

    The cursor stays on its row's key, whatever is inserted above; when that row is gone it stays at its
    height. Columns that do not fit are left out as `cockpit.columns` says.
    """

    BINDING_GROUP_TITLE = "Table"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="table.up", tooltip="One row up"),
        Binding("down,j", "move(1)", "Down", show=False, id="table.down", tooltip="One row down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="table.page_up", tooltip="One page up"),
        Binding(
            "pagedown", "page(1)", "Page down", show=False, id="table.page_down", tooltip="One page down"
        ),
        Binding("home,g", "edge(-1)", "First", show=False, id="table.first", tooltip="To the first row"),
        Binding("end,G", "edge(1)", "Last", show=False, id="table.last", tooltip="To the last row"),
    ]

    @dataclass
    class CursorMoved(Message):
        """Another row is chosen."""

        table: LiveTable
        key: str

        @property
        def control(self) -> LiveTable:
            return self.table

    @dataclass
    class Opened(Message):
        """The chosen row was clicked again."""

        table: LiveTable
        key: str

        @property
        def control(self) -> LiveTable:
            return self.table

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        empty: str = "",
        id: str | None = None,  # noqa: A002 - as every widget calls it
    ) -> None:
        """Args:
        empty: what to say while there is no row.
        """
        super().__init__(id=id)
        self._columns = tuple(columns)
        self._rows: tuple[TableRow, ...] = ()
        self._at = 0
        self._top = 0
        self.empty = empty
        """What to say while there is no row."""

    @property
    def rows(self) -> tuple[TableRow, ...]:
        """All rows, in sight or not."""
        return self._rows

    @property
    def cursor_key(self) -> str | None:
        """Key of the chosen row; None in an empty table."""
        return self._rows[self._at].key if self._rows else None

    @property
    def full_height(self) -> int:
        """Lines that it takes to show all."""
        return HEADER_LINES + max(1, len(self._rows))

    def show_rows(self, rows: Sequence[TableRow]) -> None:
        """Show these rows; the cursor stays on its object."""
        key = self.cursor_key
        self._rows = tuple(rows)
        keys = [row.key for row in self._rows]
        self._at = keys.index(key) if key in keys else max(0, min(self._at, len(keys) - 1))
        self._draw()

    def choose(self, key: str) -> None:
        """Put the cursor on this row, if it is there."""
        for index, row in enumerate(self._rows):
            if row.key == key:
                self._go(index)

    def on_resize(self) -> None:
        super().on_resize()
        self._draw()

    def on_focus(self) -> None:
        self._draw()

    def on_blur(self) -> None:
        self._draw()

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        if at is None or at.y < HEADER_LINES:
            return
        index = self._top + at.y - HEADER_LINES
        if index >= len(self._rows):
            return
        event.stop()
        if index == self._at:
            self.post_message(self.Opened(self, self._rows[index].key))
        else:
            self._go(index)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._go(self._at + WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._go(self._at - WHEEL_ROWS)

    def action_move(self, step: int) -> None:
        """Some rows down or up."""
        self._go(self._at + step)

    def action_page(self, step: int) -> None:
        """A screenful down or up."""
        self._go(self._at + step * max(1, self._in_sight - 1))

    def action_edge(self, step: int) -> None:
        """To the first row or the last."""
        self._go(0 if step < 0 else len(self._rows) - 1)

    @property
    def _in_sight(self) -> int:
        return max(0, self.size.height - HEADER_LINES)

    def _go(self, index: int) -> None:
        index = max(0, min(index, len(self._rows) - 1))
        if self._rows and index != self._at:
            self._at = index
            self._draw()
            self.post_message(self.CursorMoved(self, self._rows[index].key))

    def _draw(self) -> None:
        width, in_sight = self.size.width, self._in_sight
        if not width:
            return
        self._top = max(self._at - in_sight + 1, min(self._top, self._at))
        self._top = max(0, min(self._top, len(self._rows) - in_sight))
        columns = fitting(self._columns, width - 1, self._rows)
        lines: list[Line] = list(header_lines(columns, width))
        for index in range(self._top, min(self._top + in_sight, len(self._rows))):
            mark = CURSOR_MARK if index == self._at and self.has_focus else " "
            lines.append(row_line(columns, self._rows[index].cells, width, mark))
        if not self._rows and self.empty:
            lines.append(((f" {self.empty}", "muted"),))
        self.show(lines, HEADER_LINES + self._at - self._top if self._rows else None)
