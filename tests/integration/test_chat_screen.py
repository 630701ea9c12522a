"""The chat screen, on two real vLLM engines."""

from __future__ import annotations

import re

import pytest

from cockpit.app import CockpitApp
from cockpit.client import NodeClient
from tests.support.cockpit_home import CockpitHome
from tests.support.wait_until import wait_until

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(500)]


def _text(app: CockpitApp) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


async def test_the_chat_screen_streams_an_answer_and_keeps_it(vllm_node: CockpitHome) -> None:
    app = CockpitApp(NodeClient(vllm_node.socket))
    async with app.run_test(size=(120, 40)) as pilot:
        await wait_until(lambda: app.frame is not None, 20)
        assert "SIM" not in _text(app)
        await pilot.press("c")
        await pilot.pause()
        await pilot.press("h", "e", "l", "l", "o", "enter")
        # TTFT and rate stand under the answer once it is complete, so both came from a real stream.
        await wait_until(lambda: re.search(r"TTFT \d+ ms +\d+ tok/s", _text(app)) is not None, 60)
        assert re.search(r"tiny-llama/[01]", _text(app))
    async with NodeClient(vllm_node.socket) as node:
        newest = (await node.conversations())[0]
        saved = await node.conversation(newest.id)
    assert [message.role for message in saved.messages][-2:] == ["user", "assistant"]
    answer = saved.messages[-1]
    assert answer.ttft_s is not None
    assert answer.completion_tokens
    assert answer.served_by in ("tiny-llama/0", "tiny-llama/1")


async def test_leaving_the_interface_leaves_the_engines_serving(vllm_node: CockpitHome) -> None:
    before = {engine["name"]: engine["pid"] for engine in vllm_node.status()["engines"]}
    for _ in range(2):
        app = CockpitApp(NodeClient(vllm_node.socket))
        async with app.run_test(size=(100, 30)) as pilot:
            await wait_until(lambda app=app: app.frame is not None, 20)  # type: ignore[misc]
            shown = {engine.name: engine.pid for engine in app.frame.engines} if app.frame else {}
            assert shown == before
            await pilot.press("q", "enter")
    assert {engine["name"]: engine["pid"] for engine in vllm_node.status()["engines"]} == before
