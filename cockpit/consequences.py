"""What stopping an engine means for those who use it, in words for a confirmation. Pure."""

from __future__ import annotations

from typing import Literal

from cockpit import format as fmt
from engine.model import EngineState, EngineView, Frame

Verb = Literal["start", "stop", "restart"]
"""What can be ordered of an engine."""

STOPPABLE = (
    EngineState.STARTING,
    EngineState.READY,
    EngineState.DRAINING,
    EngineState.BACKOFF,
)
STARTABLE = (EngineState.STOPPED, EngineState.FAILED, EngineState.QUARANTINED, EngineState.BACKOFF)


def of_stopping(engine: EngineView, frame: Frame) -> str:
    """What a stop or restart interrupts, and who answers meanwhile."""
    if engine.state not in (EngineState.READY, EngineState.DRAINING):
        return f"It is {engine.state} and serves nobody."
    others = [
        other
        for other in frame.engines
        if other.deployment == engine.deployment
        and other.name != engine.name
        and other.state is EngineState.READY
    ]
    if engine.in_flight:
        waiting = f"{fmt.plural(engine.in_flight, 'request')} in flight: waited for, then cut off."
    else:
        waiting = "No request is in flight."
    if others:
        return f"{waiting} {engine.deployment} stays up on {fmt.plural(len(others), 'other engine')}."
    return f"{waiting} Nothing else serves {engine.deployment}: its clients get 503 meanwhile."


def of_stopping_all(frame: Frame | None) -> str:
    """What stopping the whole node interrupts."""
    engines = [] if frame is None else [one for one in frame.engines if one.state is not EngineState.STOPPED]
    in_flight = sum(engine.in_flight for engine in engines)
    if not engines:
        return "no engine runs"
    text = f"{fmt.plural(len(engines), 'engine')}"
    return f"{text}, {fmt.plural(in_flight, 'request')} in flight" if in_flight else f"{text}, all idle"


def why_not(verb: Verb, engine: EngineView) -> str | None:
    """Why an order would change nothing, or None where it would."""
    allowed = {"start": STARTABLE, "stop": STOPPABLE}.get(verb)
    return None if allowed is None or engine.state in allowed else f"{engine.name} is {engine.state} already"
