"""Characters that carry meaning, with ASCII ones for terminals that have no others."""

from __future__ import annotations

import locale
from collections.abc import Mapping
from dataclasses import dataclass

from engine.model import EngineState


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of characters."""

    states: Mapping[EngineState, str]
    free: str
    warning: str
    error: str
    group_first: str
    group_middle: str
    group_last: str
    bars: str
    """From lowest to full; drawn over one cell."""
    rule: str
    dot: str
    """Between parts of a line."""


UNICODE = Glyphs(
    states={
        EngineState.STOPPED: "◌",
        EngineState.STARTING: "◐",
        EngineState.READY: "●",
        EngineState.DRAINING: "◑",
        EngineState.STOPPING: "◑",
        EngineState.FAILED: "✖",
        EngineState.BACKOFF: "▲",
        EngineState.QUARANTINED: "⊘",
    },
    free="◌",
    warning="▲",
    error="✖",
    group_first="┐",
    group_middle="┤",
    group_last="┘",
    bars="▁▂▃▄▅▆▇█",
    rule="─",
    dot="·",
)
ASCII = Glyphs(
    states={
        EngineState.STOPPED: "o",
        EngineState.STARTING: "~",
        EngineState.READY: "*",
        EngineState.DRAINING: "%",
        EngineState.STOPPING: "%",
        EngineState.FAILED: "X",
        EngineState.BACKOFF: "^",
        EngineState.QUARANTINED: "#",
    },
    free="o",
    warning="!",
    error="X",
    group_first="\\",
    group_middle="|",
    group_last="/",
    bars="_.-:=+*#",
    rule="-",
    dot="|",
)


def glyphs_for(encoding: str | None = None) -> Glyphs:
    """The set that a terminal of this encoding can show; default: the locale's."""
    name = (encoding or locale.getpreferredencoding(False)).lower().replace("-", "").replace("_", "")
    return UNICODE if name.startswith("utf") else ASCII
