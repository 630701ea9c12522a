"""The launches of an engine in words, and which comes before or after which."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from engine.api.schema import Launch
from engine.model import EngineState, EngineView


def neighbour(launches: Sequence[Launch], launch_id: int, to: Literal["older", "newer"]) -> Launch | None:
    """The launch before or after, of launches newest first; None at the end."""
    ids = [launch.id for launch in launches]
    if launch_id not in ids:
        return None
    index = ids.index(launch_id) + (1 if to == "older" else -1)
    return launches[index] if 0 <= index < len(launches) else None


def outdated(launches: Sequence[Launch], view: EngineView) -> bool:
    """Whether a frame's engine has a launch, or a readiness, that these launches know nothing of."""
    if view.launch_id is None:
        return False
    launch = next((one for one in launches if one.id == view.launch_id), None)
    if launch is None:
        return True
    return launch.ready_at_s is None and launch.ended_at_s is None and view.state is EngineState.READY


def launch_line(launches: Sequence[Launch], launch: Launch) -> str:
    """`qwen/0  launch 3 of 3  started 14:01:11  ended 14:03:20`, in local time."""
    ids = [one.id for one in launches]
    number = len(ids) - ids.index(launch.id) if launch.id in ids else None
    parts = [launch.engine, "launch –" if number is None else f"launch {number} of {len(ids)}"]
    parts.append(f"started {clock(launch.started_at_s)}")
    if launch.ended_at_s is None:
        parts.append("running" if launch.ready_at_s is not None else "not ready yet")
    else:
        parts.append(f"ended {clock(launch.ended_at_s)}")
    if launch.log_bytes is None:
        parts.append("its log is gone")
    return "  ".join(parts)


def cause_line(launch: Launch) -> str:
    """Why it ended and what to do; empty where nobody need know: it runs, or was asked to end."""
    cause = launch.cause
    if cause is None or cause.kind == "requested":
        return ""
    hint = f"; {cause.hint}" if cause.hint else ""
    return f"✖ {cause.kind.replace('_', ' ')}: {cause.summary}{hint}"


def engine_names(engines: Sequence[EngineView], launches: Sequence[Launch]) -> list[str]:
    """Engines that may have a log: those of the frame, then those only launches still know."""
    names = [engine.name for engine in engines]
    return list(dict.fromkeys([*names, *(launch.engine for launch in launches)]))


def clock(at_s: float) -> str:
    """Local date and time; the log's own lines carry the rest."""
    return datetime.fromtimestamp(at_s).astimezone().strftime("%m-%d %H:%M:%S")
