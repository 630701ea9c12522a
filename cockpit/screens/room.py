"""A full screen beside the fleet, with the node and the newest frame at hand."""

from __future__ import annotations

from typing import Protocol, cast

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Footer

from cockpit.client import NodeApi
from cockpit.connection import Connection
from cockpit.glyphs import Glyphs
from cockpit.problems import link_problems
from cockpit.widgets.problem_line import ProblemLine
from engine.model import Frame


class RoomHost(Protocol):
    """What a room needs of the application."""

    @property
    def node(self) -> NodeApi: ...
    @property
    def frame(self) -> Frame | None:
        """The newest one; None before the first came."""
        ...

    @property
    def glyphs(self) -> Glyphs: ...
    @property
    def connection(self) -> Connection: ...
    def now(self) -> float:
        """UTC epoch seconds."""
        ...

    def action_show_fleet(self) -> None: ...


class Room(Screen[None]):
    """Base of the chat, log and launch screens: composes its content above the footer."""

    @property
    def node(self) -> NodeApi:
        """The node that the application is connected to."""
        return cast("RoomHost", self.app).node

    @property
    def frame(self) -> Frame | None:
        """The newest frame; None before the first came."""
        return cast("RoomHost", self.app).frame

    def compose(self) -> ComposeResult:
        app = cast("RoomHost", self.app)
        yield ProblemLine(app.glyphs, id="room-problem")
        yield from self.compose_room()
        # The registry's own palette key stands in the footer already.
        yield Footer(show_command_palette=False, compact=True)

    def compose_room(self) -> ComposeResult:
        """The content."""
        raise NotImplementedError

    def on_screen_resume(self) -> None:
        # What got the focus while the screen was not yet the active one has told the footer nothing.
        self.call_after_refresh(self.refresh_bindings)
        self.show_connection(cast("RoomHost", self.app).connection)

    def show_connection(self, connection: Connection) -> None:
        """Say that the node is gone; nothing while it answers."""
        now_s = cast("RoomHost", self.app).now()
        line = self.query_one("#room-problem", ProblemLine)
        line.show_problems(tuple(link_problems(self.frame, connection, now_s)))

    def show_frame(self, frame: Frame | None) -> None:
        """A newer frame is there; called while the screen is the active one."""

    def leave(self) -> None:
        """Back to the fleet; what is here goes on and stays as it is."""
        cast("RoomHost", self.app).action_show_fleet()
