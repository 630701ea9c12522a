"""Fleet: is anything wrong, where, what can I do?"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen

from cockpit import format as fmt
from cockpit.actions import Scope, bindings, in_scope
from cockpit.connection import Connection, Link
from cockpit.consequences import Verb
from cockpit.event_history import EventHistory
from cockpit.fleet_rows import COLUMNS, Place, fleet_rows, places
from cockpit.node_line import notice
from cockpit.problems import problems
from cockpit.widgets.event_list import EventList
from cockpit.widgets.header import NodeHeader
from cockpit.widgets.key_line import KeyLine
from cockpit.widgets.live_table import LiveTable
from cockpit.widgets.painted import PaintedLines
from cockpit.widgets.problem_line import ProblemLine
from cockpit.widgets.spark import Trend
from engine.model import EngineView, Frame

if TYPE_CHECKING:
    from cockpit.app import CockpitApp

TRENDS_FROM_CELLS = 110
"""Narrower, the events need the whole width."""
NOTICE_FROM_LINES = 16
"""Lower, the rows need every line; SIM stands in the header all the same."""
EVENT_LINES = 2
"""What the table leaves to the events however many GPUs there are; with the rule above them."""


class FleetScreen(Screen[None]):
    """The node, its worst problem, GPUs with the engine on each, trends, events."""

    CSS_PATH = "fleet.tcss"
    BINDING_GROUP_TITLE = "Fleet"
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.FLEET)

    @property
    def _cockpit(self) -> CockpitApp:
        return cast("CockpitApp", self.app)

    def compose(self) -> ComposeResult:
        glyphs = self._cockpit.glyphs
        yield NodeHeader(id="header")
        yield ProblemLine(glyphs, id="problem")
        yield PaintedLines(id="notice")
        yield LiveTable(COLUMNS, empty="connecting to the node …", id="table")
        with Horizontal(id="below"):
            with Vertical(id="trends"):
                yield Trend("tokens/s", "of all engines", fmt.rate, id="trend-tokens")
                yield Trend("TTFT95", "ms at the gateway", fmt.milliseconds, id="trend-ttft")
            yield EventList(id="events")
        yield KeyLine((*in_scope(Scope.FLEET), *in_scope(Scope.APP)), id="keys")

    def on_mount(self) -> None:
        self.query_one("#trends").border_title = " traffic"
        self.query_one("#events").border_title = " events "
        self.query_one(LiveTable).focus()
        self.set_interval(1.0, self._tick, name="clock")
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        self.query_one("#trends").set_class(event.size.width >= TRENDS_FROM_CELLS, "-shown")
        self.call_after_refresh(self._draw)

    def on_screen_resume(self) -> None:
        self.call_after_refresh(self._draw)

    def show_frame(self, frame: Frame | None) -> None:
        """Draw a newer frame."""
        self._draw()

    def show_connection(self, connection: Connection) -> None:
        """Say whether what is shown is of now."""
        self._draw()

    def show_events(self, history: EventHistory) -> None:
        """Draw the newest events."""
        self.query_one(EventList).show_events(history)

    def _tick(self) -> None:
        """The clock, and the age of what is shown while the node is gone."""
        if self.is_current:
            self._draw_head()

    def _draw(self) -> None:
        app = self._cockpit
        frame, connection = app.frame, app.connection
        with app.batch_update():
            self._draw_head()
            table = self.query_one(LiveTable)
            table.stale = not connection.live and frame is not None
            if frame is not None:
                table.empty = "no GPU and no engine yet: n launches a model"
                table.show_rows(fleet_rows(frame, app.history, app.glyphs))
            elif not connection.live and connection.link is not Link.CONNECTING:
                table.empty = "nothing is known yet"
                table.show_rows(())
            self._size_table(table)
            self.query_one(EventList).show_events(app.events)
            self.query_one("#trend-tokens", Trend).show_series(app.history.tokens_per_s())
            self.query_one("#trend-ttft", Trend).show_series(app.history.ttft_p95_s())

    def _draw_head(self) -> None:
        app = self._cockpit
        now_s = app.now()
        header = self.query_one(NodeHeader)
        header.stale = not app.connection.live and app.frame is not None
        header.show_node(app.frame, now_s, "connecting to the node …")
        self.query_one(ProblemLine).show_problems(problems(app.frame, app.connection, now_s))
        text = notice(app.frame, app.glyphs)
        line = self.query_one("#notice", PaintedLines)
        line.display = bool(text) and self.size.height >= NOTICE_FROM_LINES
        line.show((((f" {text}", "sim"),),))

    def _size_table(self, table: LiveTable) -> None:
        """As tall as its rows, but the events keep some lines."""
        above = 1 + len(self.query_one(ProblemLine).lines) + int(self.query_one("#notice").display)
        room = self.size.height - above - 1 - (EVENT_LINES + 1) - 1
        height = max(3, min(table.full_height, room)) + 1
        if table.styles.height is None or table.styles.height.value != height:
            table.styles.height = height

    # Keys.

    @property
    def selected(self) -> Place | None:
        """What the cursor stands on."""
        frame, key = self._cockpit.frame, self.query_one(LiveTable).cursor_key
        if frame is None or key is None:
            return None
        return next((place for place in places(frame) if place.key == key), None)

    @property
    def selected_engine(self) -> EngineView | None:
        """The engine under the cursor."""
        place = self.selected
        return None if place is None else place.engine

    def _need_engine(self) -> EngineView | None:
        """The engine under the cursor, or None after saying why there is none."""
        engine = self.selected_engine
        if engine is None:
            self.notify("no engine on this row; n launches one", severity="warning")
        return engine

    @on(LiveTable.Opened)
    def action_open(self) -> None:
        """Show all about the row's object."""
        from cockpit.screens.detail import DetailScreen

        app, key = self._cockpit, self.query_one(LiveTable).cursor_key
        if key is None or app.frame is None:
            return

        def chosen(action: str | None) -> None:
            if action is not None:
                self.call_later(getattr(self, f"action_{action}"))

        app.push_screen(DetailScreen(key, app.frame, app.now(), app.glyphs), chosen)

    def action_start(self) -> None:
        """Start the selected engine."""
        self._order("start")

    def action_stop(self) -> None:
        """Stop the selected engine, once confirmed."""
        self._order("stop")

    def action_restart(self) -> None:
        """Restart the selected engine, once confirmed."""
        self._order("restart")

    def _order(self, verb: Verb) -> None:
        engine = self._need_engine()
        if engine is not None:
            self._cockpit.order(verb, engine)

    def action_launch(self) -> None:
        """The launch form."""
        self._cockpit.show_launch()

    def action_chat(self) -> None:
        """Chat with the selected engine, or with whatever is ready."""
        engine = self.selected_engine
        self._cockpit.show_chat(None if engine is None else engine.name)

    def action_logs(self) -> None:
        """The selected engine's log."""
        engine = self._need_engine()
        if engine is not None:
            self._cockpit.show_logs(engine.name)

    def action_next_problem(self) -> None:
        """Go to the next problem and its row."""
        problem = self.query_one(ProblemLine).next()
        if problem is None:
            self.notify("nothing is wrong", timeout=2)
        elif problem.row_key is not None:
            self.query_one(LiveTable).choose(problem.row_key)
