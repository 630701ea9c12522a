"""A full screen beside the fleet, with the node and the newest frame at hand."""

from __future__ import annotations

from typing import Protocol, cast

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Footer

from cockpit.client import NodeApi
from engine.model import Frame


class RoomHost(Protocol):
    """What a room needs of the application."""

    @property
    def node(self) -> NodeApi: ...
    @property
    def frame(self) -> Frame | None:
        """The newest one; None before the first came."""
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
        yield from self.compose_room()
        # The registry's own palette key stands in the footer already.
        yield Footer(show_command_palette=False)

    def compose_room(self) -> ComposeResult:
        """The content."""
        raise NotImplementedError

    def show_frame(self, frame: Frame | None) -> None:
        """A newer frame is there; called while the screen is the active one."""

    def leave(self) -> None:
        """Back to the fleet; what is here goes on and stays as it is."""
        cast("RoomHost", self.app).action_show_fleet()
