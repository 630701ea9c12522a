"""Bad input: one line that names the thing and the remedy, exit status 2, nothing changed."""

from __future__ import annotations

import socket
import sqlite3
from pathlib import Path

import pytest

from tests.support.cockpit_home import CockpitHome

pytestmark = pytest.mark.timeout(120)


def _refused(home: CockpitHome, *arguments: str) -> str:
    done = home.run(*arguments)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2, done.stderr
    assert len(lines) == 1, done.stderr
    assert done.stdout == ""
    assert home.run("status").returncode == 3  # no node was left behind
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
        (ENGINE.replace("Qwen/Qwen3-8B", "./no-model"), "no-model", "config.json"),
        (ENGINE + "args = { port = 1 }\n", "args", ""),
    ],
)
def test_a_wrong_config_is_refused(home: CockpitHome, text: str, named: str, remedy: str) -> None:
    line = _refused(home, "up", "-c", _config(home, text))
    assert named in line
    assert remedy in line


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


def test_config_check_says_all_that_is_wrong(home: CockpitHome, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(ENGINE + "replicas = 0\n" + ENGINE + 'python = "/nowhere"\n')
    done = home.run("config", "check", str(path))
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) >= 2
