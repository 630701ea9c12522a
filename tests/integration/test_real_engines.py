"""Supervision of real vLLM engines: killed under load, orphaned, restarted, and gone."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import openai
import pytest

from tests.support.cockpit_home import CockpitHome, living, poll

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(500)]

MODEL = "tiny-llama"


class _Load:
    """Four clients that ask until told to stop, and remember what went wrong."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.answered = 0
        self.failures: list[str] = []
        self._stop = asyncio.Event()
        self._loop = asyncio.new_event_loop()

    async def _client(self, client: openai.AsyncOpenAI) -> None:
        while not self._stop.is_set():
            try:
                await client.chat.completions.create(
                    model=MODEL,
                    messages=[{"role": "user", "content": "Go on."}],
                    max_tokens=8,
                    extra_body={"ignore_eos": True},
                )
                self.answered += 1
            except openai.OpenAIError as error:
                self.failures.append(f"{type(error).__name__}: {error}")

    async def _run(self) -> None:
        async with openai.AsyncOpenAI(base_url=self.base_url, api_key="x", max_retries=0) as client:
            await asyncio.gather(*(self._client(client) for _ in range(4)))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Ask from a thread of its own."""
        thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._run()))
        thread.start()
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._stop.set)
            thread.join()
            self._loop.close()


def _ready(node: CockpitHome, name: str) -> bool:
    return bool(node.engine(name)["state"] == "ready")


def test_a_killed_engine_comes_back_while_the_other_answers(vllm_node: CockpitHome) -> None:
    listen = vllm_node.status()["gateway"]["listen"]
    victim = vllm_node.engine(f"{MODEL}/0")
    load = _Load(f"http://{listen}/v1")
    with load.running():
        poll(lambda: load.answered > 4, 30, "the load is served")
        os.kill(victim["pid"], signal.SIGKILL)
        poll(lambda: not _ready(vllm_node, victim["name"]), 10, "the death is seen")
        before = load.answered
        poll(lambda: load.answered > before + 10, 60, "the other replica goes on answering")
        poll(lambda: _ready(vllm_node, victim["name"]), 200, "the engine comes back")
    after = vllm_node.engine(victim["name"])
    assert after["pid"] != victim["pid"]
    assert after["restarts"] == victim["restarts"] + 1
    assert living({victim["session_id"]}) == []  # its engine core did not survive it
    # Only requests that were inside the killed engine may fail: at most the four open ones.
    assert len(load.failures) <= 4, load.failures
    events = vllm_node.ok("events", "--target", victim["name"], "--json")
    assert "SIGKILL" in events


def test_a_stop_and_a_start_by_hand(vllm_node: CockpitHome) -> None:
    engine = vllm_node.engine(f"{MODEL}/1")
    vllm_node.ok("engine", "stop", engine["name"], "--wait", "--reason", "test", timeout_s=90)
    assert living({engine["session_id"]}) == []
    assert vllm_node.engine(engine["name"])["state"] == "stopped"
    vllm_node.ok("engine", "start", engine["name"], "--wait", timeout_s=200)
    assert _ready(vllm_node, engine["name"])


def test_metrics_of_a_real_engine_are_shown(vllm_node: CockpitHome) -> None:
    poll(lambda: vllm_node.engine(f"{MODEL}/1")["kv_used_ratio"] is not None, 20, "metrics are read")
    engine = vllm_node.engine(f"{MODEL}/1")
    assert engine["running"] is not None
    assert engine["vllm_version"]
    assert engine["simulated"] is False
    assert vllm_node.status()["simulated"] is False


def test_the_log_tells_the_start_up(vllm_node: CockpitHome) -> None:
    text = vllm_node.ok("logs", f"{MODEL}/1", "-n", "0")
    assert "Application startup complete" in text
