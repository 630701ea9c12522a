"""An event in one line. Pure."""

from __future__ import annotations

from cockpit import format as fmt
from cockpit.log_text import clean_line
from cockpit.spans import SEVERITY_ROLES, Line, fit_line
from engine.events import Event

ACTOR_CELLS = 8
NARROW = 60
"""Below, the target is left out: the message names it too."""


def event_line(event: Event, width: int) -> Line:
    """When, who, what about, what; cut at `width`."""
    message = clean_line(event.message)
    if event.reason:
        message = f"{message}: {clean_line(event.reason)}"
    target: Line = ()
    if width >= NARROW and event.target not in message:
        target = ((f"{event.target}  ", "muted"),)
    line: Line = (
        (f" {fmt.clock(event.at_s)}  ", "muted"),
        (f"{fmt.fit(clean_line(event.actor.name), ACTOR_CELLS)} ", "muted"),
        *target,
        (message, SEVERITY_ROLES[event.severity]),
    )
    return fit_line(line, width)
