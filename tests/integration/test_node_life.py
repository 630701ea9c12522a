"""A node with simulated engines: real processes, real signals."""

from __future__ import annotations

import json
import os
import signal
import stat

import pytest

from tests.support.cockpit_home import CockpitHome, living, poll

pytestmark = pytest.mark.timeout(180)


def _sessions(home: CockpitHome) -> set[int]:
    return {engine["session_id"] for engine in home.status()["engines"] if engine["session_id"]}


def test_status_has_the_promised_fields(small_node: CockpitHome) -> None:
    status = small_node.status()
    assert status["simulated"] is True
    assert {"name", "pid", "version", "uptime_s"} <= status["node"].keys()
    assert status["gateway"]["listen"].startswith("127.0.0.1:")
    promised = {
        "name",
        "deployment",
        "state",
        "pid",
        "session_id",
        "gpu_uuids",
        "endpoint",
        "model",
        "running",
        "waiting",
        "kv_used_ratio",
        "restarts",
    }
    assert status["engines"]
    for engine in status["engines"]:
        assert promised <= engine.keys()
        assert engine["state"] == "ready"
        assert engine["simulated"] is True
    poll(lambda: len(small_node.status()["gpus"]) == 2, 10, "GPUs are shown")


def test_the_socket_is_the_owners_alone(small_node: CockpitHome) -> None:
    mode = small_node.socket.stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    assert stat.S_IMODE(small_node.socket.parent.stat().st_mode) == 0o700


def test_down_leaves_no_process(small_node: CockpitHome) -> None:
    ids = _sessions(small_node)
    node = small_node.status()["node"]["pid"]
    assert len(living(ids)) >= 2
    small_node.ok("down")
    assert living(ids) == []
    assert living({node}) == []
    assert small_node.run("status").returncode == 3


def test_down_leaves_no_process_when_the_node_was_killed(small_node: CockpitHome) -> None:
    ids = _sessions(small_node)
    os.kill(small_node.status()["node"]["pid"], signal.SIGKILL)
    assert len(living(ids)) >= 2
    small_node.ok("down")
    assert living(ids) == []


def test_up_again_resumes_what_ran_last(small_node: CockpitHome) -> None:
    names = [engine["name"] for engine in small_node.status()["engines"]]
    stopped = names[0]
    small_node.ok("engine", "stop", stopped, "--wait", "--reason", "maintenance")
    small_node.ok("down")
    small_node.ok("up", "--wait")
    states = {engine["name"]: engine["state"] for engine in small_node.status()["engines"]}
    assert list(states) == names
    assert states[stopped] == "stopped"
    assert all(state == "ready" for name, state in states.items() if name != stopped)
    history = [json.loads(line) for line in small_node.ok("events", "--json").splitlines()]
    action = next(event for event in history if event["kind"] == "action.stop")
    assert action["reason"] == "maintenance"
    assert action["actor"]["uid"] == os.getuid()


def test_a_node_that_was_killed_starts_again_with_fresh_engines(small_node: CockpitHome) -> None:
    old = _sessions(small_node)
    os.kill(small_node.status()["node"]["pid"], signal.SIGKILL)
    small_node.ok("up", "--wait")
    assert living(old) == []
    assert all(engine["state"] == "ready" for engine in small_node.status()["engines"])


def test_a_killed_engine_comes_back_and_the_event_says_why(small_node: CockpitHome) -> None:
    victim = small_node.status()["engines"][0]
    os.kill(victim["pid"], signal.SIGKILL)

    def back() -> bool:
        now = small_node.engine(victim["name"])
        return now["state"] == "ready" and now["pid"] != victim["pid"]

    poll(back, 30, "the engine comes back")
    assert small_node.engine(victim["name"])["restarts"] == 1
    assert "killed by SIGKILL" in small_node.ok("events", "--target", victim["name"])


def test_a_second_node_on_the_folder_is_refused(small_node: CockpitHome) -> None:
    second = small_node.run("serve", "--sim", "l40sx2")
    assert second.returncode == 2
    assert "already runs" in second.stderr
    assert len(second.stderr.strip().splitlines()) == 1


def test_up_is_repeatable_and_refuses_another_origin(small_node: CockpitHome) -> None:
    small_node.ok("up")
    small_node.ok("up", "--sim", "l40sx2")
    other = small_node.run("up", "--sim", "h100x8")
    assert other.returncode == 2
    assert "already runs sim:l40sx2" in other.stderr


def test_sigterm_to_the_node_ends_its_engines(small_node: CockpitHome) -> None:
    ids = _sessions(small_node)
    pid = small_node.status()["node"]["pid"]
    os.kill(pid, signal.SIGTERM)
    poll(lambda: not living({pid}), 30, "the node ends")
    assert living(ids) == []
