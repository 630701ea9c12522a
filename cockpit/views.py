"""The state of now with the readings of the last frame."""

from __future__ import annotations

import msgspec

from engine.model import EngineView, Frame

ANSWERING = ("ready", "draining")


def with_readings(engines: tuple[EngineView, ...], frame: Frame | None) -> tuple[EngineView, ...]:
    """Engines as the supervisor has them this moment; metrics are of the last frame, up to a second old.

    A reading belongs to a launch: one of an earlier launch, or of an engine that no longer answers, is not
    shown as the present.
    """
    if frame is None:
        return engines
    last = {engine.name: engine for engine in frame.engines}
    return tuple(_with(engine, last.get(engine.name)) for engine in engines)


def _with(engine: EngineView, last: EngineView | None) -> EngineView:
    if last is None or last.launch_id != engine.launch_id or engine.state not in ANSWERING:
        return engine
    return msgspec.structs.replace(
        engine,
        reading=last.reading,
        running=last.running,
        waiting=last.waiting,
        kv_used_ratio=last.kv_used_ratio,
    )
