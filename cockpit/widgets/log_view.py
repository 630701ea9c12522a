"""A pane on a log file of any size: draws the visible rows of a window and asks for more at its edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive, var
from textual.strip import Strip
from textual.widget import Widget

from cockpit.log_search import spans
from cockpit.log_text import line_severity
from cockpit.log_window import LogWindow
from cockpit.widgets.log_rows import Place, Rows, row_starts
from engine.events import Severity

EDGE_LINES = 200
"""Text is asked for before the edge comes into sight: some screens ahead."""
SIDEWAYS_CELLS = 16
"""One press of left or right."""


class LogView(Widget, can_focus=True):
    """Shows a `LogWindow`. Never fetches: it posts `EdgeNeared` and `JumpAsked`, and is given windows.

    A line costs nothing until it is drawn, and all that changed is drawn at once however much was written.
    """

    BINDING_GROUP_TITLE = "Log"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="log.up", tooltip="One row up"),
        Binding("down,j", "move(1)", "Down", show=False, id="log.down", tooltip="One row down"),
        Binding("pageup,b", "page(-1)", "Page up", show=False, id="log.page_up", tooltip="One page up"),
        Binding(
            "pagedown,space", "page(1)", "Page down", show=False, id="log.page_down", tooltip="One page down"
        ),
        Binding("home,g", "jump('head')", "Start", show=False, id="log.head", tooltip="To the start"),
        Binding("end,G", "jump('tail')", "End", show=False, id="log.tail", tooltip="To the end, and follow"),
        Binding("left", "sideways(-1)", "Left", show=False, id="log.left", tooltip="Long lines further left"),
        Binding(
            "right", "sideways(1)", "Right", show=False, id="log.right", tooltip="Long lines further right"
        ),
        Binding("w", "wrap", "Wrap", id="log.wrap", tooltip="Wrap long lines, or cut them at the edge"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "log-view--error",
        "log-view--warning",
        "log-view--gap",
        "log-view--match",
        "log-view--current",
        "log-view--track",
        "log-view--thumb",
    }
    DEFAULT_CSS = """
    LogView {
        height: 1fr;
        & > .log-view--error { color: $text-error; }
        & > .log-view--warning { color: $text-warning; }
        & > .log-view--gap { color: $text-muted; text-style: italic; }
        & > .log-view--match { text-style: reverse; }
        & > .log-view--current { background: $cursor; }
        & > .log-view--track { color: $rule; }
        & > .log-view--thumb { color: $accent; }
    }
    """

    following = reactive(False)
    """Keeps the end in sight as the file grows."""
    wrapped = reactive(False)
    """Long lines go on in the next row, rather than being cut at the edge."""
    needle = reactive("")
    """What is marked wherever it stands."""
    current_hit = reactive[int | None](None)
    """Byte offset of the line that the search stands on."""
    column = var(0)
    """Cells that are scrolled out at the left."""

    @dataclass
    class EdgeNeared(Message):
        """Little is left to show in that direction."""

        view: LogView
        edge: Literal["top", "bottom"]

    @dataclass
    class JumpAsked(Message):
        """To the file's start or end."""

        view: LogView
        to: Literal["head", "tail"]

    @dataclass
    class Moved(Message):
        """Another stretch is in sight, or it is followed or no longer."""

        view: LogView

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - as every widget calls it
        super().__init__(id=id)
        self._window = LogWindow(launch_id=0)
        self._top = Place(0)

    @property
    def window(self) -> LogWindow:
        """What it draws from."""
        return self._window

    @property
    def top_offset(self) -> int:
        """Byte offset of the first visible line."""
        line = self._window.line(max(self._top.line, self._window.first))
        return self._window.start if line is None else line.offset

    @property
    def seen_ratio(self) -> float | None:
        """How far into the file the last visible line stands; None for an empty file."""
        if not self._window.size_bytes:
            return None
        bottom = self._rows.moved(self._top, self._height).line
        line = self._window.line(bottom + 1)
        return (self._window.end if line is None else line.offset) / self._window.size_bytes

    def show(self, window: LogWindow, at: int | None = None) -> None:
        """Draw from this window: at the line that holds byte `at`, else where the view stands."""
        self._window = window
        number = None if at is None else window.number_at(at)
        if self.following:
            self._top = self._rows.lowest_top(self._height)
        elif number is not None:
            # A few lines of what came before are kept in sight above the line.
            self._top = self._rows.clamped(Place(number - self._height // 4), self._height)
        else:
            self._top = self._rows.clamped(self._top, self._height)
        self.refresh()
        self._look_for_edges()
        self.post_message(self.Moved(self))

    def show_start(self, window: LogWindow) -> None:
        """Draw from this window, from its first line."""
        self.following = False
        self._top = Place(window.first)
        self.show(window)

    def show_end(self, window: LogWindow) -> None:
        """Draw from this window, and keep its end in sight."""
        self.following = True
        self.show(window)

    def line_in_sight(self, offset: int) -> bool:
        """Whether the line that begins at that byte is drawn now."""
        number = self._window.number_at(offset)
        bottom = self._rows.moved(self._top, self._height - 1)
        return number is not None and self._top.line <= number <= bottom.line

    def render(self) -> RenderResult:
        """Unused: `render_line` draws."""
        return ""

    def render_line(self, y: int) -> Strip:
        """One row: the line's part, and a cell of the scrollbar."""
        base = self.rich_style
        width = max(0, self.size.width - 1)
        place = self._rows.moved(self._top, y)
        beyond = y > 0 and self._rows.moved(self._top, y - 1) == place
        if beyond or self._window.last == self._lowest:
            strip = Strip.blank(width, base)
        else:
            strip = self._line_strip(place, width, base)
        return Strip.join([strip, Strip([self._bar(y, base)], 1)])

    def action_move(self, rows: int) -> None:
        """Scroll by rows."""
        top = self._rows.clamped(self._rows.moved(self._top, rows), self._height)
        at_bottom = self._window.at_end and top == self._rows.lowest_top(self._height)
        if rows < 0 and top != self._top:
            self.following = False
        elif rows > 0 and at_bottom and top == self._top and not self._window.ended:
            # Pressing on at the very end means: show me what comes.
            self.following = True
        self._top = top
        self.refresh()
        self._look_for_edges()
        self.post_message(self.Moved(self))

    def action_page(self, pages: int) -> None:
        """Scroll by pages, less a row to keep one's place."""
        self.action_move(pages * max(1, self._height - 1))

    def action_jump(self, to: Literal["head", "tail"]) -> None:
        """To the file's start, or to its end and follow."""
        self.post_message(self.JumpAsked(self, to))

    def action_sideways(self, steps: int) -> None:
        """Scroll long lines sideways."""
        if not self.wrapped:
            self.column = max(0, self.column + steps * SIDEWAYS_CELLS)
            self.refresh()

    def action_wrap(self) -> None:
        """Wrap long lines, or cut them."""
        self.wrapped = not self.wrapped

    def watch_wrapped(self) -> None:
        self.column = 0
        self._top = Place(self._top.line)
        self.show(self._window)

    def watch_following(self, following: bool) -> None:
        if following:
            self.show(self._window)

    def on_resize(self) -> None:
        self.show(self._window)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_move(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_move(-3)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As high as there is room."""
        return container.height

    @property
    def _height(self) -> int:
        return max(1, self.size.height)

    @property
    def _lowest(self) -> int:
        return self._window.first - (1 if self._window.skipped_bytes else 0)

    @property
    def _rows(self) -> Rows:
        width = max(0, self.size.width - 1) if self.wrapped else None
        return Rows(self._text, self._lowest, self._window.last, width)

    def _text(self, number: int) -> str | None:
        if number == self._window.first - 1 and self._window.skipped_bytes:
            return f"··· {self._window.skipped_bytes / 2**20:.1f} MiB skipped; scroll up to read them ···"
        line = self._window.line(number)
        return None if line is None else line.text

    def _look_for_edges(self) -> None:
        if self._top.line - self._window.first < EDGE_LINES and not self._window.at_start:
            self.post_message(self.EdgeNeared(self, "top"))
        below = self._window.last - self._top.line - self._height
        if below < EDGE_LINES and not self._window.at_end:
            self.post_message(self.EdgeNeared(self, "bottom"))

    def _line_strip(self, place: Place, width: int, base: Style) -> Strip:
        text = self._text(place.line) or ""
        line = self._window.line(place.line)
        style = base
        if line is None:
            style += self.get_component_rich_style("log-view--gap", partial=True)
        elif (severity := line_severity(text)) is not Severity.INFO:
            style += self.get_component_rich_style(f"log-view--{severity}", partial=True)
        if line is not None and line.offset == self.current_hit:
            style += self.get_component_rich_style("log-view--current", partial=True)
        strip = Strip(list(self._marked(text, style)))
        if self.wrapped:
            starts = [*row_starts(text, width), strip.cell_length]
            strip = strip.crop(starts[place.row], starts[place.row + 1])
            return strip.adjust_cell_length(width, style)
        return strip.crop(self.column, self.column + width).adjust_cell_length(width, style)

    def _marked(self, text: str, style: Style) -> Iterator[Segment]:
        position = 0
        mark = style + self.get_component_rich_style("log-view--match", partial=True)
        for start, end in spans(text, self.needle):
            yield Segment(text[position:start], style)
            yield Segment(text[start:end], mark)
            position = end
        yield Segment(text[position:], style)

    def _bar(self, y: int, base: Style) -> Segment:
        """The scrollbar's cell: where in the file, by bytes, since lines are not counted."""
        size, height = self._window.size_bytes, self._height
        first = round(self.top_offset / size * height) if size else 0
        if self._window.at_end and self._top == self._rows.lowest_top(height):
            first = height - 1
        thumb = y == min(first, height - 1)
        name = "log-view--thumb" if thumb else "log-view--track"
        return Segment("█" if thumb else "│", base + self.get_component_rich_style(name, partial=True))
