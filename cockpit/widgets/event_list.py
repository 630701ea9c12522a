"""The last events, newest first, as many as there is room for."""

from __future__ import annotations

from cockpit.event_history import EventHistory
from cockpit.event_lines import event_line
from cockpit.widgets.painted import PaintedLines


class EventList(PaintedLines):
    """One line an event: when, who, what about, what."""

    DEFAULT_CSS = """
    EventList { height: 1fr; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - as every widget calls it
        super().__init__(id=id)
        self._history = EventHistory()

    def show_events(self, history: EventHistory) -> None:
        """Draw the newest of these."""
        self._history = history
        width, height = self.size
        if width and height:
            events = history.newest(height)
            lines = [event_line(event, width) for event in events]
            self.show(lines or [((" no events yet", "muted"),)])

    def on_resize(self) -> None:
        super().on_resize()
        self.show_events(self._history)
