"""What is wrong, worst first, with cause and remedy. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cockpit import format as fmt
from cockpit.connection import Connection, Link
from engine.events import Severity
from engine.model import EngineState, EngineView, Frame, GpuReading


@dataclass(frozen=True, slots=True)
class Problem:
    """One line for the operator."""

    severity: Severity
    what: str
    """What happened to what."""
    remedy: str = ""
    row_key: str | None = None
    """The row of the fleet's table that shows it."""


def problems(frame: Frame | None, connection: Connection, now_s: float) -> tuple[Problem, ...]:
    """All that is wrong now; where the node is gone that comes first, the rest is of the last frame."""
    found = list(link_problems(frame, connection, now_s))
    if frame is not None:
        engines = [problem for engine in frame.engines for problem in _engine_problems(engine, frame.at_s)]
        errors_first = sorted(engines, key=lambda problem: problem.severity is not Severity.ERROR)
        found += [*errors_first, *_node_problems(frame), *_gpu_problems(frame)]
    return tuple(found)


def link_problems(frame: Frame | None, connection: Connection, now_s: float) -> Iterator[Problem]:
    """That the node is gone or was stopped, and how old what is shown has become."""
    age = "" if frame is None else f"; values are {fmt.age(frame.at_s, now_s)} old"
    if connection.link is Link.LOST:
        gone = fmt.age(connection.since_s, now_s)
        yield Problem(
            Severity.ERROR, f"{connection.problem or 'the node is lost'}, {gone} ago{age}", connection.hint
        )
    elif connection.link is Link.STOPPED:
        yield Problem(
            Severity.ERROR, f"{connection.stopped_by} stopped the node{age}", "q quits; `cockpit` starts it"
        )


def _engine_problems(engine: EngineView, now_s: float) -> Iterator[Problem]:
    cause = engine.last_exit
    why = f": {cause.summary}" if cause is not None else ""
    hint = cause.hint if cause is not None and cause.hint else "l shows its log"
    match engine.state:
        case EngineState.FAILED:
            yield Problem(Severity.ERROR, f"{engine.name} failed{why}", hint, engine.name)
        case EngineState.QUARANTINED:
            what = f"{engine.name} is held after {fmt.plural(engine.restarts, 'restart')}{why}"
            yield Problem(Severity.ERROR, what, f"{hint}; r restarts it", engine.name)
        case EngineState.BACKOFF:
            due = "" if engine.retry_at_s is None else f", next try in {_due(engine.retry_at_s, now_s)}"
            yield Problem(Severity.WARNING, f"{engine.name} ended{due}{why}", hint, engine.name)
        case _:
            return


def _due(retry_at_s: float, now_s: float) -> str:
    return fmt.duration(retry_at_s - now_s)


def _node_problems(frame: Frame) -> Iterator[Problem]:
    if frame.node.storage_problem is not None:
        yield Problem(Severity.ERROR, f"history is not written: {frame.node.storage_problem}")
    on_cpu = bool(frame.engines) and not any(engine.gpu_indexes for engine in frame.engines)
    if frame.node.gpu_problem is not None and not on_cpu:  # nobody misses a GPU where all run on the CPU
        yield Problem(Severity.WARNING, f"GPUs cannot be read: {frame.node.gpu_problem}")


def _gpu_problems(frame: Frame) -> Iterator[Problem]:
    for gpu in frame.gpus:
        if gpu.problem is not None:
            key, names = _on_gpu(gpu, frame)
            yield Problem(Severity.WARNING, f"gpu{gpu.index} {gpu.problem}{names}", "", key)


def _on_gpu(gpu: GpuReading, frame: Frame) -> tuple[str, str]:
    """The row of the GPU, and the engines that it concerns."""
    engines = [engine for engine in frame.engines if gpu.uuid in engine.gpu_uuids]
    if not engines:
        return f"gpu:{gpu.uuid}", ""
    first = engines[0]
    key = first.name if min(first.gpu_indexes) == gpu.index else f"{first.name}#{gpu.index}"
    return key, f" ({', '.join(engine.name for engine in engines)})"
