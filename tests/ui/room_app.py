"""The least application that a room can stand in."""

from __future__ import annotations

import time

from textual.app import App

from cockpit.connection import Connection, Link
from cockpit.glyphs import UNICODE
from cockpit.theming import token_defaults
from engine.model import Frame
from tests.support.room_node import RoomNode


class RoomApp(App[None]):
    """Holds a node and a frame, as the cockpit does."""

    def __init__(self, node: RoomNode, frame: Frame | None) -> None:
        super().__init__()
        self.node = node
        self.frame = frame
        self.glyphs = UNICODE
        self.connection = Connection(Link.CONNECTED, 0.0)
        self.now = time.time
        self.left = 0
        """How often a room was left for the fleet."""

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return token_defaults()

    def action_show_fleet(self) -> None:
        """A room is left."""
        self.left += 1
