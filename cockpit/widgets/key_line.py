"""The keys of a screen in one line, as many as fit."""

from __future__ import annotations

from collections.abc import Sequence

from cockpit.actions import Action
from cockpit.spans import Line, Span, line_cells
from cockpit.widgets.painted import PaintedLines


class KeyLine(PaintedLines):
    """Keys and their words; of those that do not fit the later ones leave, the last one always stays."""

    DEFAULT_CSS = """
    KeyLine { height: 1; }
    """

    def __init__(self, actions: Sequence[Action], *, id: str | None = None) -> None:  # noqa: A002
        """Args:
        actions: the most needed first; the last one leads to all the others.
        """
        super().__init__(id=id)
        self._actions = tuple(action for action in actions if action.in_footer)

    def on_resize(self) -> None:
        super().on_resize()
        self.show((_key_line(self._actions, self.size.width),))


def _key_line(actions: Sequence[Action], width: int) -> Line:
    *others, last = [_key(action) for action in actions]
    line: tuple[Span, ...] = ()
    for key in others:
        if line_cells(line) + line_cells(key) + line_cells(last) <= width:
            line = (*line, *key)
    return (*line, *last)


def _key(action: Action) -> Line:
    return ((f" {action.shown_key}", "accent"), (f" {action.label.lower()} ", "muted"))
