"""Leaving: what becomes of the engines?"""

from __future__ import annotations

from enum import Enum

from textual.screen import ModalScreen

from engine.model import Frame


class QuitChoice(Enum):
    """The answer."""

    LEAVE_RUNNING = "leave"
    STOP_ALL = "stop"


class QuitScreen(ModalScreen[QuitChoice | None]):
    """Dismisses with the choice, or None to stay."""

    def __init__(self, frame: Frame | None) -> None:
        super().__init__()
        self._frame = frame

    def leave(self) -> None:
        """Leave the engines running."""
        self.dismiss(QuitChoice.LEAVE_RUNNING)
