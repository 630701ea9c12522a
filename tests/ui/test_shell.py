"""The application around the screens: where keys lead, what is asked first, what survives."""

from __future__ import annotations

import msgspec
import pytest
from textual.command import CommandPalette
from textual.widgets import Input

from cockpit.actions import ACTIONS, Scope
from cockpit.client import NodeRefusedError
from cockpit.connection import Link
from cockpit.screens.confirm import ConfirmScreen
from cockpit.screens.fleet import FleetScreen
from cockpit.screens.help import HelpScreen
from cockpit.screens.quit import QuitScreen
from cockpit.widgets.live_table import LiveTable
from engine.api.schema import EngineAction
from engine.events import Event
from engine.model import EngineState, Frame
from tests.support.cockpit_app import cockpit, toasts
from tests.support.fake_node import (
    NOW_S,
    FakeNode,
    busy_frame,
    calm_frame,
    engine,
    frame_of,
    gpu,
    past_events,
)
from tests.support.snapshots import screen_text
from tests.support.wait_until import wait_until

pytestmark = pytest.mark.usefixtures("utc")


def busy() -> FakeNode:
    return FakeNode(busy_frame(), past_events())


def without(frame: Frame, name: str) -> Frame:
    """The frame after an engine was removed."""
    engines = tuple(one for one in frame.engines if one.name != name)
    return msgspec.structs.replace(frame, engines=engines)


@pytest.mark.parametrize(("key", "screen"), [("c", "ChatScreen"), ("l", "LogsScreen"), ("n", "LaunchScreen")])
async def test_keys_lead_to_the_rooms_and_escape_back(key: str, screen: str) -> None:
    async with cockpit(busy()) as (app, pilot):
        await pilot.press(key)
        await wait_until(lambda: type(app.screen).__name__ == screen)
        await pilot.pause()
        await pilot.press("escape")
        await wait_until(lambda: isinstance(app.screen, FleetScreen))


async def test_stop_asks_with_the_name_and_enter_means_no() -> None:
    node = busy()
    async with cockpit(node) as (app, pilot):
        await pilot.press("x")
        await wait_until(lambda: isinstance(app.screen, ConfirmScreen))
        assert "Stop qwen/0" in screen_text(app)
        assert "24 requests in flight" in screen_text(app)
        await pilot.press("enter")
        await wait_until(lambda: isinstance(app.screen, FleetScreen))
        assert node.actions == []


@pytest.mark.parametrize(("key", "verb"), [("x", "stop"), ("r", "restart")])
async def test_confirmed_orders_reach_the_node(key: str, verb: str) -> None:
    node = busy()
    async with cockpit(node) as (app, pilot):
        await pilot.press(key)
        await wait_until(lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("y")
        await wait_until(lambda: bool(node.actions))
        assert node.actions == [msgspec.convert({"action": verb, "target": "qwen/0"}, EngineAction)]


async def test_start_of_a_running_engine_says_why_not() -> None:
    node = busy()
    async with cockpit(node) as (app, pilot):
        await pilot.press("s")
        await wait_until(lambda: "qwen/0 is ready already" in toasts(app))
        assert node.actions == []


async def test_an_order_without_a_node_says_so_instead_of_trusting_old_states() -> None:
    node = busy()
    async with cockpit(node) as (app, pilot):
        node.stop("anna")
        await wait_until(lambda: app.connection.link is Link.STOPPED)
        await pilot.press("s", "x")
        await wait_until(lambda: "no node is there to stop qwen/0" in toasts(app))
        assert "no node is there to start qwen/0" in toasts(app)
        assert isinstance(app.screen, FleetScreen)
        assert node.actions == []


async def test_a_refused_order_is_shown_with_its_remedy() -> None:
    node = busy()
    node.action_error = NodeRefusedError("qwen/3 cannot start", "free its GPU first", status=409)
    async with cockpit(node) as (app, pilot):
        await pilot.press("down", "down", "down", "s")
        await wait_until(lambda: "qwen/3 cannot start\nfree its GPU first" in toasts(app))


async def test_cursor_stays_on_its_engine_when_rows_go_and_come() -> None:
    node = busy()
    async with cockpit(node) as (app, pilot):
        table = app.screen.query_one(LiveTable)
        await pilot.press("down", "down", "down", "down")
        assert table.cursor_key == "moe/0"
        # qwen/0 leaves its GPU: the row becomes a free GPU; then the engine at the cursor goes too.
        node.send(without(busy_frame(), "qwen/0"))
        await wait_until(lambda: table.rows[0].key.startswith("gpu:"))
        assert table.cursor_key == "moe/0"
        extra = engine("aaa/0", gpus=(0,))
        frame = busy_frame()
        node.send(msgspec.structs.replace(frame, engines=(extra, *frame.engines)))
        await wait_until(lambda: table.rows[0].key == "aaa/0")
        assert table.cursor_key == "moe/0"
        assert table.lines[2 + [row.key for row in table.rows].index("moe/0")][0][0] == "▌"


async def test_cursor_stays_at_its_height_when_its_row_is_gone() -> None:
    node = FakeNode(frame_of((engine("a/0"), engine("b/0"), engine("c/0"))))
    async with cockpit(node) as (app, pilot):
        table = app.screen.query_one(LiveTable)
        await pilot.press("end")
        assert table.cursor_key == "c/0"
        node.send(frame_of((engine("a/0"), engine("b/0"))))
        await wait_until(lambda: len(table.rows) == 2)
        assert table.cursor_key == "b/0"


async def test_a_tick_refreshes_only_the_lines_that_changed() -> None:
    node = busy()
    async with cockpit(node) as (app, pilot):
        table = app.screen.query_one(LiveTable)
        await pilot.pause()
        kept = {y: table.render_line(y) for y in range(table.size.height)}
        frame = busy_frame()
        hotter = msgspec.structs.replace(frame.gpus[7], temperature_c=51.0)
        node.send(msgspec.structs.replace(frame, gpus=(*frame.gpus[:7], hotter)))
        await wait_until(lambda: "51" in screen_text(app))
        changed = [y for y, strip in kept.items() if table.render_line(y) is not strip]
        assert changed == [9]


async def test_long_fleets_scroll_to_the_cursor() -> None:
    gpus = tuple(gpu(index) for index in range(40))
    async with cockpit(FakeNode(frame_of((), gpus, simulated=True))) as (app, pilot):
        assert "39" not in screen_text(app)
        await pilot.press("end")
        await pilot.pause()
        assert "▌39 " in screen_text(app)
        assert app.screen.query_one(LiveTable).cursor_key == "gpu:GPU-00000027"


async def test_click_chooses_and_a_second_one_opens() -> None:
    async with cockpit(busy()) as (app, pilot):
        table = app.screen.query_one(LiveTable)
        await pilot.click(LiveTable, offset=(10, 5))
        assert table.cursor_key == "qwen/2"
        await pilot.click(LiveTable, offset=(10, 5))
        await wait_until(lambda: type(app.screen).__name__ == "DetailScreen")


async def test_lost_node_is_said_with_the_age_of_the_values_and_forgotten_when_it_is_back() -> None:
    node, time = busy(), [NOW_S]
    async with cockpit(node, now=lambda: time[0]) as (app, _):
        time[0] += 9.0
        node.lose()
        await wait_until(lambda: app.connection.link is Link.LOST)
        await wait_until(lambda: "values are 9 s old" in screen_text(app))
        assert app.screen.query_one(LiveTable).stale
        node.come_back()
        await wait_until(lambda: app.connection.link is Link.CONNECTED)
        await wait_until(lambda: "values are" not in screen_text(app))
        assert not app.screen.query_one(LiveTable).stale
        assert "the node is back" in toasts(app)


async def test_stopped_node_names_who_stopped_it_and_quits_at_once() -> None:
    node = busy()
    async with cockpit(node) as (app, pilot):
        node.stop("anna")
        await wait_until(lambda: "anna stopped the node" in screen_text(app))
        await pilot.press("q")
        await wait_until(lambda: app._exit)


async def test_events_are_listed_as_they_happen_and_each_once() -> None:
    node = busy()
    async with cockpit(node) as (app, _):
        for _unused in range(2):
            node.happen(Event(at_s=NOW_S, kind="x", target="moe/0", message="moe/0 is fine", id=5))
        await wait_until(lambda: "moe/0 is fine" in screen_text(app))
        assert screen_text(app).count("moe/0 is fine") == 1


async def test_text_from_elsewhere_cannot_drive_the_terminal() -> None:
    node = FakeNode(frame_of((engine("a/0", EngineState.STARTING, progress="\x1b[31mred\x07"),)))
    async with cockpit(node) as (app, _):
        node.happen(Event(at_s=NOW_S, kind="x", target="a/0", message="beep \x1b]0;title\x07 done", id=1))
        await wait_until(lambda: "done" in screen_text(app))
        assert "\x1b" not in screen_text(app)
        assert "\x07" not in screen_text(app)


async def test_theme_changes_live_and_is_remembered() -> None:
    node = busy()
    async with cockpit(node) as (app, pilot):
        before = app.screen.query_one(LiveTable).render_line(2)
        await pilot.press("T")
        await wait_until(lambda: node.settings.get("theme") == "paper")
        await pilot.pause()
        assert app.theme == "paper"
        assert app.screen.query_one(LiveTable).render_line(2) != before


async def test_every_theme_can_be_worn() -> None:
    async with cockpit(busy()) as (app, pilot):
        worn = []
        for _ in app.themes.themes:
            await pilot.press("T")
            await pilot.pause()
            worn.append(app.theme)
        assert worn == ["paper", "high-contrast", "ansi", "night"]


async def test_remembered_theme_is_put_on() -> None:
    node = busy()
    node.settings["theme"] = "high-contrast"
    async with cockpit(node) as (app, _):
        await wait_until(lambda: app.theme == "high-contrast")


async def test_a_remembered_theme_that_is_gone_is_ignored() -> None:
    node = busy()
    node.settings["theme"] = "no-such"
    async with cockpit(node) as (app, pilot):
        await pilot.pause()
        assert app.theme == "night"


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
async def test_quitting_leaves_the_engines_running_unless_told_otherwise(key: str) -> None:
    node = busy()
    async with cockpit(node) as (app, pilot):
        await pilot.press(key)
        await wait_until(lambda: isinstance(app.screen, QuitScreen))
        await pilot.press("enter")
        await wait_until(lambda: app._exit)
    assert node.shutdowns == 0
    assert node.closed


async def test_ctrl_c_twice_leaves() -> None:
    async with cockpit(busy()) as (app, pilot):
        await pilot.press("ctrl+c")
        await wait_until(lambda: isinstance(app.screen, QuitScreen))
        await pilot.press("ctrl+c")
        await wait_until(lambda: app._exit)


async def test_stop_all_shuts_the_node_down_then_quits() -> None:
    node = busy()
    async with cockpit(node) as (app, pilot):
        await pilot.press("q")
        await wait_until(lambda: isinstance(app.screen, QuitScreen))
        await pilot.press("down", "enter")
        await wait_until(lambda: app._exit)
    assert node.shutdowns == 1


async def test_escape_stays() -> None:
    node = busy()
    async with cockpit(node) as (app, pilot):
        await pilot.press("q", "escape")
        await wait_until(lambda: isinstance(app.screen, FleetScreen))
        assert not app._exit
        assert node.shutdowns == 0


async def test_help_names_every_action_of_the_registry() -> None:
    async with cockpit(busy(), (100, 80)) as (app, pilot):
        await pilot.press("question_mark")
        await wait_until(lambda: isinstance(app.screen, HelpScreen))
        await pilot.pause()
        text = screen_text(app)
        assert [action.id for action in ACTIONS if action.tooltip not in text] == []
        await pilot.press("question_mark")
        await wait_until(lambda: isinstance(app.screen, FleetScreen))


def test_action_ids_and_keys_of_a_scope_are_unique() -> None:
    assert len({action.id for action in ACTIONS}) == len(ACTIONS)
    keys = [key for action in ACTIONS for key in action.key.split(",")]
    assert len(set(keys)) == len(keys)
    assert {action.scope for action in ACTIONS} == set(Scope)


@pytest.mark.parametrize(
    ("typed", "screen"),
    [("moe/0 logs", "LogsScreen"), ("moe/0 chat", "ChatScreen"), ("moe/0 restart", "ConfirmScreen")],
)
async def test_palette_finds_what_can_be_done_with_an_engine(typed: str, screen: str) -> None:
    async with cockpit(busy()) as (app, pilot):
        await pilot.press("colon")
        await wait_until(lambda: isinstance(app.screen, CommandPalette))
        app.screen.query_one(Input).value = typed
        await wait_until(lambda: typed in screen_text(app).partition(typed)[2])
        await pilot.press("enter")
        await wait_until(lambda: type(app.screen).__name__ == screen)


async def test_palette_changes_the_theme() -> None:
    node = busy()
    async with cockpit(node) as (app, pilot):
        await pilot.press("ctrl+p")
        await wait_until(lambda: isinstance(app.screen, CommandPalette))
        app.screen.query_one(Input).value = "theme paper"
        await wait_until(lambda: "Theme paper" in screen_text(app))
        await pilot.press("enter")
        await wait_until(lambda: node.settings.get("theme") == "paper")


async def test_next_problem_leads_to_its_row() -> None:
    async with cockpit(busy()) as (app, pilot):
        await pilot.press("p")
        await pilot.pause()
        assert "gpu5 throttled by heat" in screen_text(app)
        assert app.screen.query_one(LiveTable).cursor_key == "moe/0#5"


async def test_real_gpus_without_an_engine_are_offered_a_launch_once() -> None:
    frame = frame_of((), tuple(gpu(index, simulated=False) for index in range(2)))
    node = FakeNode(frame)
    async with cockpit(node) as (app, pilot):
        await wait_until(lambda: type(app.screen).__name__ == "LaunchScreen")
        await pilot.pause()
        await pilot.press("escape")
        await wait_until(lambda: isinstance(app.screen, FleetScreen))
        node.send(msgspec.structs.replace(frame, at_s=NOW_S + 1))
        await wait_until(lambda: app.frame is not None and app.frame.at_s > NOW_S)
        assert "nothing runs here yet: n launches a model" in screen_text(app)


async def test_keys_do_nothing_but_say_so_where_there_is_no_engine() -> None:
    async with cockpit(FakeNode(frame_of((), (gpu(0),), simulated=True))) as (app, pilot):
        await pilot.press("x")
        await wait_until(lambda: "no engine on this row; n launches one" in toasts(app))


async def test_calm_fleet_shows_no_problem() -> None:
    async with cockpit(FakeNode(calm_frame())) as (app, pilot):
        await pilot.press("p")
        await wait_until(lambda: "nothing is wrong" in toasts(app))


def real_machine(*engines: str) -> FakeNode:
    """Two real GPUs, with these engines on them."""
    gpus = tuple(gpu(index, simulated=False) for index in range(2))
    running = tuple(engine(name, gpus=(0,), simulated=False, backend="vllm") for name in engines)
    return FakeNode(frame_of(running, gpus, simulated=False))


async def test_gpus_with_nothing_to_do_are_offered_a_model() -> None:
    async with cockpit(real_machine()) as (app, pilot):
        await wait_until(lambda: type(app.screen).__name__ == "LaunchScreen")
        await pilot.press("escape")
        await wait_until(lambda: isinstance(app.screen, FleetScreen))


@pytest.mark.parametrize("node", [real_machine("qwen/0"), busy(), FakeNode(frame_of(()))])
async def test_the_form_does_not_come_uncalled_elsewhere(node: FakeNode) -> None:
    async with cockpit(node) as (app, pilot):
        await wait_until(lambda: app.frame is not None)
        await pilot.pause()
        assert isinstance(app.screen, FleetScreen)
