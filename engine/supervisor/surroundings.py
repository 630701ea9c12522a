"""What an engine's actor needs of the world around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from engine.backends.plan import Backend, LaunchPlan
from engine.events import Event
from engine.model import ReplicaSpec
from engine.ports import Clock, Recorder, Traffic
from engine.supervisor.backoff import RestartPolicy
from engine.supervisor.ending import Endable, Grace
from engine.supervisor.lanes import StartLanes
from engine.supervisor.readiness import Probe


class Running(Endable, Protocol):
    """A launched engine, as `EngineProcess` is."""

    pid: int
    session_id: int
    start_ticks: int
    log_path: Path


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every actor needs of the world."""

    backend: Callable[[ReplicaSpec], Backend]
    spawn: Callable[[LaunchPlan, Path], Running]
    probe: Callable[[LaunchPlan, str], Probe]
    recorder: Recorder
    post: Callable[[Event], None]
    clock: Clock
    traffic: Traffic
    lanes: StartLanes
    logs_dir: Path
    sockets_dir: Path
    changed: Callable[[], None]
    jitter: Callable[[], float]
    policy: RestartPolicy = field(default_factory=RestartPolicy)
    grace: Grace = field(default_factory=Grace)
