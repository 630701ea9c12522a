"""Logs: what did this launch of the engine say?"""

from __future__ import annotations

from typing import ClassVar, Literal

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, Static
from textual.worker import Worker, WorkerState

from cockpit.client import ClientError
from cockpit.launch_history import cause_line, engine_names, launch_line, neighbour, outdated
from cockpit.log_reader import LogReader
from cockpit.log_search import SearchResult, hit_from, next_hit, previous_hit
from cockpit.screens.engines import EnginesScreen
from cockpit.screens.room import Room
from cockpit.widgets.log_view import LogView
from engine.api.schema import Launch
from engine.model import Frame

POLL_INTERVAL_S = 1.0
"""As often as frames come; each asks only for what was written since."""


class LogsScreen(Room):
    """The log of one launch, of any size, read piece by piece as it is scrolled."""

    CSS_PATH = "logs.tcss"
    BINDING_GROUP_TITLE = "Logs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "pick_engine", "Engine", id="logs.engine", tooltip="Choose the engine"),
        Binding(
            "left_square_bracket",
            "launch('older')",
            "Launch",
            key_display="[ ]",
            id="logs.older",
            tooltip="The launch before; ] the one after",
        ),
        Binding(
            "right_square_bracket",
            "launch('newer')",
            "Newer",
            show=False,
            id="logs.newer",
            tooltip="The launch after",
        ),
        Binding("f", "follow", "Follow", id="logs.follow", tooltip="Keep the end in sight"),
        Binding(
            "slash", "search", "Search", key_display="/", id="logs.search", tooltip="Search the whole file"
        ),
        Binding("n", "hit(1)", "Next", id="logs.next", tooltip="Next hit"),
        Binding("N", "hit(-1)", "Previous", show=False, id="logs.previous", tooltip="Previous hit"),
        Binding(
            "escape", "escape", "Back", show=False, id="logs.escape", tooltip="Leave the search, then the log"
        ),
    ]

    def __init__(self, engine: str | None = None) -> None:
        """Args:
        engine: whose log to open; default the first of the frame.
        """
        super().__init__()
        self._engine = engine
        self._launches: tuple[Launch, ...] = ()
        self._launch: Launch | None = None
        self._reader: LogReader | None = None
        self._result: SearchResult | None = None
        self._problem: str | None = None
        self._poll: Timer | None = None
        """Set once the screen is composed."""

    def compose_room(self) -> ComposeResult:
        yield Static(id="logs-launch", markup=False)
        yield Static(id="logs-cause", markup=False)
        yield Static(id="logs-status", markup=False)
        yield LogView(id="log")
        yield Input(id="logs-search", placeholder="search, case never matters", compact=True)

    def on_mount(self) -> None:
        self.query_one("#logs-search").display = False
        self._view.focus()
        self._poll = self.set_interval(POLL_INTERVAL_S, self._follow_file, name="log poll")
        if self._engine is not None:
            self._open_engine(self._engine)
        else:
            self.show_frame(self.frame)

    def on_screen_suspend(self) -> None:
        if self._poll is not None:
            self._poll.pause()

    def on_screen_resume(self) -> None:
        if self._poll is not None:
            self._poll.resume()

    def show_frame(self, frame: Frame | None) -> None:
        """Open the first engine if none is, and notice that the shown one was launched or became ready."""
        if frame is None or self._poll is None:
            return
        if self._engine is None and frame.engines:
            self._engine = frame.engines[0].name
            self._open_engine(self._engine)
        view = next((one for one in frame.engines if one.name == self._engine), None)
        if view is not None and not self._busy_with("launches") and outdated(self._launches, view):
            launched = all(one.id != view.launch_id for one in self._launches)
            self._refresh_launches(view.name, launched and self._view.following)

    def open_engine(self, engine: str) -> None:
        """Show the newest launch of this engine."""
        self._engine = engine
        if self._poll is not None:
            self._open_engine(engine)

    @property
    def _view(self) -> LogView:
        return self.query_one(LogView)

    def _open_engine(self, engine: str) -> None:
        self._engine = engine
        self._launches, self._launch, self._reader = (), None, None
        self._refresh_launches(engine, True)

    @work(group="launches", exclusive=True, exit_on_error=False, name="launches")
    async def _refresh_launches(self, engine: str, open_newest: bool) -> None:
        try:
            self._launches = await self.node.launches(engine)
        except ClientError as error:
            self._fail(error)
            return
        if not self._launches:
            self._launch = self._reader = None
            self._show_launch()
        elif open_newest or self._launch is None:
            self._open_launch(self._launches[0])
        else:
            self._launch = next((one for one in self._launches if one.id == self._launch.id), self._launch)
            self._show_launch()

    def _open_launch(self, launch: Launch) -> None:
        self._launch, self._result = launch, None
        self._reader = LogReader(self.node, launch.engine, launch.id)
        self._view.needle = ""
        self._view.current_hit = None
        self._show_launch()
        self._go("tail")

    def _fail(self, error: ClientError) -> None:
        self._problem = f"{error.message}; {error.hint}" if error.hint else error.message
        self._show_status()

    @property
    def _fetching(self) -> bool:
        return self._busy_with("log")

    def _busy_with(self, group: str) -> bool:
        return any(worker.group == group and not worker.is_finished for worker in self.workers)

    def _follow_file(self) -> None:
        """Once a second, unless something is being fetched anyway."""
        window = self._view.window
        if self._reader is not None and not self._fetching and not (window.ended and window.at_end):
            self._fetch("poll")

    @on(LogView.EdgeNeared)
    def _edge_neared(self, event: LogView.EdgeNeared) -> None:
        event.stop()
        if self._reader is not None and not self._fetching:
            self._fetch("older" if event.edge == "top" else "newer")

    @on(LogView.JumpAsked)
    def _jump_asked(self, event: LogView.JumpAsked) -> None:
        event.stop()
        self._go(event.to)

    def _go(self, to: Literal["head", "tail"]) -> None:
        if self._reader is not None:
            self._fetch(to)

    @work(group="log", exclusive=True, exit_on_error=False, name="log")
    async def _fetch(
        self, what: Literal["head", "tail", "older", "newer", "poll", "around"], offset: int = 0
    ) -> None:
        """Read a piece and show it. One at a time: a jump cancels what was being read."""
        reader, view = self._reader, self._view
        if reader is None:
            return
        try:
            match what:
                case "head":
                    view.show_start(await reader.head())
                case "tail":
                    view.show_end(await reader.tail())
                case "around":
                    view.following = False
                    view.show(await reader.around(offset), at=offset)
                case "older":
                    view.show(await reader.older(view.window))
                case "newer":
                    view.show(await reader.newer(view.window))
                case "poll" if view.following:
                    view.show(await reader.following(view.window))
                case "poll":
                    view.show(await reader.measured(view.window))
        except ClientError as error:
            self._fail(error)
            return
        ended = self._launch is not None and self._launch.ended_at_s is None and view.window.ended
        if ended and self._engine is not None:
            self._refresh_launches(self._engine, False)
        if self._problem is not None:
            self._problem = None
            self._show_status()

    def action_launch(self, to: Literal["older", "newer"]) -> None:
        """To the launch before or after."""
        if self._launch is not None:
            launch = neighbour(self._launches, self._launch.id, to)
            if launch is None:
                self.notify(f"there is no {to} launch of {self._launch.engine}")
            else:
                self._open_launch(launch)

    def action_follow(self) -> None:
        """Keep the end in sight, or no longer."""
        if self._view.following:
            self._view.following = False
            self._show_status()
        else:
            self._go("tail")

    def action_pick_engine(self) -> None:
        """Choose the engine."""

        def picked(engine: str | None) -> None:
            if engine is not None:
                self._open_engine(engine)

        engines = () if self.frame is None else self.frame.engines
        names = engine_names(engines, self._launches)
        self.app.push_screen(EnginesScreen(names, self._engine), picked)

    def action_search(self) -> None:
        """Ask for what to look for."""
        field = self.query_one("#logs-search", Input)
        field.display = True
        field.value = self._view.needle
        field.focus()

    @on(Input.Submitted, "#logs-search")
    def _search_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._close_search()
        self._view.needle = event.value
        self._view.current_hit = None
        self._result = None
        if event.value and self._reader is not None:
            self._search(self._reader, event.value)
        else:
            self._show_status()

    def _close_search(self) -> None:
        self.query_one("#logs-search").display = False
        self._view.focus()

    @work(group="search", exclusive=True, exit_on_error=False, name="log search")
    async def _search(self, reader: LogReader, needle: str) -> None:
        """Look through the whole file; a hit from here on is shown as soon as it is found."""
        here, standing = self._view.top_offset, False
        try:
            async for result in reader.search(needle):
                if reader is not self._reader:
                    return
                self._result = result
                hit = hit_from(result.hits, here)
                if hit is not None and not standing and (hit >= here or result.complete):
                    standing = True
                    self._stand_on(hit)
                self._show_status()
        except ClientError as error:
            self._fail(error)

    def action_hit(self, step: int) -> None:
        """To the next hit, or the one before."""
        if self._result is None or not self._result.hits:
            self.notify("nothing is found; / searches")
            return
        view = self._view
        here = view.top_offset if view.current_hit is None else view.current_hit
        index = (next_hit if step > 0 else previous_hit)(self._result.hits, here)
        if index is not None:
            self._stand_on(self._result.hits[index])

    def _stand_on(self, hit: int) -> None:
        view = self._view
        view.current_hit = hit
        view.following = False
        if view.window.number_at(hit) is None:
            self._fetch("around", hit)
        elif not view.line_in_sight(hit):
            view.show(view.window, at=hit)
        self._show_status()

    def action_escape(self) -> None:
        """Back out one level: of the search field, of the search, of the screen."""
        if self.query_one("#logs-search").display:
            self._close_search()
        elif self._view.needle:
            self.workers.cancel_group(self, "search")
            self._view.needle, self._view.current_hit, self._result = "", None, None
            self._show_status()
        else:
            self.leave()

    @on(LogView.Moved)
    def _moved(self, event: LogView.Moved) -> None:
        event.stop()
        self._show_status()

    @on(Worker.StateChanged)
    def _worker_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            event.stop()
            self._problem = f"{event.worker.name}: {event.worker.error}"
            self._show_status()

    def _show_launch(self) -> None:
        line, cause = self.query_one("#logs-launch", Static), self.query_one("#logs-cause", Static)
        text = "" if self._launch is None else cause_line(self._launch)
        cause.display = bool(text)
        cause.update(Content(text))
        if self._launch is None:
            text = f"{self._engine or 'no engine'}  was never launched"
        else:
            text = launch_line(self._launches, self._launch)
        simulated = self.frame is not None and self.frame.simulated
        line.update(Content.assemble(("SIM  ", "bold $sim") if simulated else "", text))

    def _show_status(self) -> None:
        view, parts = self._view, []
        if self._problem is not None:
            parts.append(f"▲ {self._problem}")
        window = view.window
        if view.following:
            parts.append("ended, at its end" if window.ended else "following")
        else:
            parts.append("paused")
        ratio = view.seen_ratio
        if ratio is not None:
            parts.append(f"{min(ratio, 1.0):.0%} of {_size(window.size_bytes)}")
        elif self._launch is not None:
            parts.append("empty so far")
        if self._result is not None:
            parts.append(_search_part(self._result, view.current_hit))
        line = self.query_one("#logs-status", Static)
        line.set_class(self._problem is not None, "-problem")
        line.update(Content("  ·  ".join(parts)))


def _size(size_bytes: int) -> str:
    if size_bytes < 1024:
        return f"{size_bytes} B"
    return f"{size_bytes / 1024:.0f} KiB" if size_bytes < 2**20 else f"{size_bytes / 2**20:,.1f} MiB"


def _search_part(result: SearchResult, current: int | None) -> str:
    total = result.total
    text = f"“{result.needle}” "
    if current in result.hits:
        text += f"{total - len(result.hits) + result.hits.index(current) + 1:,} of "
    text += f"{total:,} {'line' if total == 1 else 'lines'}"
    if not result.complete and result.size_bytes:
        text += f", searched {result.scanned_bytes / result.size_bytes:.0%}"
    return text
