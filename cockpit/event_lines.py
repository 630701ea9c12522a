"""An event in one line. Pure."""

from __future__ import annotations

from cockpit import format as fmt
from cockpit.log_text import clean_line
from cockpit.spans import SEVERITY_ROLES, Line, fit_line
from engine.events import NODE, Event

ACTOR_CELLS = 8
NARROW = 60
"""Below, the node is not named as the one who acted: most that happens is its doing."""


def event_line(event: Event, width: int) -> Line:
    """When, who, what about, what; cut at `width`."""
    message = clean_line(event.message)
    if event.reason:
        message = f"{message}: {clean_line(event.reason)}"
    target: Line = ()
    if event.target not in message:
        target = ((f"{event.target}  ", "muted"),)
    actor: Line = ((f"{fmt.fit(clean_line(event.actor.name), ACTOR_CELLS)} ", "muted"),)
    if width < NARROW and event.actor == NODE:
        actor = ()
    line: Line = (
        (f" {fmt.clock(event.at_s)}  ", "muted"),
        *actor,
        *target,
        (message, SEVERITY_ROLES[event.severity]),
    )
    return fit_line(line, width)
