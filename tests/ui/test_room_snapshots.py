"""Chat, logs and the launch form as they are drawn."""

from __future__ import annotations

import pytest

from cockpit.screens.chat import ChatScreen
from cockpit.screens.launch import LaunchScreen
from cockpit.screens.logs import LogsScreen
from cockpit.widgets.answer_view import AnswerView
from cockpit.widgets.log_view import LogView
from cockpit.widgets.prompt import Prompt
from engine.api.schema import Conversation, Interpreter, Launch, LaunchOptions, Message
from engine.model import ExitCause
from tests.support.cockpit_app import cockpit
from tests.support.fake_node import NOW_S, FakeNode, busy_frame, calm_frame
from tests.support.log_file import LogFile
from tests.support.snapshots import Snapshots, screen_text
from tests.support.wait_until import wait_until

pytestmark = pytest.mark.usefixtures("utc")
SIZES = ((80, 24), (120, 40))
LOG = b"".join(b"INFO 01-01 14:01:%02d [engine.py:7] step %d\n" % (n, n) for n in range(60)) + (
    b"WARNING 01-01 14:02:00 [scheduler.py:3] \x1b[33mpreempted\x1b[0m 3 sequences\n"
    b"ERROR 01-01 14:02:01 [core.py:9] out of GPU memory while allocating the KV cache: tried 2.50 GiB\n"
)


def saved_conversation() -> Conversation:
    """A whole, a stopped and a broken answer."""

    def answer(number: int, content: str, **figures: object) -> Message:
        return Message(id=number, role="assistant", content=content, at_s=NOW_S, **figures)  # type: ignore[arg-type]

    def question(number: int, content: str) -> Message:
        return Message(id=number, role="user", content=content, at_s=NOW_S)

    return Conversation(
        id=1,
        title="Explain paged attention",
        model="qwen/1",
        system_prompt="You are a helpful assistant.",
        temperature=0.7,
        max_tokens=512,
        created_at_s=NOW_S,
        updated_at_s=NOW_S,
        messages=(
            question(1, "Explain paged attention."),
            answer(
                2,
                "It keeps the KV cache in **fixed blocks**:\n\n```python\nblock = token // 16\n```\n",
                served_by="qwen/1",
                ttft_s=0.142,
                tokens_per_s=61.2,
                completion_tokens=38,
                prompt_tokens=118,
                cached_tokens=96,
                finish_reason="stop",
            ),
            question(3, "And prefixes?"),
            answer(4, "Blocks of equal", served_by="qwen/1", ttft_s=0.171, finish_reason="cancelled"),
            question(5, "Go on."),
            answer(6, "", error="no replica of qwen is ready"),
        ),
    )


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_chat_with_a_saved_conversation(snapshots: Snapshots, size: tuple[int, int]) -> None:
    node = FakeNode(busy_frame())
    node.saved[1] = saved_conversation()
    async with cockpit(node, size) as (app, pilot):
        app.show_chat(None)
        await wait_until(lambda: isinstance(app.focused, Prompt))
        assert isinstance(app.screen, ChatScreen)
        app.screen.query_one(Prompt).cursor_blink = False
        await pilot.press("ctrl+o")
        await wait_until(lambda: len(app.screen_stack) == 2)
        await pilot.pause()
        await pilot.press("enter")
        await wait_until(lambda: len(app.screen.query(AnswerView)) == 3)
        await wait_until(lambda: "no replica of qwen is ready" in screen_text(app))
        await pilot.pause()
        snapshots.check(f"chat-{size[0]}x{size[1]}", screen_text(app))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_log_of_a_launch_that_ended(snapshots: Snapshots, size: tuple[int, int]) -> None:
    node = FakeNode(calm_frame())
    log = LogFile(LOG)
    log.ended = True
    node.logs[1] = log
    cause = ExitCause(
        kind="out_of_memory",
        summary="out of GPU memory",
        hint="lower gpu-memory-utilization or max-model-len",
    )
    node.known_launches.append(
        Launch(
            id=1,
            engine="qwen/0",
            started_at_s=NOW_S - 60,
            ended_at_s=NOW_S,
            cause=cause,
            pid=1,
            session_id=1,
            log_path="/log",
            log_bytes=len(LOG),
        )
    )
    async with cockpit(node, size) as (app, pilot):
        app.show_logs("qwen/0")
        await wait_until(lambda: isinstance(app.screen, LogsScreen) and bool(app.screen.query(LogView)))
        view = app.screen.query_one(LogView)
        await wait_until(lambda: view.window.last == 62)
        await pilot.press("slash", *"PREEMPT", "enter")
        await wait_until(lambda: view.current_hit is not None)
        await pilot.pause()
        snapshots.check(f"logs-{size[0]}x{size[1]}", screen_text(app))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_launch_form_with_mistakes(snapshots: Snapshots, size: tuple[int, int]) -> None:
    node = FakeNode(calm_frame())
    node.options = LaunchOptions(
        interpreters=(Interpreter("/opt/vllm/bin/python", "0.32.0", cpu_build=False),),
        gpus=busy_frame().gpus,
        simulated=False,
    )
    async with cockpit(node, size) as (app, pilot):
        app.show_launch()
        await wait_until(lambda: isinstance(app.screen, LaunchScreen) and bool(app.screen.query("#model")))
        await wait_until(lambda: not app.screen.query_one("#launch-submit").disabled)
        await pilot.press(*"Qwen/Qwen3-8B", "tab", "tab", "tab", "tab", "tab", *"lots", "ctrl+s")
        await wait_until(lambda: bool(app.screen.query_one("#problem-context").display))
        await pilot.pause()
        snapshots.check(f"launch-{size[0]}x{size[1]}", screen_text(app))
