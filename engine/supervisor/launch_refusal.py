"""A launch that came to nothing before there was a process."""

from __future__ import annotations

from engine.errors import EngineError
from engine.model import ExitCause
from engine.supervisor.address import PortTakenError


def refused(error: EngineError | OSError) -> ExitCause:
    """The cause, and whether another try may go better without the operator."""
    if isinstance(error, PortTakenError):
        return ExitCause(kind="port_taken", summary=error.message, hint=error.hint)
    if isinstance(error, EngineError):
        return ExitCause(kind="bad_argument", summary=error.message, hint=error.hint, retryable=False)
    return ExitCause(kind="unknown", summary=f"could not be launched: {error}", hint="see the node's log")
