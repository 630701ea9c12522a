"""Launches in words, and which comes before or after which."""

from __future__ import annotations

from cockpit.launch_history import cause_line, engine_names, launch_line, neighbour, outdated
from engine.api.schema import Launch
from engine.model import EngineState, ExitCause
from tests.support.room_node import engine_view


def launch(number: int, **fields: object) -> Launch:
    made: dict[str, object] = {"log_bytes": 10} | fields
    return Launch(
        id=number,
        engine="qwen/0",
        started_at_s=1_000.0,
        pid=1,
        session_id=1,
        log_path="/log",
        **made,  # type: ignore[arg-type]
    )


CRASHED = launch(
    7,
    ready_at_s=1_001.0,
    ended_at_s=1_010.0,
    cause=ExitCause(kind="out_of_memory", summary="no GPU memory", hint="lower gpu-memory-utilization"),
)
LAUNCHES = (launch(9, ready_at_s=1_002.0), launch(8), CRASHED)


def test_neighbours_are_found_newest_first() -> None:
    older, newer = neighbour(LAUNCHES, 9, "older"), neighbour(LAUNCHES, 7, "newer")

    assert older is not None
    assert older.id == 8
    assert newer is not None
    assert newer.id == 8
    assert neighbour(LAUNCHES, 9, "newer") is None
    assert neighbour(LAUNCHES, 7, "older") is None
    assert neighbour(LAUNCHES, 99, "older") is None


def test_line_counts_launches_from_the_first() -> None:
    assert launch_line(LAUNCHES, LAUNCHES[0]).startswith("qwen/0  launch 3 of 3  started ")
    assert launch_line(LAUNCHES, LAUNCHES[0]).endswith("  running")
    assert launch_line(LAUNCHES, LAUNCHES[1]).endswith("  not ready yet")


def test_line_says_why_it_ended() -> None:
    assert "  ended " in launch_line(LAUNCHES, CRASHED)
    assert cause_line(CRASHED) == "✖ out of memory: no GPU memory; lower gpu-memory-utilization"
    assert cause_line(LAUNCHES[0]) == ""
    assert cause_line(launch(1, cause=ExitCause(kind="requested", summary="stopped by anna"))) == ""


def test_line_says_when_the_log_is_gone() -> None:
    assert launch_line((), launch(1, log_bytes=None)).endswith("its log is gone")


def test_engines_of_the_frame_come_before_those_that_are_gone() -> None:
    names = engine_names((engine_view("b/0"), engine_view("a/0")), LAUNCHES)

    assert names == ["b/0", "a/0", "qwen/0"]


def test_frame_tells_of_a_launch_or_a_readiness_that_is_not_known_yet() -> None:
    assert outdated(LAUNCHES, engine_view("qwen/0", EngineState.STARTING, launch_id=10))
    assert outdated((), engine_view("qwen/0", EngineState.STARTING, launch_id=1))
    assert outdated(LAUNCHES, engine_view("qwen/0", EngineState.READY, launch_id=8))

    assert not outdated(LAUNCHES, engine_view("qwen/0", EngineState.STARTING, launch_id=8))
    assert not outdated(LAUNCHES, engine_view("qwen/0", EngineState.READY, launch_id=9))
    assert not outdated(LAUNCHES, engine_view("qwen/0", EngineState.READY, launch_id=7))
    assert not outdated((), engine_view("qwen/0"))
