"""Asking before something is interrupted."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Static


class ConfirmScreen(ModalScreen[bool]):
    """Dismisses with True only where the operator said yes; No has the focus."""

    CSS_PATH = "confirm.tcss"
    BINDING_GROUP_TITLE = "Confirmation"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", id="confirm.yes", tooltip="Do it"),
        Binding("n,escape", "answer(False)", "No", id="confirm.no", tooltip="Leave it as it is"),
        Binding("left,right,h,l", "app.focus_next", "Other", show=False, id="confirm.other"),
    ]

    def __init__(self, question: str, consequence: str, yes: str) -> None:
        """Args:
        question: names the object: `Stop qwen/0?`
        consequence: what it interrupts.
        yes: the verb on the button.
        """
        super().__init__()
        self._question = question
        self._consequence = consequence
        self._yes = yes

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(self._question, classes="dialog-title", markup=False)
            yield Static(self._consequence, classes="dialog-text", markup=False)
            with Horizontal(classes="dialog-buttons"):
                yield Button("No", id="no", compact=True)
                yield Button(self._yes, id="yes", variant="error", compact=True)
                yield Static("y yes  ·  n no", classes="dialog-keys", markup=False)

    def on_mount(self) -> None:
        self.query_one("#no").focus()

    def action_answer(self, yes: bool) -> None:
        """Say so and go."""
        self.dismiss(yes)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.dismiss(event.button.id == "yes")
