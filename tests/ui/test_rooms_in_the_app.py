"""Chat, logs and the launch form inside the cockpit itself."""

from __future__ import annotations

import pytest
from textual.widgets import Button, Input

from cockpit.app import CockpitApp
from cockpit.chat_stream import ChatChunk
from cockpit.connection import Link
from cockpit.screens.chat import ChatScreen
from cockpit.screens.fleet import FleetScreen
from cockpit.screens.launch import LaunchScreen
from cockpit.screens.logs import LogsScreen
from cockpit.widgets.log_view import LogView
from cockpit.widgets.prompt import Prompt
from engine.api.schema import Launch, LaunchOptions
from engine.model import EngineState
from tests.support.fake_node import NOW_S, FakeNode, calm_frame, engine, frame_of
from tests.support.log_file import LogFile
from tests.support.room_node import ScriptedAnswer, answered
from tests.support.snapshots import screen_text
from tests.support.wait_until import wait_until


def cockpit(node: FakeNode) -> CockpitApp:
    return CockpitApp(node, now=lambda: NOW_S)


async def test_chat_opened_on_an_engine_pins_it_and_follows_its_state() -> None:
    node = FakeNode(calm_frame())
    app = cockpit(node)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(lambda: app.connection.link is Link.CONNECTED and app.frame is not None)
        app.show_chat("qwen/1")
        await wait_until(
            lambda: isinstance(app.screen, ChatScreen) and bool(app.screen.query("#chat-target"))
        )
        button = app.screen.query_one("#chat-target", Button)
        await wait_until(lambda: "qwen/1 pinned ● ready" in str(button.label))

        node.send(frame_of((engine("qwen/1", EngineState.STARTING, simulated=False),)))
        await wait_until(lambda: "qwen/1 pinned ◌ starting" in str(button.label))

        await pilot.press("escape")
        await wait_until(lambda: isinstance(app.screen, FleetScreen))


async def test_chat_names_the_keys_of_its_focused_prompt_from_the_start() -> None:
    app = cockpit(FakeNode(calm_frame()))
    async with app.run_test(size=(80, 24)):
        await wait_until(lambda: app.frame is not None)
        app.show_chat(None)
        await wait_until(lambda: "⏎ Send" in screen_text(app) and "f1 Help" in screen_text(app))


async def test_answer_goes_on_while_the_operator_looks_elsewhere() -> None:
    node = FakeNode(calm_frame())
    held = ScriptedAnswer([ChatChunk(text="half")], hold=True)
    node.answers.append(held)
    app = cockpit(node)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(lambda: app.frame is not None)
        app.show_chat(None)
        await wait_until(lambda: isinstance(app.focused, Prompt))
        app.screen.query_one(Prompt).insert("hello")
        await pilot.press("enter")
        await wait_until(lambda: bool(node.requests))
        app.show_mode("fleet")
        await wait_until(lambda: isinstance(app.screen, FleetScreen))
        held.release.set()

        await wait_until(lambda: [len(one.messages) for one in node.saved.values()] == [2])
        assert not held.cancelled


async def test_logs_open_on_the_engine_that_was_selected() -> None:
    node = FakeNode(calm_frame())
    for number, name in ((1, "qwen/0"), (2, "qwen/1")):
        node.known_launches.append(
            Launch(
                id=number, engine=name, started_at_s=NOW_S, pid=1, session_id=1, log_path="/log", log_bytes=9
            )
        )
        node.logs[number] = LogFile(f"log of {name}\n".encode())
    app = cockpit(node)
    async with app.run_test(size=(80, 24)):
        await wait_until(lambda: app.frame is not None)
        app.show_logs("qwen/1")
        await wait_until(lambda: isinstance(app.screen, LogsScreen) and bool(app.screen.query(LogView)))
        view = app.screen.query_one(LogView)
        await wait_until(lambda: [line.text for line in view.window] == ["log of qwen/1"])

        app.show_mode("fleet")
        await wait_until(lambda: isinstance(app.screen, FleetScreen))
        app.show_logs("qwen/0")
        await wait_until(lambda: [line.text for line in view.window] == ["log of qwen/0"])


async def test_launch_form_lies_over_the_fleet_and_launches() -> None:
    node = FakeNode(calm_frame())
    node.options = LaunchOptions(interpreters=(), gpus=calm_frame().gpus, simulated=True)
    app = cockpit(node)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(lambda: app.frame is not None)
        app.show_launch()
        await wait_until(lambda: isinstance(app.screen, LaunchScreen) and bool(app.screen.query("#model")))
        app.screen.query_one("#model", Input).value = "m"
        await wait_until(lambda: not app.screen.query_one("#launch-submit").disabled)
        # Both GPUs have an engine: nothing is chosen for the operator.
        await pilot.press("ctrl+s")
        await wait_until(lambda: app.screen.query_one("#problem-gpus").display)
        await pilot.press("space", "ctrl+s")
        await wait_until(lambda: bool(node.launched))

        assert node.launched[0].deployment.gpus == [0]
        await wait_until(lambda: isinstance(app.screen, FleetScreen))


@pytest.mark.parametrize("theme", ["night", "paper", "high-contrast", "ansi"])
async def test_rooms_can_be_drawn_in_every_theme(theme: str) -> None:
    node = FakeNode(calm_frame())
    node.answers.append(answered("a `code`\n\n```python\nx = 1\n```\n"))
    node.known_launches.append(
        Launch(id=1, engine="qwen/0", started_at_s=NOW_S, pid=1, session_id=1, log_path="/log", log_bytes=9)
    )
    node.logs[1] = LogFile(b"INFO a\nWARNING b\nERROR c\n")
    app = cockpit(node)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(lambda: app.frame is not None)
        app.theme = theme
        app.show_chat(None)
        await wait_until(lambda: isinstance(app.focused, Prompt))
        app.screen.query_one(Prompt).insert("hello")
        await pilot.press("enter")
        await wait_until(lambda: [len(one.messages) for one in node.saved.values()] == [2])
        app.show_logs("qwen/0")
        await wait_until(lambda: isinstance(app.screen, LogsScreen) and bool(app.screen.query(LogView)))
        view = app.screen.query_one(LogView)
        await wait_until(lambda: view.window.last == 3)
        rows = [view.render_line(y) for y in range(3)]
        colours = {next(part.style.color for part in row if part.style) for row in rows}

        assert len(colours) == 3, "info, warning and error differ"


@pytest.mark.parametrize("simulated", [True, False])
async def test_every_room_of_a_simulated_node_says_so(simulated: bool) -> None:
    node = FakeNode(frame_of((engine("qwen/0", simulated=simulated),), simulated=simulated))
    app = cockpit(node)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(lambda: app.frame is not None)
        for mode in ("fleet", "chat", "logs"):
            app.show_mode(mode)
            await pilot.pause()
            await wait_until(lambda: bool(screen_text(app).strip()))
            if simulated:
                await wait_until(lambda: "SIM" in screen_text(app))
            else:
                assert "SIM" not in screen_text(app)


@pytest.mark.parametrize("mode", ["chat", "logs"])
async def test_a_room_says_that_the_node_is_gone_and_forgets_it_when_it_is_back(mode: str) -> None:
    node = FakeNode(calm_frame())
    app = cockpit(node)
    async with app.run_test(size=(80, 24)) as pilot:
        await wait_until(lambda: app.frame is not None)
        app.show_mode(mode)
        await pilot.pause()
        assert "the node went away" not in screen_text(app)
        node.lose("the node went away")
        await wait_until(lambda: "the node went away" in screen_text(app).splitlines()[0])
        node.come_back()
        await wait_until(lambda: "the node went away" not in screen_text(app), 10.0)
