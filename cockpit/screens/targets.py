"""Choosing who answers a chat: a deployment by routing, or one replica pinned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from cockpit.chat_targets import ChatTarget


class TargetsScreen(ModalScreen[str | None]):
    """Dismisses with the chosen target's key, or None. Only ready ones can be chosen."""

    CSS_PATH = "picker.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back")]

    def __init__(self, targets: Sequence[ChatTarget], current: str) -> None:
        super().__init__()
        self._targets = targets
        self._current = current

    def compose(self) -> ComposeResult:
        with Vertical(classes="picker"):
            yield Label("Who answers?", classes="picker-title")
            yield OptionList(*map(_option, self._targets), compact=True)
            if not any(target.ready for target in self._targets):
                yield Label("nothing is ready yet", classes="picker-note")

    def on_mount(self) -> None:
        keys = [target.key for target in self._targets]
        if self._current in keys:
            self.query_one(OptionList).highlighted = keys.index(self._current)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)


def _option(target: ChatTarget) -> Option:
    indent = "  " if target.replica else ""
    how = "pinned" if target.replica else "routed"
    glyph = "●" if target.ready else "◌"
    mark = "  SIM" if target.simulated else ""
    row = f"{indent}{target.key}".ljust(26) + f"{how}  {glyph} {target.state}{mark}"
    return Option(Content(row), id=target.key, disabled=not target.ready)
