"""A node with simulated engines: real processes, real signals."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from cockpit.paths import run_folder
from engine.api import schema
from tests.support.cockpit_home import CockpitHome, living, poll

pytestmark = pytest.mark.timeout(180)


ONE = """
[[engine]]
name = "one"
model = "Qwen/Qwen3-8B"
backend = "simulated"
gpus = [0]
"""


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("node", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _ask(home: CockpitHome, method: str, path: str, body: object = None) -> dict[str, Any]:
    connection = _Unix(home.socket)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        raw = response.read()
        assert response.status == 200, raw
        assert response.headers[schema.VERSION_HEADER] == str(schema.API_VERSION)
    finally:
        connection.close()
    answer = json.loads(raw)
    assert isinstance(answer, dict)
    return answer


def _config(home: CockpitHome, text: str) -> Path:
    path = home.path / "cockpit.toml"
    path.write_text(text)
    return path


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
        return bool(now["state"] == "ready" and now["pid"] != victim["pid"])

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


def test_up_waits_and_fails_when_an_engine_does(home: CockpitHome) -> None:
    config = _config(home, ONE + '[engine.simulated]\nfaults = ["oom-at-start"]\n')
    done = home.run("up", "-c", str(config), "--wait", timeout_s=90)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "GPU memory" in done.stderr


def test_up_says_what_goes_on_beside_its_data(home: CockpitHome) -> None:
    done = home.run("up", "-c", str(_config(home, ONE)), "--wait", "--json", timeout_s=90)
    assert done.returncode == 0
    assert json.loads(done.stdout)["engines"][0]["state"] == "ready"
    assert len(done.stdout.splitlines()) == 1
    assert "one/0" in done.stderr


def test_a_start_that_takes_too_long_has_failed(home: CockpitHome) -> None:
    text = ONE + 'start_timeout_s = 2.0\n[engine.simulated]\nfaults = ["slow-start=600"]\n'
    done = home.run("up", "-c", str(_config(home, text)), "--wait", timeout_s=90)
    assert done.returncode == 1
    ends = _ask(home, "GET", "/v1/launches?engine=one/0")["launches"]
    assert ends[-1]["cause"]["kind"] == "start_timeout"


def test_an_engine_that_ignores_sigterm_is_gone_after_down(home: CockpitHome) -> None:
    config = _config(home, ONE + '[engine.simulated]\nfaults = ["ignore-sigterm"]\n')
    home.ok("up", "-c", str(config), "--wait", timeout_s=90)
    ids = _sessions(home)
    home.ok("down", timeout_s=120)
    assert living(ids) == []


def test_events_and_conversations_outlive_the_node(small_node: CockpitHome) -> None:
    draft = {"title": "A talk", "model": "qwen"}
    talk = _ask(small_node, "POST", "/v1/conversations", draft)
    said = {"role": "user", "content": "Hello"}
    _ask(small_node, "POST", f"/v1/conversations/{talk['id']}/messages", said)
    before = _ask(small_node, "GET", "/v1/events?limit=1000")["events"]
    small_node.ok("down")
    small_node.ok("up")
    after = _ask(small_node, "GET", "/v1/events?limit=1000")["events"]
    assert [event for event in after if event["id"] <= before[0]["id"]] == before
    assert "action.shutdown" in [event["kind"] for event in after]
    again = _ask(small_node, "GET", f"/v1/conversations/{talk['id']}")
    assert again["title"] == "A talk"
    assert [message["content"] for message in again["messages"]] == ["Hello"]


def test_a_deployment_launched_by_hand_comes_back_and_a_removed_one_does_not(home: CockpitHome) -> None:
    config = _config(home, ONE)
    home.ok("up", "-c", str(config), "--wait", timeout_s=90)
    spec = {"name": "two", "model": "Qwen/Qwen3-4B", "backend": "simulated", "gpus": [1]}
    reply = _ask(home, "POST", "/v1/deployments", {"deployment": spec, "reason": "more of it"})
    assert reply["durable"] is True
    assert reply["engines"] == ["two/0"]
    assert reply["event"]["actor"]["uid"] == os.getuid()
    poll(lambda: home.engine("two/0")["state"] == "ready", 30, "the new engine is ready")
    session_id = home.engine("one/0")["session_id"]
    _ask(home, "DELETE", "/v1/deployments/one")
    poll(lambda: [e["name"] for e in home.status()["engines"]] == ["two/0"], 30, "the other is removed")
    assert living({session_id}) == []
    home.ok("down")
    config.unlink()  # what ran last does not depend on the file any more
    home.ok("up", "--wait", timeout_s=90)
    status = home.status()
    assert [e["name"] for e in status["engines"]] == ["two/0"]
    assert status["node"]["config"] == str(config)
    assert status["simulated"] is True


def test_a_simulated_machine_without_deployments_stays_simulated(home: CockpitHome) -> None:
    home.ok("up", "-c", str(_config(home, ONE)), "--wait", timeout_s=90)
    _ask(home, "DELETE", "/v1/deployments/one")
    home.ok("down")
    home.ok("up")
    status = home.status()
    assert status["engines"] == []
    assert status["simulated"] is True


def test_a_stream_resumes_after_an_event(small_node: CockpitHome) -> None:
    known = _ask(small_node, "GET", "/v1/events")["events"]
    connection = _Unix(small_node.socket)
    try:
        connection.request("GET", f"/v1/stream?after_event={known[-1]['id']}")
        response = connection.getresponse()
        lines = [json.loads(response.readline()) for _ in range(len(known))]
    finally:
        connection.close()
    assert lines[0]["type"] == "hello"
    assert [line["event"] for line in lines[1:]] == known[-2::-1]


def test_logs_show_the_end_of_one_launch_and_the_next(small_node: CockpitHome) -> None:
    with small_node.start("logs", "qwen/0", "-n", "0", "-f", "--json") as following:
        assert following.stdout is not None
        first = json.loads(following.stdout.readline())["launch"]
        small_node.ok("engine", "restart", "qwen/0", "--wait")
        seen: dict[int, list[str]] = {}
        for line in following.stdout:
            row = json.loads(line)
            seen.setdefault(row["launch"], []).append(row["text"])
            if row["launch"] != first and "startup complete" in row["text"]:
                break
        following.terminate()
        following.communicate()
    assert any("shutdown complete" in text for text in seen[first])
    assert len(seen) == 2


def test_the_short_socket_folder_is_found_by_every_process(home: CockpitHome) -> None:
    deep = CockpitHome(home.path / ("d" * 120))
    try:
        deep.ok("up", "-c", str(_config(home, ONE)))
        assert not deep.socket.exists()
        assert deep.status()["engines"]
    finally:
        deep.ok("down")
        shutil.rmtree(run_folder(deep.path / "state"))


def test_a_removed_deployment_is_gone_and_its_gpus_are_free(small_node: CockpitHome) -> None:
    ids = _sessions(small_node)
    reply = json.loads(small_node.ok("engine", "remove", "qwen", "--json"))
    assert reply["engines"] == ["qwen/0", "qwen/1"]
    poll(lambda: small_node.status()["engines"] == [], 30, "the engines are gone")
    assert living(ids) == []
    unknown = small_node.run("engine", "remove", "qwen")
    assert unknown.returncode == 2
    assert "qwen" in unknown.stderr
