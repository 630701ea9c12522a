"""What can go wrong in the machine room, as one small tree.

EngineError                 every error of this package: a sentence and a remedy
├── SpecError               a deployment that cannot be run as written; names the key
├── PlacementError          GPUs that do not exist, are given twice, or cannot be shared
├── LaunchError             an engine that could not be started (interpreter, socket, port)
├── UnknownTargetError      a name that is no engine, deployment or GPU
├── StateError              an action that the engine's present state does not allow
└── GatewayError            the gateway could not be started (port in use)
"""

from __future__ import annotations


class EngineError(Exception):
    """An error an operator can act on."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        """What happened, to what: one line."""
        self.hint = hint
        """What to do next: one line, or empty."""

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class SpecError(EngineError):
    """A deployment that cannot be run as written."""


class PlacementError(EngineError):
    """GPUs that do not exist, are given twice, or cannot be shared."""


class LaunchError(EngineError):
    """An engine that could not be started."""


class UnknownTargetError(EngineError):
    """A name that is no engine, deployment or GPU."""


class StateError(EngineError):
    """An action that the engine's present state does not allow."""


class GatewayError(EngineError):
    """The gateway could not be started."""
