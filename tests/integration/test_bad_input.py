"""Bad input: one line that names the thing and the remedy, exit status 2, nothing changed."""

from __future__ import annotations

import json
import socket
import sqlite3
from pathlib import Path

import pytest

from tests.support.cockpit_home import CockpitHome

pytestmark = pytest.mark.timeout(120)


def _refused(home: CockpitHome, *arguments: str) -> str:
    state = home.path / "state"
    before = state.exists()
    done = home.run(*arguments)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2, done.stderr
    assert len(lines) == 1, done.stderr
    assert done.stdout == ""
    assert home.run("status").returncode == 3  # no node was left behind
    assert state.exists() is before  # nor anything else
    return lines[0]


def _config(home: CockpitHome, text: str) -> str:
    path = home.path / "cockpit.toml"
    path.write_text(text)
    return str(path)


ENGINE = '[[engine]]\nname = "a"\nmodel = "Qwen/Qwen3-8B"\nbackend = "simulated"\n'


@pytest.mark.parametrize(
    ("text", "named", "remedy"),
    [
        ("[node\n", "cockpit.toml:1", "TOML"),
        ('[node]\nnmae = "x"\n', "nmae", "name"),
        (ENGINE + 'modle = "x"\n', "modle", "model"),
        (ENGINE + "gpus = [0, 0]\n", "twice", ""),
        (ENGINE + "gpus = [99]\n", "99", "0"),
        (ENGINE + 'gpus = ["GPU-nowhere"]\n', "GPU-nowhere", ""),
        (
            ENGINE + "port = 9001\ngpus = [0]\n" + ENGINE.replace('"a"', '"b"') + "port = 9001\ngpus = [1]\n",
            "9001",
            "",
        ),
        (ENGINE.replace("simulated", "vllm") + 'python = "/nowhere/python"\n', "/nowhere/python", ""),
        (
            ENGINE.replace("Qwen/Qwen3-8B", "./no-model").replace("simulated", "vllm"),
            "no-model",
            "check the path",
        ),
        (ENGINE + "args = { port = 1 }\n", "args", ""),
    ],
)
def test_a_wrong_config_is_refused(home: CockpitHome, text: str, named: str, remedy: str) -> None:
    line = _refused(home, "up", "-c", _config(home, text))
    assert named in line
    assert remedy in line


def test_a_model_folder_without_its_config_is_refused(home: CockpitHome) -> None:
    (home.path / "weights").mkdir()
    engine = ENGINE.replace("Qwen/Qwen3-8B", "./weights").replace("simulated", "vllm")
    line = _refused(home, "up", "-c", _config(home, engine))
    assert str(home.path / "weights") in line
    assert "config.json" in line


def test_an_unknown_profile_is_refused_with_the_known_ones(home: CockpitHome) -> None:
    assert "h100x8" in _refused(home, "up", "--sim", "h100x9")


def test_nothing_to_resume_is_said(home: CockpitHome) -> None:
    assert "--sim h100x8" in _refused(home, "up")


def test_a_state_folder_that_cannot_be_written_is_named(home: CockpitHome) -> None:
    (home.path / "state").write_text("a file where the folder should be")
    line = _refused(home, "up", "--sim", "l40sx2")
    assert str(home.path / "state") in line
    assert "COCKPIT_HOME" in line
    (home.path / "state").unlink()


def test_a_database_of_a_newer_version_is_left_alone(home: CockpitHome) -> None:
    state = home.path / "state"
    state.mkdir(mode=0o700)
    database = state / "cockpit.db"
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA user_version = 9999")
    connection.close()
    before = database.read_bytes()
    line = _refused(home, "up", "--sim", "l40sx2")
    assert "9999" in line
    assert database.read_bytes() == before
    database.unlink()


def test_a_gateway_port_in_use_is_named(home: CockpitHome) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = _refused(home, "up", "--sim", "l40sx2", "--listen", f"127.0.0.1:{port}")
    assert str(port) in line


def test_a_group_that_does_not_exist_is_named(home: CockpitHome) -> None:
    text = '[node]\nsocket_group = "nobody-is-in-here"\n' + ENGINE
    line = _refused(home, "up", "-c", _config(home, text))
    assert "nobody-is-in-here" in line
    assert "socket_group" in line


def test_a_refused_start_leaves_what_ran_last_as_it_was(home: CockpitHome) -> None:
    home.ok("up", "-c", _config(home, ENGINE + "gpus = [0]\n"))
    home.ok("down")
    _refused(home, "up", "-c", _config(home, ENGINE + "gpus = [99]\n"))
    home.ok("up")
    assert [engine["name"] for engine in home.status()["engines"]] == ["a/0"]


def test_bytes_that_are_no_request_do_not_disturb_the_node(small_node: CockpitHome) -> None:
    for garbage in (b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", b"POST /v1/engines/action HTTP/1.1\r\n"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(small_node.socket))
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            assert b"Traceback" not in connection.recv(65_536)
    assert small_node.status()["engines"]


def test_config_check_says_all_that_is_wrong(home: CockpitHome, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(ENGINE + "replicas = 0\n" + ENGINE + 'python = "/nowhere"\n')
    done = home.run("config", "check", str(path))
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) >= 2
    found = json.loads(home.run("config", "check", str(path), "--json").stdout)
    assert found["file"] == str(path)
    assert len(found["errors"]) >= 2
    assert all(error["message"] and error["hint"] for error in found["errors"])
