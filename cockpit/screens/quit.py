"""Leaving: what becomes of the engines?"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from cockpit.consequences import of_stopping_all
from engine.model import Frame


class QuitChoice(Enum):
    """The answer."""

    LEAVE_RUNNING = "leave"
    STOP_ALL = "stop"


class QuitScreen(ModalScreen[QuitChoice | None]):
    """Dismisses with the choice, or None to stay. Enter leaves the engines running."""

    CSS_PATH = "confirm.tcss"
    BINDING_GROUP_TITLE = "Quit"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Stay", id="quit.stay", tooltip="Stay in the cockpit"),
    ]

    def __init__(self, frame: Frame | None) -> None:
        super().__init__()
        self._frame = frame

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static("Quit the cockpit", classes="dialog-title", markup=False)
            yield Static(of_stopping_all(self._frame), classes="dialog-text", markup=False)
            yield OptionList(
                Option(
                    Content("Leave the engines running; `cockpit` comes back to them"),
                    id=QuitChoice.LEAVE_RUNNING.value,
                ),
                Option(Content("Stop every engine, then the node"), id=QuitChoice.STOP_ALL.value),
                Option(Content("Stay"), id="stay"),
                compact=True,
            )

    def on_mount(self) -> None:
        self.query_one(OptionList).highlighted = 0

    def leave(self) -> None:
        """Leave the engines running."""
        self.dismiss(QuitChoice.LEAVE_RUNNING)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(None if event.option_id == "stay" else QuitChoice(event.option_id))
