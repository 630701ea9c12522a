"""The fleet as it is drawn, by size and theme."""

from __future__ import annotations

import pytest

from cockpit.glyphs import ASCII
from engine.model import EngineState
from tests.support.cockpit_app import cockpit
from tests.support.fake_node import (
    FakeNode,
    busy_frame,
    calm_frame,
    engine,
    frame_of,
    node_view,
    past_events,
)
from tests.support.snapshots import Snapshots, screen_lines, screen_text
from tests.support.wait_until import wait_until

pytestmark = pytest.mark.usefixtures("utc")
SIZES = ((80, 24), (120, 40), (160, 30))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_fleet_on_a_bad_day(snapshots: Snapshots, size: tuple[int, int]) -> None:
    async with cockpit(FakeNode(busy_frame(), past_events()), size) as (app, _):
        snapshots.check(f"fleet-bad-day-{size[0]}x{size[1]}", screen_text(app))


async def test_fleet_on_a_calm_day_says_nothing_more_than_the_numbers(snapshots: Snapshots) -> None:
    async with cockpit(FakeNode(calm_frame(), past_events()[:2])) as (app, _):
        text = screen_text(app)
        assert "SIM" not in text
        assert "simulated" not in text
        snapshots.check("fleet-calm-80x24", text)


async def test_engines_on_the_cpu_have_rows_of_their_own(snapshots: Snapshots) -> None:
    frame = frame_of(
        (
            engine("tiny/0", running=1, waiting=0, kv=0.1, simulated=False, backend="vllm"),
            engine("tiny/1", EngineState.STARTING, progress="loading weights", simulated=False),
        ),
        node=node_view("/etc/cockpit.toml"),
    )
    async with cockpit(FakeNode(frame)) as (app, _):
        snapshots.check("fleet-cpu-80x24", screen_text(app))


@pytest.mark.parametrize("theme", ["night", "paper", "high-contrast", "ansi"])
async def test_text_is_the_same_in_every_theme(snapshots: Snapshots, theme: str) -> None:
    async with cockpit(FakeNode(busy_frame(), past_events())) as (app, pilot):
        app.theme = theme
        await pilot.pause()
        snapshots.check("fleet-bad-day-80x24", screen_text(app))


async def test_ascii_terminals_get_ascii_in_the_table(snapshots: Snapshots) -> None:
    async with cockpit(FakeNode(busy_frame()), glyphs=ASCII) as (app, _):
        table = "\n".join(line.rstrip() for line in screen_lines(app)[5:15])
        snapshots.check("fleet-ascii-table-80x24", table + "\n")


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (40, 10), (60, 15), (79, 23), (300, 80)])
async def test_any_terminal_size_is_drawn(size: tuple[int, int]) -> None:
    async with cockpit(FakeNode(busy_frame(), past_events()), size) as (app, pilot):
        await pilot.resize_terminal(100, 30)
        await wait_until(lambda: "qwen/0" in screen_text(app))
        await pilot.resize_terminal(*size)
        assert len(screen_lines(app)) == size[1]


async def test_first_frame_waits_for_no_node() -> None:
    node = FakeNode()
    node.up = False
    async with cockpit(node) as (app, _):
        assert "connecting to the node" in screen_text(app) or "no node is running" in screen_text(app)


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        (["question_mark"], "help"),
        (["q"], "quit"),
        (["x"], "confirm-stop"),
        (["down", "down", "down", "enter"], "detail-engine"),
        (["end", "enter"], "detail-gpu"),
    ],
)
async def test_dialogs(snapshots: Snapshots, keys: list[str], name: str) -> None:
    async with cockpit(FakeNode(busy_frame(), past_events())) as (app, pilot):
        await pilot.press(*keys)
        await pilot.pause()
        snapshots.check(f"{name}-80x24", screen_text(app))
