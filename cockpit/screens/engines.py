"""Choosing an engine by name."""

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


class EnginesScreen(ModalScreen[str | None]):
    """Dismisses with the chosen engine's name, or None."""

    CSS_PATH = "picker.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back")]

    def __init__(self, names: Sequence[str], current: str | None) -> None:
        super().__init__()
        self._names = names
        self._current = current

    def compose(self) -> ComposeResult:
        with Vertical(classes="picker"):
            yield Label("Whose log?", classes="picker-title")
            yield OptionList(*(Option(Content(name), id=name) for name in self._names), compact=True)
            if not self._names:
                yield Label("no engine is known yet", classes="picker-note")

    def on_mount(self) -> None:
        if self._current in self._names:
            self.query_one(OptionList).highlighted = self._names.index(self._current)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)
