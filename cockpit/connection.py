"""Whether the node answers, as the screens know it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Link(Enum):
    """Between the interface and the node."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    LOST = "lost"
    """It went away or hangs; it is being looked for."""
    STOPPED = "stopped"
    """An operator stopped it."""


@dataclass(frozen=True, slots=True)
class Connection:
    """The link and since when."""

    link: Link
    since_s: float
    """UTC epoch."""
    problem: str = ""
    hint: str = ""
    stopped_by: str = ""

    @property
    def live(self) -> bool:
        """Whether what is shown is of now."""
        return self.link is Link.CONNECTED
