"""The chat screen: asking, stopping, retrying, saving, reopening."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList, Static

from cockpit.chat_stream import ChatChunk
from cockpit.client import NodeRefusedError, NodeUnreachableError
from cockpit.screens.chat import ChatScreen
from cockpit.screens.conversations import ConversationsScreen
from cockpit.screens.targets import TargetsScreen
from cockpit.widgets.answer_view import AnswerView
from cockpit.widgets.prompt import Prompt
from engine.model import EngineState, Frame
from tests.support.room_node import RoomNode, ScriptedAnswer, answered, engine_view, frame_of
from tests.support.wait_until import wait_until
from tests.ui.room_app import RoomApp

TWO = frame_of(engine_view("qwen/0"), engine_view("qwen/1"), engine_view("moe/0", EngineState.STARTING))


@asynccontextmanager
async def chat(
    node: RoomNode, frame: Frame = TWO, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[ChatScreen, Pilot[None]]]:
    """An open chat screen."""
    app = RoomApp(node, frame)
    async with app.run_test(size=size) as pilot:
        screen = ChatScreen()
        await app.push_screen(screen)
        yield screen, pilot


async def ask(pilot: Pilot[None], text: str) -> None:
    """Type a question and send it."""
    prompt = pilot.app.screen.query_one(Prompt)
    prompt.insert(text)
    await pilot.press("enter")


def figures(screen: ChatScreen) -> list[str]:
    """The visible figures under the answers."""
    return [str(line.content) for line in screen.query(".answer-figures").results(Static) if line.display]


def errors(screen: ChatScreen) -> list[str]:
    return [str(line.content) for line in screen.query(".answer-error").results(Static) if line.display]


def answers(node: RoomNode) -> list[str]:
    """Contents of the stored assistant messages of the only conversation."""
    return [m.content for one in node.saved.values() for m in one.messages if m.role == "assistant"]


async def test_answer_streams_and_both_messages_are_saved() -> None:
    node = RoomNode()
    node.answers.append(answered("The **KV** cache is paged."))
    async with chat(node) as (screen, pilot):
        await ask(pilot, "Explain paged attention")
        await wait_until(lambda: answers(node) == ["The **KV** cache is paged."])
        await wait_until(lambda: any("38 tok" in line for line in figures(screen)))

        (conversation,) = node.saved.values()
        assert [message.role for message in conversation.messages] == ["user", "assistant"]
        assert conversation.title == "Explain paged attention"
        assert conversation.model == "qwen"
        stored = conversation.messages[1]
        assert (stored.served_by, stored.completion_tokens, stored.cached_tokens) == ("qwen/0", 38, 96)
        assert stored.ttft_s is not None
        assert node.requests[0]["messages"] == [{"role": "user", "content": "Explain paged attention"}]
        assert "cached 96 of 118" in figures(screen)[0]
        assert screen.query_one(Prompt).text == ""


async def test_question_is_saved_before_it_is_asked() -> None:
    node = RoomNode()
    held = ScriptedAnswer([ChatChunk(text="x")], hold=True)
    node.answers.append(held)
    async with chat(node) as (_, pilot):
        await ask(pilot, "hello")
        await wait_until(lambda: bool(node.requests))

        (conversation,) = node.saved.values()
        assert [message.content for message in conversation.messages] == ["hello"]


@pytest.mark.parametrize("key", ["ctrl+s", "escape"])
async def test_stopped_answer_keeps_what_came_and_cancels_the_request(key: str) -> None:
    node = RoomNode()
    held = ScriptedAnswer([ChatChunk(text="half an", served_by="qwen/1")], hold=True)
    node.answers.append(held)
    async with chat(node) as (screen, pilot):
        await ask(pilot, "hello")
        await wait_until(lambda: bool(node.requests))
        await pilot.press(key)
        await wait_until(lambda: answers(node) == ["half an"])
        await wait_until(lambda: any("stopped" in line for line in figures(screen)))

        assert held.cancelled
        assert pilot.app.screen is screen


async def test_retry_replaces_the_last_answer() -> None:
    node = RoomNode()
    node.answers += [answered("bad"), answered("good")]
    async with chat(node) as (screen, pilot):
        await ask(pilot, "hello")
        await wait_until(lambda: answers(node) == ["bad"])
        await wait_until(lambda: screen.check_action("retry", ()) is True)
        await pilot.press("ctrl+r")
        await wait_until(lambda: answers(node) == ["good"])

        assert node.requests[1]["messages"] == node.requests[0]["messages"]
        assert len(screen.query(AnswerView)) == 1


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NodeRefusedError("no replica of qwen is ready", "wait or start one", status=503), "no replica"),
        (NodeRefusedError("the engine broke off", status=502), "broke off"),
        (NodeUnreachableError("no node is running", "start one with `cockpit up`"), "cockpit up"),
    ],
)
async def test_failure_stands_in_the_transcript_with_the_way_to_retry(
    error: NodeRefusedError | NodeUnreachableError, words: str
) -> None:
    node = RoomNode()
    node.answers += [ScriptedAnswer([ChatChunk(text="begun")], error=error), answered("better")]
    async with chat(node) as (screen, pilot):
        await ask(pilot, "hello")
        await wait_until(lambda: bool(errors(screen)))

        assert words in errors(screen)[0]
        assert "ctrl+r" in errors(screen)[0]
        (conversation,) = node.saved.values()
        assert conversation.messages[1].error == error.message

        await wait_until(lambda: screen.check_action("retry", ()) is True)
        await pilot.press("ctrl+r")
        await wait_until(lambda: answers(node) == ["better"])
        assert errors(screen) == []


async def test_chat_goes_on_while_nothing_can_be_saved_and_says_so() -> None:
    node = RoomNode()
    node.storage_error = NodeRefusedError("the database is full")
    node.answers.append(answered("still here"))
    async with chat(node) as (screen, pilot):
        await ask(pilot, "hello")
        await wait_until(lambda: len(screen.query(".notice.-warning")) == 1)

        notice = screen.query_one(".notice.-warning", Static)
        assert "not saved: the database is full" in str(notice.content)
        assert any("38 tok" in line for line in figures(screen))


async def test_pinned_replica_is_asked_by_name() -> None:
    node = RoomNode()
    node.answers.append(answered("hi", served_by="qwen/1"))
    async with chat(node) as (screen, pilot):
        await pilot.press("ctrl+t")
        await wait_until(lambda: isinstance(pilot.app.screen, TargetsScreen))
        options = pilot.app.screen.query_one(OptionList)
        states = {option.id: option.disabled for option in options.options}
        assert states == {"qwen": False, "qwen/0": False, "qwen/1": False, "moe": True, "moe/0": True}
        options.highlighted = 2
        await pilot.press("enter")
        await wait_until(lambda: pilot.app.screen is screen)
        await ask(pilot, "hello")
        await wait_until(lambda: answers(node) == ["hi"])

        assert (node.requests[0]["model"], node.requests[0]["replica"]) == ("qwen", "qwen/1")


async def test_parameters_go_with_the_request_and_are_saved() -> None:
    node = RoomNode()
    node.answers.append(answered("hi"))
    async with chat(node) as (screen, pilot):
        screen.query_one("#chat-system", Input).value = "Be brief."
        screen.query_one("#chat-temperature", Input).value = "0.2"
        screen.query_one("#chat-max-tokens", Input).value = "64"
        await ask(pilot, "hello")
        await wait_until(lambda: answers(node) == ["hi"])

        assert (node.requests[0]["temperature"], node.requests[0]["max_tokens"]) == (0.2, 64)
        assert node.requests[0]["messages"] == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hello"},
        ]
        (conversation,) = node.saved.values()
        assert (conversation.system_prompt, conversation.max_tokens) == ("Be brief.", 64)


async def test_wrong_parameter_is_marked_and_nothing_is_asked() -> None:
    node = RoomNode()
    async with chat(node) as (screen, pilot):
        screen.query_one("#chat-temperature", Input).value = "hot"
        await ask(pilot, "hello")
        await pilot.pause()

        assert screen.query_one("#chat-temperature").has_class("-invalid")
        assert node.requests == []
        assert screen.query_one(Prompt).text == "hello"


async def test_escape_backs_out_one_level_at_a_time() -> None:
    async with chat(RoomNode()) as (screen, pilot):
        screen.query_one("#chat-system").focus()
        await pilot.press("escape")
        await wait_until(lambda: screen.query_one(Prompt).has_focus)
        assert isinstance(pilot.app, RoomApp)
        assert pilot.app.left == 0

        await pilot.press("escape")
        assert pilot.app.left == 1


async def test_new_line_keys_do_not_send() -> None:
    node = RoomNode()
    async with chat(node) as (screen, pilot):
        await pilot.press("a", "ctrl+j", "b", "shift+enter", "c")

        assert screen.query_one(Prompt).text == "a\nb\nc"
        assert node.requests == []


async def test_engine_that_is_not_ready_is_not_asked() -> None:
    node = RoomNode()
    async with chat(node, frame_of(engine_view("qwen/0", EngineState.STARTING))) as (screen, pilot):
        await ask(pilot, "hello")
        await pilot.pause()

        assert node.requests == []
        assert screen.query_one(Prompt).text == "hello"


async def test_answers_of_simulated_engines_are_marked() -> None:
    node = RoomNode()
    node.answers.append(answered("hi", served_by="tiny/0"))
    async with chat(node, frame_of(engine_view("tiny/0", simulated=True))) as (screen, pilot):
        await ask(pilot, "hello")
        await wait_until(lambda: any(line.endswith("SIM") for line in figures(screen)))


async def test_saved_conversation_is_reopened_and_goes_on() -> None:
    node = RoomNode()
    node.answers += [answered("first"), answered("second")]
    async with chat(node) as (screen, pilot):
        await ask(pilot, "one")
        await wait_until(lambda: answers(node) == ["first"])
        await pilot.press("ctrl+n")
        await wait_until(lambda: len(screen.query(AnswerView)) == 0)

        await pilot.press("ctrl+o")
        await wait_until(lambda: isinstance(pilot.app.screen, ConversationsScreen))
        listed = pilot.app.screen.query_one(OptionList)
        await wait_until(lambda: listed.option_count == 1)
        assert "one" in str(listed.options[0].prompt)
        await pilot.press("enter")
        await wait_until(lambda: len(screen.query(AnswerView)) == 1)
        assert "38 tok" in figures(screen)[0]

        await ask(pilot, "two")
        await wait_until(lambda: answers(node) == ["first", "second"])
        assert len(node.saved) == 1
        assert [m["content"] for m in node.requests[1]["messages"]] == ["one", "first", "two"]  # type: ignore[attr-defined]


async def test_deleting_a_conversation_asks_first() -> None:
    node = RoomNode()
    node.answers.append(answered("first"))
    async with chat(node) as (_, pilot):
        await ask(pilot, "one")
        await wait_until(lambda: answers(node) == ["first"])
        await pilot.press("ctrl+o")
        await wait_until(lambda: isinstance(pilot.app.screen, ConversationsScreen))
        listed = pilot.app.screen.query_one(OptionList)
        await wait_until(lambda: listed.option_count == 1)

        await pilot.press("d", "escape", "y")
        assert len(node.saved) == 1
        await pilot.press("d")
        note = pilot.app.screen.query_one(".picker-note", Static)
        assert "one" in str(note.content)
        await pilot.press("y")
        await wait_until(lambda: node.saved == {})


async def test_leaving_a_conversation_while_it_answers_stops_and_saves_it() -> None:
    node = RoomNode()
    node.answers.append(ScriptedAnswer([ChatChunk(text="half")], hold=True))
    async with chat(node) as (screen, pilot):
        await ask(pilot, "one")
        await wait_until(lambda: bool(node.requests))
        await pilot.press("ctrl+n")
        await wait_until(lambda: answers(node) == ["half"])

        assert len(screen.query(AnswerView)) == 0
