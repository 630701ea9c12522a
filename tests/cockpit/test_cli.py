"""The command line: what it prints where, and with which status it exits."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from cockpit import __version__
from cockpit.cli import COMMANDS, cli
from cockpit.commands.up import _words
from engine.api import schema
from engine.errors import UnknownTargetError
from engine.model import EngineState
from tests.cockpit.served_home import Node, engine, served_home
from tests.engine.api.support import event

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    with served_home() as (home, node):
        monkeypatch.setenv("COCKPIT_HOME", str(home))
        yield node


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home where nothing runs."""
    monkeypatch.setenv("COCKPIT_HOME", str(tmp_path))
    return tmp_path


def _run(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(cli, list(arguments), input=typed, prog_name="cockpit")


def _objects(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    found = [json.loads(line) for line in result.stdout.split("\n") if line]
    assert all(isinstance(one, dict) for one in found)
    return found


def _words_of(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _words_of(found, (*path, name))


def test_every_command_has_help() -> None:
    for path in _words_of(cli, ()):
        for flag in ("--help", "-h"):
            result = _run(*path, flag)
            assert result.exit_code == 0, path
            assert "Usage: cockpit" in result.stdout
    listed = {line.split()[0] for line in _run("--help").stdout.splitlines() if line.startswith("  ")}
    assert listed >= set(COMMANDS)


def test_the_version_is_one_line() -> None:
    assert _run("--version").stdout == f"cockpit {__version__}\n"


@pytest.mark.parametrize(("word", "near"), [("statu", "status"), ("engin", "engine"), ("evnts", "events")])
def test_an_unknown_command_suggests_the_nearest(word: str, near: str) -> None:
    result = _run(word)
    assert result.exit_code == 2
    assert f"Did you mean {near}?" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["up", "--nonsense"],
        ["up", "-c", "a", "--sim", "b"],
        ["up", "-c", "/nowhere.toml"],
        ["engine", "stop"],
        ["engine", "explode", "a/0"],
        ["logs"],
        ["logs", "a/0", "-n", "-1"],
        ["events", "-n", "0"],
        ["events", "-n", "x"],
        ["config", "check", "/nowhere.toml"],
    ],
)
def test_bad_input_is_status_2_and_says_nothing_on_stdout(nothing: Path, arguments: list[str]) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.strip()
    assert not (nothing / "state").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "--json"],
        ["engines"],
        ["engine", "stop", "a/0"],
        ["logs", "a/0"],
        ["events", "-f"],
        ["chat", "hi"],
    ],
)
def test_without_a_node_the_status_is_3_and_says_how_to_start_one(
    nothing: Path, arguments: list[str]
) -> None:
    result = _run(*arguments)
    assert result.exit_code == 3
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "cockpit: no node is running, or it went away; start one with `cockpit up`"
    ]
    assert not (nothing / "state").exists()


def test_down_where_nothing_runs_is_done(nothing: Path) -> None:
    result = _run("down")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "nothing is running\n")


def test_the_interface_needs_a_terminal(nothing: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cockpit"],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "terminal" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (nothing / "state").exists()


def test_status_and_engines_are_data_for_people_and_programs(node: Node) -> None:
    node.statuses = [(engine("a/0"), engine("b/0", EngineState.FAILED, crash="it crashed"))]
    (status,) = _objects(_run("status", "--json"))
    assert [one["name"] for one in status["engines"]] == ["a/0", "b/0"]
    assert [one["name"] for one in _objects(_run("engines", "--json"))] == ["a/0", "b/0"]
    for command in ("status", "engines"):
        result = _run(command)
        assert result.stderr == ""
        assert "it crashed" in result.stdout
        assert "–" in result.stdout  # what is unknown
        assert "25" in result.stdout
    assert "SIMULATED" in _run("status").stdout
    node.statuses = [()]
    assert "no engines" in _run("engines").stdout
    assert _run("engines", "--json").stdout == ""


def test_an_action_prints_its_reply_and_tells_beside_it(node: Node) -> None:
    result = _run("engine", "restart", "a", "--reason", "new weights", "--json")
    (reply,) = _objects(result)
    assert reply["engines"] == ["a/0"]
    assert result.stderr == "restart: a/0\n"
    assert node.asked == [schema.EngineAction("restart", "a", reason="new weights")]


@pytest.mark.parametrize(
    ("verb", "state", "status"),
    [
        ("start", EngineState.READY, 0),
        ("start", EngineState.FAILED, 1),
        ("stop", EngineState.STOPPED, 0),
        ("stop", EngineState.READY, 1),
        ("restart", EngineState.READY, 0),
        ("restart", EngineState.QUARANTINED, 1),
    ],
)
def test_an_action_that_is_waited_for_says_whether_it_came_to_its_aim(
    node: Node, verb: str, state: EngineState, status: int
) -> None:
    node.statuses = [(engine("a/0", state), engine("b/0", EngineState.FAILED))]
    result = _run("engine", verb, "a/0", "--wait")
    assert result.exit_code == status
    assert result.stdout == ""


def test_a_refusal_is_one_line_with_its_remedy_and_status_2(node: Node) -> None:
    node.error = UnknownTargetError("nothing is called x", "known: a")
    result = _run("engine", "stop", "x")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "cockpit: nothing is called x; known: a\n"


def test_a_fault_of_the_node_is_status_1(node: Node) -> None:
    node.error = RuntimeError("bug")
    result = _run("engine", "stop", "x")
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1


def test_events_are_shown_newest_last(node: Node) -> None:
    node.past = (event(2), event(1))
    assert [one["id"] for one in _objects(_run("events", "--json", "-n", "7", "--target", "a/0"))] == [1, 2]
    assert node.asked == [(7, None, "a/0")]
    lines = _run("events").stdout.splitlines()
    assert [line.rpartition("event ")[2] for line in lines] == ["1", "2"]


def test_events_go_on_with_those_of_the_target_and_its_engines(node: Node) -> None:
    node.past = (event(5),)
    for number, target in enumerate(("a/0", "ab/0", "a", "node"), 6):
        node.lines.put_nowait(schema.EventLine(msgspec.structs.replace(event(number), target=target)))
    node.lines.put_nowait(None)
    result = _run("events", "-f", "--json", "--target", "a")
    assert [one["id"] for one in _objects(result)] == [5, 6, 8]
    assert node.asked[-1] == 5  # without a gap and without saying 5 again


LONG = [f"line {number:04d} {'x' * 20}" for number in range(500)]


@pytest.mark.parametrize("lines", [1, 3, 499, 500, 900])
def test_the_last_lines_of_a_log_are_as_many_as_asked_for(node: Node, lines: int) -> None:
    node.logs = {1: "".join(f"{line}\n" for line in LONG).encode()}
    result = _run("logs", "a/0", "-n", str(lines))
    assert result.stdout.splitlines() == LONG[-lines:]
    assert result.stderr == ""


def test_all_of_a_log_is_printed_as_it_is(node: Node) -> None:
    text = "".join(f"{line}\r{line}\u2028\n" for line in LONG) + "no end"
    node.logs = {1: text.encode()}
    assert _run("logs", "a/0", "-n", "0").stdout_bytes.decode() == text
    assert _run("logs", "a/0", "-n", "2").stdout_bytes.decode() == "\n".join(text.split("\n")[-2:])
    rows = _objects(_run("logs", "a/0", "-n", "0", "--json"))
    assert [row["text"] for row in rows] == text.split("\n")
    assert {row["launch"] for row in rows} == {1}


def test_an_older_launch_is_asked_for_by_number(node: Node) -> None:
    node.logs = {1: b"old\n", 2: b"new\n"}
    assert _run("logs", "a/0").stdout == "new\n"
    assert _run("logs", "a/0", "--launch", "1").stdout == "old\n"
    assert _run("logs", "a/0", "--launch", "1", "-f").stdout == "old\n"  # it is over: nothing to follow


def _answer(*pieces: str) -> list[bytes]:
    usage = {"prompt_tokens": 3, "completion_tokens": len(pieces)}
    bodies: list[object] = [{"choices": [{"delta": {"content": piece}}]} for piece in pieces]
    return [json.dumps(body).encode() for body in (*bodies, {"choices": [], "usage": usage})]


@pytest.mark.parametrize("arguments", [["-m", "a", "hi"], ["hi"], ["-m", "a/0", "hi"]])
def test_an_answer_is_printed_and_its_figures_beside_it(node: Node, arguments: list[str]) -> None:
    node.answer = _answer("Hel", "lo")
    result = _run("chat", "-s", "be brief", *arguments)
    assert (result.exit_code, result.stdout) == (0, "Hello\n")
    assert "SIM" in result.stderr
    (asked,) = node.asked
    assert asked["model"] == "a"
    assert [turn["content"] for turn in asked["messages"]] == ["be brief", "hi"]


def test_a_prompt_may_come_from_standard_input(node: Node) -> None:
    node.answer = _answer("yes")
    (answer,) = _objects(_run("chat", "-m", "a", "--json", typed="long\nprompt\n"))
    assert answer["text"] == "yes"
    assert answer["completion_tokens"] == 1
    assert node.asked[0]["messages"] == [{"role": "user", "content": "long\nprompt\n"}]


def test_a_chat_with_nobody_to_ask_is_bad_input(node: Node) -> None:
    node.statuses = [()]
    assert _run("chat", "hi").exit_code == 2
    node.statuses = [(engine("a/0"), engine("b/0"))]
    several = _run("chat", "hi")
    assert several.exit_code == 2
    assert "a, b" in several.stderr
    node.chat_status = 404
    unknown = _run("chat", "-m", "zzz", "hi")
    assert (unknown.exit_code, unknown.stderr) == (2, "cockpit: no such model\n")


def test_an_answer_that_breaks_off_is_status_1(node: Node) -> None:
    node.answer = [*_answer("half")[:1], b'{"error": {"message": "it broke"}}']
    result = _run("chat", "-m", "a", "hi")
    assert result.exit_code == 1
    assert result.stdout == "half"
    assert result.stderr.strip() == "cockpit: it broke"


def test_config_check_is_one_object(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("")
    (fine,) = _objects(_run("config", "check", str(file), "--json"))
    assert fine == {"file": str(file), "errors": []}
    file.write_text("[node]\nnmae = 1\n")
    wrong = _run("config", "check", str(file), "--json")
    assert wrong.exit_code == 2
    assert "nmae" in json.loads(wrong.stdout)["errors"][0]["message"]
    assert "nmae" in wrong.stderr


def test_the_example_is_a_config_that_checks(tmp_path: Path) -> None:
    example = _run("config", "example")
    assert example.exit_code == 0
    assert "[gateway]" in example.stdout
    assert json.loads(_run("config", "schema").stdout)


def test_doctor_prints_one_object_a_line(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("COCKPIT_PYTHON", raising=False)
    subjects = [one["subject"] for one in _objects(_run("doctor", "--json"))]
    assert {"cockpit", "state folder", "node", "vllm"} <= set(subjects)
    (nothing / "state").write_text("in the way")
    broken = _run("doctor")
    assert broken.exit_code == 1
    assert "FAIL  state folder" in broken.stdout


def test_words_for_an_engine_that_failed_have_cause_and_remedy() -> None:
    assert _words(engine("a/0")) == "ready"
    assert _words(engine("a/0", EngineState.BACKOFF, crash="it crashed")) == "backoff: it crashed (look)"
