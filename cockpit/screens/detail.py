"""All about the engine or GPU of one row, over the fleet."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen

from cockpit.engine_details import LABEL_CELLS, engine_details, gpu_details
from cockpit.fleet_rows import Place, places
from cockpit.glyphs import Glyphs
from cockpit.spans import Line, wrap_line
from cockpit.widgets.painted import PaintedLines
from engine.model import Frame

BOX_CELLS, FRAME_CELLS = 90, 4
"""Width of the box in `detail.tcss`, and what its frame takes of it."""


class DetailScreen(ModalScreen[str | None]):
    """Follows its object while it is open; dismisses with an action of the fleet to run, or None."""

    CSS_PATH = "detail.tcss"
    BINDING_GROUP_TITLE = "Details"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q", "dismiss(None)", "Back", id="detail.back", tooltip="Back to the fleet"),
        Binding("l", "dismiss('logs')", "Logs", id="detail.logs", tooltip="Read its log"),
        Binding("c", "dismiss('chat')", "Chat", id="detail.chat", tooltip="Chat with it"),
        Binding("s", "dismiss('start')", "Start", id="detail.start", tooltip="Start it"),
        Binding("x", "dismiss('stop')", "Stop", id="detail.stop", tooltip="Stop it; asks first"),
        Binding("r", "dismiss('restart')", "Restart", id="detail.restart", tooltip="Restart it; asks first"),
    ]

    def __init__(self, key: str, frame: Frame, now_s: float, glyphs: Glyphs) -> None:
        """Args:
        key: of the fleet's row.
        """
        super().__init__()
        self._key = key
        self._last = frame
        self._now_s = now_s
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="detail-box"):
            yield PaintedLines(id="detail-lines")

    def on_mount(self) -> None:
        self.query_one("#detail-box").border_subtitle = "l logs  c chat  s start  x stop  r restart  esc back"
        self.query_one("#detail-box").focus()
        self.show_frame(self._last)

    def show_frame(self, frame: Frame | None) -> None:
        """Draw the newest values."""
        if frame is None:
            return
        self._last = frame
        place = next((place for place in places(frame) if place.key == self._key), None)
        box = self.query_one("#detail-box")
        box.border_title = _title(place, self._key)
        lines = _lines(place, frame, max(self._now_s, frame.at_s), self._glyphs)
        shown = self.query_one("#detail-lines", PaintedLines)
        width = shown.size.width or min(BOX_CELLS, self.app.size.width) - FRAME_CELLS
        shown.show([part for line in lines for part in wrap_line(line, width, LABEL_CELLS)])

    def on_resize(self) -> None:
        self.call_after_refresh(self.show_frame, self._last)


def _title(place: Place | None, key: str) -> str:
    if place is None:
        return key
    return place.engine.name if place.engine is not None else f"GPU {place.gpu_index}"


def _lines(place: Place | None, frame: Frame, now_s: float, glyphs: Glyphs) -> tuple[Line, ...]:
    if place is not None and place.engine is not None:
        return engine_details(place.engine, frame, now_s, glyphs)
    if place is not None and place.gpu is not None:
        return gpu_details(place.gpu)
    return ((("it is no longer there", "muted"),),)
