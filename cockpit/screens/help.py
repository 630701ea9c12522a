"""Help: the keys of the screen it was called from, those that work everywhere, and what the states mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen, Screen

from cockpit import format as fmt
from cockpit.actions import asks_first
from cockpit.glyphs import Glyphs
from cockpit.spans import STATE_ROLES, Line, wrap_line
from cockpit.widgets.painted import PaintedLines
from engine.model import EngineState

KEY_CELLS, LABEL_CELLS = 14, 10

STATE_MEANINGS = {
    EngineState.READY: "answers requests",
    EngineState.STARTING: "is being started; the words say how far it is",
    EngineState.DRAINING: "takes nothing new, finishes what it has",
    EngineState.STOPPING: "was told to end",
    EngineState.STOPPED: "does not run, because an operator wants it so",
    EngineState.BACKOFF: "ended by itself; the next start is due in that time",
    EngineState.FAILED: "cannot run as it is configured; the problem line says why",
    EngineState.QUARANTINED: "ended too often; held until an operator starts it",
}


class HelpScreen(ModalScreen[None]):
    """Lists what the screen below binds, so that no key is written down twice."""

    CSS_PATH = "help.tcss"
    BINDING_GROUP_TITLE = "Help"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape,q,enter,question_mark,f1",
            "dismiss(None)",
            "Back",
            id="help.back",
            tooltip="Close the help",
        ),
    ]

    def __init__(self, below: Screen[object], glyphs: Glyphs) -> None:
        super().__init__()
        # Read now: a screen that is covered no longer knows what has the focus.
        self._lines = (*_key_lines(below), *_state_lines(glyphs))

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help-box"):
            yield PaintedLines(id="help-lines")

    def on_mount(self) -> None:
        box = self.query_one("#help-box")
        box.border_title = "Keys"
        box.border_subtitle = "up down scroll  esc back"
        box.focus()
        self._draw()

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        shown = self.query_one("#help-lines", PaintedLines)
        width = shown.size.width or self.app.size.width
        indent = 2 + KEY_CELLS + LABEL_CELLS + 1
        shown.show([part for line in self._lines for part in wrap_line(line, width, indent)])


def _key_lines(below: Screen[object]) -> Iterator[Line]:
    """One line for each thing that can be done, under the name of who does it."""
    groups: dict[str, dict[str, tuple[Binding, list[str]]]] = {}
    for active in below.active_bindings.values():
        binding = active.binding
        if binding.id is None or not binding.description:
            continue
        everywhere = active.node is below.app
        title = "Everywhere" if everywhere else active.node.BINDING_GROUP_TITLE or type(active.node).__name__
        _, keys = groups.setdefault(title, {}).setdefault(binding.id, (binding, []))
        key = below.app.get_key_display(binding)
        if key not in keys:
            keys.append(key)
    # The screen's own keys first, then those of the part that has the focus, then the rest.
    for title in sorted(
        groups, key=lambda title: (title == "Everywhere", title != below.BINDING_GROUP_TITLE)
    ):
        yield ((title, "strong"),)
        for binding, keys in groups[title].values():
            yield (
                (f"  {fmt.fit(' '.join(keys), KEY_CELLS)}", "accent"),
                (fmt.fit(binding.description, LABEL_CELLS), "text"),
                (f" {binding.tooltip}{'; asks first' if asks_first(binding.id or '') else ''}", "muted"),
            )
        yield ()


def _state_lines(glyphs: Glyphs) -> Iterator[Line]:
    yield (("States", "strong"),)
    for state, meaning in STATE_MEANINGS.items():
        yield (
            (f"  {fmt.fit(f'{glyphs.states[state]} {state}', KEY_CELLS)}", STATE_ROLES[state]),
            (meaning, "muted"),
        )
