"""Nodes to test against; each kind starts once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.support import real_vllm
from tests.support.cockpit_home import CockpitHome, cockpit_home, living


@pytest.fixture
def home() -> Iterator[CockpitHome]:
    """A home where nothing runs yet."""
    with cockpit_home() as home:
        yield home


@pytest.fixture
def small_node(home: CockpitHome) -> CockpitHome:
    """Two simulated engines of one deployment, ready."""
    home.ok("up", "--sim", "l40sx2", "--wait", timeout_s=90)
    return home


@pytest.fixture(scope="session")
def vllm_node() -> Iterator[CockpitHome]:
    """Two real vLLM engines on the CPU, ready: 40 s to start, so that all tests share them.

    Tests that stop or kill an engine bring it back before they end.
    """
    real_vllm.require()
    with cockpit_home() as home:
        home.ok("up", "-c", str(real_vllm.CONFIG), "--listen", "127.0.0.1:0", "--wait", timeout_s=400)
        yield home
        # The end is a check too, for which no engine need start again: vLLM's API server killed alone
        # leaves its core and its worker alive with their memory, and `down` must find them.
        engines = home.status()["engines"]
        ids = {engine["session_id"] for engine in engines if engine["session_id"]}
        victim = next(engine["pid"] for engine in engines if engine["state"] == "ready")
        os.kill(victim, signal.SIGKILL)
        home.ok("down", timeout_s=90)
        assert living(ids) == []
