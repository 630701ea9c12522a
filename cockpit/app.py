"""The terminal application: owns the connection to the node and hands what comes to the active screen.

Screens are imported when they are first shown, and the node is asked after the first frame is painted,
so that the interface is there at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from textual import on, work
from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.reactive import var
from textual.screen import Screen
from textual.types import CSSPathType
from textual.worker import Worker, WorkerState

from cockpit.actions import Scope, bindings, key_beside_text
from cockpit.bridge import Bridge, Revive
from cockpit.client import ClientError, NodeApi
from cockpit.connection import Connection, Link
from cockpit.consequences import Verb, of_stopping, why_not
from cockpit.event_history import EventHistory
from cockpit.fleet_history import FleetHistory
from cockpit.glyphs import Glyphs, glyphs_for
from cockpit.messages import EventArrived, FrameArrived, NodeConnected, NodeLost, NodeStopping
from cockpit.theming import DEFAULT_THEME, load_themes, token_defaults
from engine.api.schema import EngineAction
from engine.model import EngineView, Frame

if TYPE_CHECKING:
    from cockpit.screens.quit import QuitChoice

THEME_SETTING = "theme"
"""Under this key the node remembers the theme."""


@runtime_checkable
class ShowsFrames(Protocol):
    """A screen that draws from frames; called only while it is in sight."""

    def show_frame(self, frame: Frame | None) -> None: ...


@runtime_checkable
class ShowsConnection(Protocol):
    """A screen that says when the node is gone."""

    def show_connection(self, connection: Connection) -> None: ...


@runtime_checkable
class ShowsEvents(Protocol):
    """A screen that lists events."""

    def show_events(self, history: EventHistory) -> None: ...


def _fleet() -> Screen[None]:
    from cockpit.screens.fleet import FleetScreen

    return FleetScreen()


def _chat() -> Screen[None]:
    from cockpit.screens.chat import ChatScreen

    return ChatScreen()


def _logs() -> Screen[None]:
    from cockpit.screens.logs import LogsScreen

    return LogsScreen()


def _commands() -> type[Provider]:
    from cockpit.palette import CockpitCommands

    return CockpitCommands


def _invites_a_launch(frame: Frame) -> bool:
    """Whether the machine has GPUs of its own and nothing to do: then the form is what comes first."""
    return bool(frame.gpus) and not frame.simulated and not frame.engines


class CockpitApp(App[None]):
    """The cockpit on one node.

    Args:
        node: closed when the application ends.
        revive: starts the node again when it was lost rather than stopped; None: only wait for it.
        themes_dir: the user's own themes.
        now: UTC epoch seconds; tests freeze it.
        glyphs: default: those that the locale's encoding has.
    """

    TITLE = "vllm-cockpit"
    # The first screen's rules are read with the app's: read later, all rules are parsed again (40 ms).
    CSS_PATH: ClassVar[CSSPathType | None] = ["app.tcss", "screens/fleet.tcss"]
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        "fleet": _fleet,
        "chat": _chat,
        "logs": _logs,
    }
    DEFAULT_MODE = "fleet"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_commands}
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.APP)
    ENABLE_COMMAND_PALETTE = True

    connection: var[Connection] = var(Connection(Link.CONNECTING, 0.0))
    """Whether the node answers."""
    frame: var[Frame | None] = var[Frame | None](None)
    """The newest frame; None before the first came."""

    def __init__(
        self,
        node: NodeApi,
        *,
        revive: Revive | None = None,
        themes_dir: Path | None = None,
        now: Callable[[], float] = time.time,
        glyphs: Glyphs | None = None,
    ) -> None:
        self.themes = load_themes(themes_dir)
        super().__init__()
        self.node = node
        self.now = now
        self.glyphs = glyphs or glyphs_for()
        self.history = FleetHistory()
        self.events = EventHistory()
        self._bridge = Bridge(node, self.post_message, revive)
        self._theme_chosen = False
        """The operator has chosen here: a remembered choice comes too late."""
        for theme in self.themes.themes:
            self.register_theme(theme)
        self.theme = DEFAULT_THEME

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return token_defaults()

    def on_mount(self) -> None:
        self.set_reactive(CockpitApp.connection, Connection(Link.CONNECTING, self.now()))
        for problem in self.themes.problems:
            self.notify(problem, severity="warning")
        # After the first frame: connecting imports aiohttp, which takes 200 ms.
        self.call_after_refresh(self._connect)

    async def on_unmount(self) -> None:
        await self.node.close()

    @work(group="bridge", name="node stream", exit_on_error=False)
    async def _connect(self) -> None:
        await self._bridge.run()

    # What the node says.

    @on(NodeConnected)
    def _node_connected(self) -> None:
        again = self.connection.link is not Link.CONNECTING
        self._set_connection(Connection(Link.CONNECTED, self.now()))
        if again:
            self.notify("the node is back")
        elif not self._theme_chosen:
            self._recall_theme()

    @on(NodeLost)
    def _node_lost(self, message: NodeLost) -> None:
        since_s = self.connection.since_s if self.connection.link is Link.LOST else self.now()
        self._set_connection(Connection(Link.LOST, since_s, message.problem, message.hint))

    @on(NodeStopping)
    def _node_stopping(self, message: NodeStopping) -> None:
        self._set_connection(Connection(Link.STOPPED, self.now(), stopped_by=message.by))

    @on(FrameArrived)
    def _frame_arrived(self, message: FrameArrived) -> None:
        first = self.frame is None
        self.frame = message.frame
        self.history.add(message.frame)
        for screen in self.screen_stack:
            if isinstance(screen, ShowsFrames) and screen.is_mounted:
                screen.show_frame(message.frame)
        if first and len(self.screen_stack) == 1 and _invites_a_launch(message.frame):
            self.show_launch()

    @on(EventArrived)
    def _event_arrived(self, message: EventArrived) -> None:
        self.events.add(message.event)
        for screen in self.screen_stack:
            if isinstance(screen, ShowsEvents) and screen.is_mounted:
                screen.show_events(self.events)

    def _set_connection(self, connection: Connection) -> None:
        self.connection = connection
        for screen in self.screen_stack:
            if isinstance(screen, ShowsConnection) and screen.is_mounted:
                screen.show_connection(connection)

    @on(Worker.StateChanged)
    def _worker_changed(self, event: Worker.StateChanged) -> None:
        """A worker's error is shown, never the end of the application."""
        if event.state is WorkerState.ERROR:
            self.notify(f"{event.worker.name}: {event.worker.error}", severity="error")

    def report(self, error: ClientError) -> None:
        """Show what the node refused, with its remedy."""
        text = f"{error.message}\n{error.hint}" if error.hint else error.message
        self.notify(text, severity="error", markup=False)

    # Where to look.

    def action_show_fleet(self) -> None:
        """Back to the fleet."""
        self.show_mode("fleet")

    def show_mode(self, mode: str) -> Screen[object]:
        """Switch to `fleet`, `chat` or `logs`; its screen is there at once, and gets the newest frame."""
        self.switch_mode(mode)
        screen = self.screen
        if isinstance(screen, ShowsFrames) and screen.is_mounted:
            screen.show_frame(self.frame)
        return screen

    def show_logs(self, engine: str | None) -> None:
        """The log of an engine."""
        from cockpit.screens.logs import LogsScreen

        screen = self.show_mode("logs")
        if engine is not None and isinstance(screen, LogsScreen):
            screen.open_engine(engine)

    def show_chat(self, target: str | None) -> None:
        """A chat with a deployment or a replica."""
        from cockpit.screens.chat import ChatScreen

        screen = self.show_mode("chat")
        if target is not None and isinstance(screen, ChatScreen):
            screen.ask_of(target)

    def show_launch(self) -> None:
        """The form for a new deployment."""
        from cockpit.screens.launch import LaunchScreen

        def launched(name: str | None) -> None:
            if name is not None:
                self.notify(f"{name} is launched")

        self.push_screen(LaunchScreen(), launched)

    # Orders.

    def order(self, verb: Verb, engine: EngineView) -> None:
        """Start, stop or restart an engine; says why not, and asks before anything is interrupted."""
        if self.connection.link in (Link.LOST, Link.STOPPED):
            self.notify(f"no node is there to {verb} {engine.name}", severity="warning", markup=False)
        elif (why := why_not(verb, engine)) is not None:
            self.notify(why, severity="warning")
        elif verb == "start":
            self._act(verb, engine.name)
        elif self.frame is not None:
            self._confirm(verb, engine, of_stopping(engine, self.frame))

    def _confirm(self, verb: Verb, engine: EngineView, consequence: str) -> None:
        from cockpit.screens.confirm import ConfirmScreen

        def answered(yes: bool | None) -> None:
            if yes:
                self._act(verb, engine.name)

        name = verb.capitalize()
        self.push_screen(
            ConfirmScreen(f"{name} {engine.name} ({engine.model})?", consequence, name), answered
        )

    @work(group="action", name="order", exit_on_error=False)
    async def _act(self, verb: Verb, target: str) -> None:
        """The node's answer is a toast; what follows is seen in the fleet."""
        try:
            reply = await self.node.act(EngineAction(action=verb, target=target))
        except ClientError as error:
            self.report(error)
            return
        note = "" if reply.durable else " (not recorded: the database cannot be written)"
        self.notify(f"{verb} {target}{note}", timeout=3, markup=False)

    # Keys.

    def get_key_display(self, binding: Binding) -> str:
        """Beside a field that takes text, the key that is no text: `?` would be typed there."""
        focused = self.focused
        in_text = focused is not None and focused.check_consume_key("q", "q")
        return (key_beside_text(binding.id) if in_text else None) or super().get_key_display(binding)

    # Themes.

    def action_next_theme(self) -> None:
        """Change to the next theme."""
        names = [theme.name for theme in self.themes.themes]
        at = names.index(self.theme) if self.theme in names else -1
        self.choose_theme(names[(at + 1) % len(names)])

    def choose_theme(self, name: str) -> None:
        """Change the theme and remember it."""
        self._theme_chosen = True
        self.theme = name
        self.notify(self.themes.titles.get(name, name), title="theme", timeout=2)
        self._remember_theme(name)

    @work(group="theme", exclusive=True, exit_on_error=False, name="remembering the theme")
    async def _remember_theme(self, name: str) -> None:
        try:
            await self.node.set_setting(THEME_SETTING, name)
        except ClientError as error:
            self.report(error)

    @work(group="theme", exclusive=True, exit_on_error=False, name="recalling the theme")
    async def _recall_theme(self) -> None:
        try:
            name = await self.node.setting(THEME_SETTING)
        except ClientError:
            return
        if name in self.themes.titles and not self._theme_chosen:
            self.theme = name

    # Leaving.

    def action_help(self) -> None:
        """Show the keys."""
        from cockpit.screens.help import HelpScreen

        if isinstance(self.screen, HelpScreen):
            self.screen.dismiss(None)
        else:
            self.push_screen(HelpScreen(self.screen, self.glyphs))

    def action_interrupt(self) -> None:
        """What ctrl+c means: copy where something is selected, else quit."""
        selected = self.screen.get_selected_text() or getattr(self.focused, "selected_text", "")
        if selected:
            self.copy_to_clipboard(selected)
        else:
            self.action_ask_quit()

    def action_ask_quit(self) -> None:
        """Quit; asks what becomes of the engines where there is something to decide."""
        from cockpit.screens.quit import QuitScreen

        if isinstance(self.screen, QuitScreen):
            self.screen.leave()
        elif not self.connection.live:
            self.exit()
        else:
            self.push_screen(QuitScreen(self.frame), self._quit_chosen)

    def _quit_chosen(self, choice: QuitChoice | None) -> None:
        from cockpit.screens.quit import QuitChoice

        if choice is QuitChoice.LEAVE_RUNNING:
            self.exit()
        elif choice is QuitChoice.STOP_ALL:
            self.notify("stopping every engine, then the node …", timeout=60)
            self._shut_down()

    @work(group="shutdown", exclusive=True, exit_on_error=False, name="stopping all")
    async def _shut_down(self) -> None:
        try:
            await self.node.shutdown(None)
        except ClientError as error:
            if self.connection.link is not Link.STOPPED:
                self.report(error)
                return
        self.exit()
