"""GPUs joined with the engine on each."""

from __future__ import annotations

import msgspec

from cockpit.fleet_history import FleetHistory
from cockpit.fleet_rows import COLUMNS, fleet_rows, places, state_words
from cockpit.glyphs import ASCII, UNICODE
from cockpit.spans import text_of
from engine.model import EngineState, Frame
from tests.support.fake_node import NOW_S, busy_frame, engine, frame_of, gpu


def cell(frame: Frame, key: str, column: str) -> str:
    row = next(row for row in fleet_rows(frame, FleetHistory(), UNICODE) if row.key == key)
    return text_of(row.cells.get(column, ())).strip()


def test_every_gpu_and_every_engine_has_a_row_in_the_order_of_gpus() -> None:
    assert [place.key for place in places(busy_frame())] == [
        "qwen/0", "qwen/1", "qwen/2", "qwen/3", "moe/0", "moe/0#5", "tiny/0", "gpu:GPU-00000007",
    ]  # fmt: skip


def test_gpus_of_one_engine_stand_together_even_where_others_lie_between() -> None:
    frame = frame_of(
        (engine("a/0", gpus=(0, 2)), engine("b/0", gpus=(1, 3))), tuple(gpu(n) for n in range(4))
    )
    assert [(place.key, place.gpu_index) for place in places(frame)] == [
        ("a/0", 0), ("a/0#2", 2), ("b/0", 1), ("b/0#3", 3),
    ]  # fmt: skip
    assert [cell(frame, key, "gpu") for key in ("a/0", "a/0#2")] == ["0  ┐", "2  ┘"]


def test_the_middle_of_a_group_has_its_own_bracket() -> None:
    frame = frame_of((engine("a/0", gpus=(0, 1, 2)),), tuple(gpu(n) for n in range(3)))
    assert [cell(frame, key, "gpu")[-1] for key in ("a/0", "a/0#1", "a/0#2")] == ["┐", "┤", "┘"]


def test_two_engines_on_one_gpu_have_a_row_each() -> None:
    frame = frame_of((engine("a/0", gpus=(0,)), engine("b/0", gpus=(0,))), (gpu(0),))
    assert [place.key for place in places(frame)] == ["a/0", "b/0"]
    assert cell(frame, "a/0", "sm") == cell(frame, "b/0", "sm") == "0"


def test_an_engine_without_a_gpu_runs_on_the_cpu_and_stands_last() -> None:
    frame = frame_of((engine("tiny/0"), engine("a/0", gpus=(0,))), (gpu(0),))
    assert [place.key for place in places(frame)] == ["a/0", "tiny/0"]
    assert cell(frame, "tiny/0", "gpu") == "cpu"
    assert cell(frame, "tiny/0", "sm") == ""


def test_gpus_that_cannot_be_read_keep_their_engines_rows() -> None:
    frame = frame_of((engine("a/0", gpus=(3, 4)),), ())
    assert [place.gpu_index for place in places(frame)] == [3, 4]
    assert cell(frame, "a/0", "sm") == "–"


def test_what_is_not_known_is_a_dash_and_never_zero() -> None:
    bare = gpu(0, utilisation_ratio=None, memory_used_bytes=None, temperature_c=None, power_w=None)
    frame = frame_of((engine("a/0", gpus=(0,)),), (bare,))
    for column in ("sm", "memory", "temperature", "power", "kv", "running", "waiting", "tokens", "ttft"):
        assert cell(frame, "a/0", column) == "–", column


def test_states_say_what_matters_in_them() -> None:
    for view, words in [
        (engine("a/0", EngineState.STARTING, progress="capturing graphs 10%"), "capturing graphs 10%"),
        (engine("a/0", EngineState.STARTING), "starting"),
        (engine("a/0", EngineState.BACKOFF, retry_at_s=NOW_S + 12), "backoff 12 s"),
        (engine("a/0", EngineState.FAILED), "failed"),
        (engine("a/0", EngineState.QUARANTINED), "quarantined"),
    ]:
        assert state_words(view, NOW_S) == words


def test_a_gpu_in_trouble_is_marked_on_its_row() -> None:
    assert cell(busy_frame(), "moe/0#5", "gpu").endswith("▲")
    assert "throttled by heat" in cell(busy_frame(), "moe/0#5", "state")
    assert not cell(busy_frame(), "moe/0", "gpu").endswith("▲")


def test_every_state_has_a_glyph_of_its_own_sense_in_both_sets() -> None:
    for glyphs in (UNICODE, ASCII):
        assert set(glyphs.states) == set(EngineState)
    assert all(glyph.isascii() for glyph in ASCII.states.values())
    ascii_rows = fleet_rows(busy_frame(), FleetHistory(), ASCII)
    texts = [text_of(line) for row in ascii_rows for key, line in row.cells.items() if key != "engine"]
    assert all(text.replace("–", "").replace("°", "").isascii() for text in texts)


def test_cells_fit_their_columns_on_a_bad_day() -> None:
    frame = busy_frame()
    hot = msgspec.structs.replace(
        frame.gpus[0], memory_used_bytes=141 * 2**30, utilisation_ratio=1.0, nvlink_tx_bytes_per_s=900e9
    )
    frame = msgspec.structs.replace(frame, gpus=(hot, *frame.gpus[1:]))
    widths = {column.key: column.width for column in COLUMNS if column.align == "right"}
    for row in fleet_rows(frame, FleetHistory(), UNICODE):
        for key, line in row.cells.items():
            assert key not in widths or len(text_of(line)) <= widths[key], (row.key, key)
