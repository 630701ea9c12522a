"""What this package needs from outside, as protocols that others satisfy structurally."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engine.events import Event
from engine.model import DeploymentSpec, ExitCause, Frame, GpuReading


class Clock(Protocol):
    """Time, so that tests can hold it."""

    def monotonic(self) -> float:
        """Seconds, for durations."""
        ...

    def epoch(self) -> float:
        """UTC seconds, for records."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Recorder(Protocol):
    """Where events, launches and samples are kept."""

    async def record_event(self, event: Event) -> tuple[Event, bool]:
        """Keep an event. Returns it with its id, and whether it is on disk."""
        ...

    async def launch_started(
        self,
        *,
        engine: str,
        at_s: float,
        pid: int,
        session_id: int,
        start_ticks: int,
        boot_id: str,
        log_path: str,
        argv: Sequence[str],
    ) -> int:
        """Keep a launch; returns its id."""
        ...

    async def launch_ready(self, launch_id: int, at_s: float) -> None:
        """The launch answers requests."""
        ...

    async def launch_ended(self, launch_id: int, at_s: float, cause: ExitCause) -> None:
        """The launch is over, and why."""
        ...

    def record_frame(self, frame: Frame) -> None:
        """Keep samples of a frame; may drop the oldest under pressure."""
        ...


class GpuSource(Protocol):
    """GPUs, real or simulated."""

    simulated: bool

    async def read(self) -> tuple[GpuReading, ...]:
        """All GPUs now; one that cannot be read has `problem` set."""
        ...

    def problem(self) -> str | None:
        """Why the source as a whole gives nothing, or None."""
        ...

    async def close(self) -> None:
        """Release it."""
        ...


class Traffic(Protocol):
    """What the gateway has open on each engine; exact, since every request passes there."""

    def in_flight(self, engine: str) -> int:
        """Requests now open on the engine."""
        ...

    async def wait_idle(self, engine: str, timeout_s: float) -> bool:
        """Wait for none to be open; False when the time ran out."""
        ...


class Wishes(Protocol):
    """What operators want to run, kept across restarts of the node."""

    async def set_wanted(self, engines: Sequence[str], wanted: bool) -> None:
        """Whether these engines should be running."""
        ...

    async def keep_deployment(self, deployment: DeploymentSpec) -> None:
        """A deployment to bring back."""
        ...

    async def forget_deployment(self, name: str) -> None:
        """A deployment that is not to come back."""
        ...
