"""Lines of text with the role of each piece: what pure code hands to the widgets that draw.

A role is a name, such as `state-failed` or `muted`; the theme says what it looks like.
"""

from __future__ import annotations

import re
from typing import Literal

from cockpit import format as fmt
from engine.events import Severity
from engine.model import EngineState

Role = Literal[
    "text",
    "strong",
    "muted",
    "rule",
    "accent",
    "warning",
    "error",
    "sim",
    "trend",
    "state-ready",
    "state-starting",
    "state-draining",
    "state-degraded",
    "state-failed",
    "state-stopped",
    "state-held",
    "heat-0",
    "heat-1",
    "heat-2",
    "heat-3",
    "heat-4",
]
Span = tuple[str, Role]
Line = tuple[Span, ...]

STATE_ROLES: dict[EngineState, Role] = {
    EngineState.STOPPED: "state-stopped",
    EngineState.STARTING: "state-starting",
    EngineState.READY: "state-ready",
    EngineState.DRAINING: "state-draining",
    EngineState.STOPPING: "state-draining",
    EngineState.FAILED: "state-failed",
    EngineState.BACKOFF: "state-degraded",
    EngineState.QUARANTINED: "state-held",
}
SEVERITY_ROLES: dict[Severity, Role] = {
    Severity.INFO: "text",
    Severity.WARNING: "warning",
    Severity.ERROR: "error",
}
HEAT: tuple[tuple[float, Role], ...] = ((0.05, "heat-0"), (0.3, "heat-1"), (0.8, "heat-2"), (0.92, "heat-3"))


def heat(ratio: float | None) -> Role:
    """How near a share is to its limit."""
    if ratio is None:
        return "muted"
    return next((role for limit, role in HEAT if ratio < limit), "heat-4")


def line_cells(line: Line) -> int:
    """Terminal cells of a line."""
    return sum(fmt.cells(text) for text, _ in line)


def text_of(line: Line) -> str:
    """The characters alone."""
    return "".join(text for text, _ in line)


def fit_line(line: Line, width: int) -> Line:
    """Cut to `width` cells with an ellipsis, or padded at the right."""
    taken = line_cells(line)
    if taken <= width:
        return (*line, (" " * (width - taken), "text")) if taken < width else line
    kept: list[Span] = []
    left = width
    for text, role in line:
        cells = fmt.cells(text)
        if cells >= left:
            # One cell more is to come, or the line would not be too long: this piece ends with the ellipsis.
            kept.append((fmt.fit(text + " ", left) if cells == left else fmt.fit(text, left), role))
            break
        kept.append((text, role))
        left -= cells
    return tuple(kept)


def apart(left: Line, right: Line, width: int) -> Line:
    """Left and right of a line; the left part gives way where both do not fit."""
    room = width - line_cells(right)
    if room <= 0:
        return fit_line(right, width)
    return (*fit_line(left, room), *right)


def wrap_line(line: Line, width: int, indent: int) -> list[Line]:
    """The line over as many as it takes, broken at blanks; all but the first are indented."""
    lines: list[list[Span]] = [[]]
    left = width
    room = max(1, width - indent)
    for text, role in line:
        for word in _words(text):
            if fmt.cells(word.rstrip()) > left and left < room:
                lines.append([(" " * indent, "text")])
                left = room
                word = word.lstrip()
            while fmt.cells(word.rstrip()) > left:
                # Longer than a whole line, as paths can be: broken where the line ends.
                head = _head(word, left)
                lines[-1].append((head, role))
                word = word[len(head) :]
                lines.append([(" " * indent, "text")])
                left = room
            lines[-1].append((word, role))
            left -= fmt.cells(word)
    return [tuple(part) for part in lines]


def _words(text: str) -> list[str]:
    """Words with the blanks around them."""
    return re.findall(r"\s*\S+\s*|\s+", text)


def _head(text: str, width: int) -> str:
    """As many characters as fit, and at least one."""
    used = 0
    for index, character in enumerate(text):
        used += fmt.cells(character)
        if used > width and index:
            return text[:index]
    return text
