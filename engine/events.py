"""Events: what happened, to what, by whom, why. Never dropped, unlike samples."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Severity(StrEnum):
    """How loudly an event asks for attention."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Actor(msgspec.Struct, frozen=True):
    """Who did it: an operator known by the socket's peer credentials, or the node itself."""

    name: str
    uid: int | None = None


NODE = Actor(name="node")
"""The node acting by itself."""


class Event(msgspec.Struct, frozen=True):
    """One thing that happened."""

    at_s: float
    """UTC epoch."""
    kind: str
    """Dotted: `engine.ready`, `engine.exited`, `action.stop`, `node.started`."""
    target: str
    """Engine, deployment, GPU, or `node`."""
    message: str
    """One sentence for the operator."""
    actor: Actor = NODE
    severity: Severity = Severity.INFO
    reason: str | None = None
    outcome: str | None = None
    id: int | None = None
    """Set by the store; rises in the order in which events were accepted."""
