"""What is wrong, worst first; what an order interrupts."""

from __future__ import annotations

import msgspec
import pytest

from cockpit.connection import Connection, Link
from cockpit.consequences import of_stopping, of_stopping_all, why_not
from cockpit.problems import problems
from engine.events import Severity
from engine.model import EngineState, ExitCause, Frame
from tests.support.fake_node import NOW_S, busy_frame, calm_frame, engine, frame_of, gpu, node_view

UP = Connection(Link.CONNECTED, NOW_S)
CAUSE = ExitCause(kind="bad_argument", summary="unrecognized arguments: --foo", hint="correct args")


def what(frame: Frame | None, connection: Connection = UP, now_s: float = NOW_S) -> list[str]:
    return [problem.what for problem in problems(frame, connection, now_s)]


def test_all_is_well() -> None:
    assert problems(calm_frame(), UP, NOW_S) == ()
    assert problems(None, Connection(Link.CONNECTING, NOW_S), NOW_S) == ()


def test_failures_come_before_retries_and_gpus() -> None:
    frame = frame_of(
        (
            engine("a/0", EngineState.BACKOFF, retry_at_s=NOW_S + 5, last_exit=CAUSE),
            engine("b/0", EngineState.FAILED, last_exit=CAUSE),
            engine("c/0", EngineState.QUARANTINED, restarts=5, last_exit=CAUSE),
        ),
        (gpu(0, problem="fell off the bus"),),
    )
    assert what(frame) == [
        "b/0 failed: unrecognized arguments: --foo",
        "c/0 is held after 5 restarts: unrecognized arguments: --foo",
        "a/0 ended, next try in 5 s: unrecognized arguments: --foo",
        "gpu0 fell off the bus",
    ]
    assert problems(frame, UP, NOW_S)[0].remedy == "correct args"


def test_a_lost_node_comes_first_and_ages_what_is_shown() -> None:
    lost = Connection(Link.LOST, NOW_S + 2, "no node is running", "start one with `cockpit up`")
    first = problems(busy_frame(), lost, NOW_S + 12)[0]
    assert first.what == "no node is running, 10 s ago; values are 12 s old"
    assert first.severity is Severity.ERROR
    assert what(busy_frame(), lost)[1:] == what(busy_frame())


def test_the_nodes_own_troubles_are_named() -> None:
    frame = frame_of((), node=node_view(storage_problem="disk full", gpu_problem="driver mismatch"))
    assert what(frame) == ["history is not written: disk full", "GPUs cannot be read: driver mismatch"]


def test_nobody_misses_a_gpu_where_all_engines_run_on_the_cpu() -> None:
    no_driver = node_view(gpu_problem="no driver")
    assert what(frame_of((engine("tiny/0", gpus=()),), node=no_driver)) == []
    assert what(frame_of((engine("tiny/0", gpus=(0,)),), node=no_driver)) == [
        "GPUs cannot be read: no driver"
    ]


def test_a_problem_knows_its_row() -> None:
    keys = [problem.row_key for problem in problems(busy_frame(), UP, NOW_S)]
    assert keys == ["qwen/3", "moe/0#5"]


def test_stopping_says_who_waits_and_who_answers_meanwhile() -> None:
    frame = busy_frame()
    by_name = {view.name: view for view in frame.engines}
    assert of_stopping(by_name["qwen/0"], frame) == (
        "24 requests in flight: waited for, then cut off. qwen stays up on 1 other engine."
    )
    assert "Nothing else serves moe: its clients get 503" in of_stopping(by_name["moe/0"], frame)
    assert of_stopping(by_name["tiny/0"], frame) == "It is starting and serves nobody."


def test_stopping_all_counts_what_runs() -> None:
    assert of_stopping_all(busy_frame()) == "6 engines, 94 requests in flight"
    assert of_stopping_all(None) == "no engine runs"
    stopped = msgspec.structs.replace(calm_frame(), engines=(engine("a/0", EngineState.STOPPED),))
    assert of_stopping_all(stopped) == "no engine runs"


@pytest.mark.parametrize("state", list(EngineState))
def test_in_every_state_something_can_be_ordered_and_a_refusal_names_the_state(state: EngineState) -> None:
    view = engine("a/0", state)
    start, stop = why_not("start", view), why_not("stop", view)
    assert why_not("restart", view) is None
    for refusal in (start, stop):
        assert refusal is None or refusal == f"a/0 is {state} already"
