"""The node in one line; what is kept of the last minutes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.event_history import EventHistory
from cockpit.fleet_history import FleetHistory
from cockpit.glyphs import UNICODE, glyphs_for
from cockpit.node_line import gpus_summary, node_line, notice
from cockpit.spans import line_cells, text_of
from engine.events import Event
from tests.support.fake_node import NOW_S, busy_frame, calm_frame, engine, frame_of, gpu


@given(st.integers(1, 300))
def test_the_line_is_as_wide_as_the_terminal(width: int) -> None:
    assert line_cells(node_line(busy_frame(), NOW_S, width)) == width
    assert line_cells(node_line(None, NOW_S, width, "connecting")) == width


def test_eighty_cells_hold_all_but_the_gateway() -> None:
    text = text_of(node_line(busy_frame(), NOW_S, 80))
    for part in ("lab-7", "SIM", "8 × H100 80GB", "12.4 req/s", "1.99k tok/s", "TTFT95", "182 ms"):
        assert part in text
    assert "http://" not in text
    assert "http://127.0.0.1:8000/v1" in text_of(node_line(busy_frame(), NOW_S, 120))


@pytest.mark.parametrize("width", [30, 40, 60, 80, 200])
def test_the_mark_of_the_simulator_never_leaves(width: int) -> None:
    assert "SIM" in text_of(node_line(busy_frame(), NOW_S, width))
    assert "SIM" not in text_of(node_line(calm_frame(), NOW_S, width))


def test_gpus_are_summed_up() -> None:
    assert gpus_summary(()) == "no GPU"
    assert gpus_summary((gpu(0), gpu(1))) == "2 × H100 80GB"


def test_simulation_is_said_with_how_to_run_a_real_engine() -> None:
    assert notice(busy_frame(), UNICODE) == (
        "simulated node · real engines: make run-vllm-cpu, or cockpit up -c FILE"
    )
    assert notice(calm_frame(), UNICODE) == ""


def test_tokens_of_all_engines_are_added_and_unknown_stays_unknown() -> None:
    history = FleetHistory()
    history.add(calm_frame())
    history.add(frame_of((engine("a/0"),)))
    assert history.tokens_per_s() == (260.0, None)
    assert history.utilisation("GPU-00000000", 5) == (0.4, None)


def test_only_the_last_frames_are_kept() -> None:
    history = FleetHistory(kept=3)
    for _ in range(5):
        history.add(calm_frame())
    assert len(history.ttft_p95_s()) == 3


def test_events_are_kept_newest_first_and_never_twice() -> None:
    history = EventHistory(kept=3)
    for number in (1, 2, 2, 3, 4, 3):
        history.add(Event(at_s=NOW_S, kind="x", target="node", message=str(number), id=number))
    assert [event.message for event in history.newest(10)] == ["4", "3", "2"]
    assert [event.message for event in history.newest(1)] == ["4"]


@pytest.mark.parametrize(
    ("encoding", "unicode"), [("UTF-8", True), ("utf8", True), ("ANSI_X3.4-1968", False)]
)
def test_glyphs_follow_what_the_terminal_can_show(encoding: str, unicode: bool) -> None:
    assert (glyphs_for(encoding) is UNICODE) is unicode
