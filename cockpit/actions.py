"""Everything that can be done with a key, once: bindings, footer, help and palette are made from it.

Ids are stable: a later keymap of the user's names them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from textual.binding import Binding, BindingType


class Danger(Enum):
    """What a slip would cost."""

    NONE = "none"
    CONFIRM = "confirm"
    """Interrupts clients: asks with the object's name, default no."""


class Scope(Enum):
    """Where a key works."""

    APP = "Everywhere"
    FLEET = "Fleet"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing an operator can do."""

    id: str
    key: str
    """Textual's key names, by commas."""
    shown_key: str
    """As the footer and the help write it."""
    label: str
    """One word for the footer."""
    tooltip: str
    """A sentence for help and palette."""
    method: str
    """Name of the `action_…` method, in the app or in the screen of the scope."""
    scope: Scope
    danger: Danger = Danger.NONE
    in_footer: bool = True
    palette: bool = False
    """Listed in the palette under its label; engines, screens and themes have words of their own there."""
    priority: bool = False
    """Seen before the focused field."""

    @property
    def binding(self) -> Binding:
        """For `BINDINGS`."""
        return Binding(
            self.key,
            self.method,
            self.label,
            show=self.in_footer,
            key_display=self.shown_key,
            priority=self.priority,
            tooltip=self.tooltip,
            id=self.id,
        )


_APP, _FLEET = Scope.APP, Scope.FLEET

ACTIONS: tuple[Action, ...] = (
    Action(
        "engine.open", "enter", "enter", "Open", "Show all about the selected engine or GPU", "open", _FLEET
    ),
    Action("engine.start", "s", "s", "Start", "Start the selected engine", "start", _FLEET),
    Action(
        "engine.stop",
        "x",
        "x",
        "Stop",
        "Stop the selected engine",
        "stop",
        _FLEET,
        Danger.CONFIRM,
    ),
    Action(
        "engine.restart",
        "r",
        "r",
        "Restart",
        "Stop and start the selected engine",
        "restart",
        _FLEET,
        Danger.CONFIRM,
    ),
    Action("deployment.launch", "n", "n", "New", "Launch a model", "launch", _FLEET),
    Action("view.chat", "c", "c", "Chat", "Chat with the selected engine", "chat", _FLEET),
    Action("view.logs", "l", "l", "Logs", "Read the selected engine's log", "logs", _FLEET),
    Action("problem.next", "p", "p", "Problem", "Go to the next problem", "next_problem", _FLEET),
    Action("view.fleet", "f2", "f2", "Fleet", "Show the fleet", "show_fleet", _APP, in_footer=False),
    Action("view.theme", "T", "T", "Theme", "Change to the next theme", "next_theme", _APP, in_footer=False),
    Action(
        "app.palette",
        "colon,ctrl+p",
        ":",
        "Palette",
        "Find a command, engine or theme (also ctrl+p)",
        "command_palette",
        _APP,
    ),
    Action(
        "app.help", "question_mark,f1", "?", "Help", "Show the keys (also f1)", "help", _APP, palette=True
    ),
    Action(
        "app.quit",
        "q,ctrl+q",
        "q",
        "Quit",
        "Leave; asks what becomes of the engines",
        "ask_quit",
        _APP,
        palette=True,
    ),
    Action(
        "app.interrupt",
        "ctrl+c",
        "ctrl+c",
        "Quit",
        "Copy what is selected, else quit",
        "interrupt",
        _APP,
        in_footer=False,
        priority=True,
    ),
)


def in_scope(scope: Scope) -> tuple[Action, ...]:
    """The actions of a scope, in the order in which they are offered."""
    return tuple(action for action in ACTIONS if action.scope is scope)


def bindings(scope: Scope) -> list[BindingType]:
    """The scope's `BINDINGS`."""
    return [action.binding for action in in_scope(scope)]


def asks_first(action_id: str) -> bool:
    """Whether an action waits for a confirmation."""
    return any(action.id == action_id and action.danger is Danger.CONFIRM for action in ACTIONS)


def key_beside_text(action_id: str | None) -> str | None:
    """How the footer writes an action's key where plain keys are typed into a field; None: as always."""
    keys = next((action.key for action in ACTIONS if action.id == action_id), "")
    _, _, second = keys.partition(",")
    return second.replace("ctrl+", "^") or None
