"""Fleet: is anything wrong, where, what can I do?"""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Footer

from cockpit.actions import Scope, bindings
from engine.model import Frame


class FleetScreen(Screen[None]):
    """GPUs and the engine on each."""

    BINDING_GROUP_TITLE = "Fleet"
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.FLEET)

    def compose(self) -> ComposeResult:
        yield Footer()

    def show_frame(self, frame: Frame | None) -> None:
        """Draw a newer frame."""
