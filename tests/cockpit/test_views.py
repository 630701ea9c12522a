"""Engines of now with readings of the last frame."""

from __future__ import annotations

import msgspec
import pytest

from cockpit.views import with_readings
from engine.model import EngineReading, EngineState, EngineView, Frame, GatewayView, HostView, NodeView

NOW = EngineView(
    name="a/0",
    deployment="a",
    state=EngineState.READY,
    backend="vllm",
    simulated=False,
    model="m",
    launch_id=7,
)
READ = msgspec.structs.replace(
    NOW, reading=EngineReading(at_s=1.0, running=3), running=3, waiting=1, kv_used_ratio=0.5
)


def _frame(*engines: EngineView) -> Frame:
    node = NodeView(name="n", pid=1, version="0", uptime_s=0.0, state_dir="/s")
    return Frame(
        at_s=1.0,
        node=node,
        simulated=False,
        gpus=(),
        engines=engines,
        gateway=GatewayView(listen=None),
        host=HostView(),
    )


def test_before_the_first_frame_nothing_is_known() -> None:
    assert with_readings((NOW,), None) == (NOW,)


@pytest.mark.parametrize("state", list(EngineState))
def test_only_engines_that_answer_have_readings(state: EngineState) -> None:
    now = msgspec.structs.replace(NOW, state=state)
    (shown,) = with_readings((now,), _frame(READ))
    assert shown.state is state
    answers = state in (EngineState.READY, EngineState.DRAINING)
    assert (shown.running, shown.waiting, shown.kv_used_ratio) == ((3, 1, 0.5) if answers else (None,) * 3)
    assert (shown.reading is not None) is answers


def test_a_reading_of_an_earlier_launch_is_not_shown_as_the_present() -> None:
    (shown,) = with_readings((msgspec.structs.replace(NOW, launch_id=8),), _frame(READ))
    assert shown.running is None


def test_the_supervisors_word_counts_for_the_rest() -> None:
    now = msgspec.structs.replace(NOW, pid=42, in_flight=9)
    gone = msgspec.structs.replace(READ, name="b/0")
    shown = with_readings((now,), _frame(msgspec.structs.replace(READ, pid=1, in_flight=0), gone))
    assert [(e.name, e.pid, e.in_flight, e.running) for e in shown] == [("a/0", 42, 9, 3)]
