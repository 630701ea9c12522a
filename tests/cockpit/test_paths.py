"""Where files are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cockpit import paths


def test_everything_is_under_cockpit_home() -> None:
    where = paths.find({"COCKPIT_HOME": "/h"})
    assert where.config_file == Path("/h/config/cockpit.toml")
    assert where.themes_dir == Path("/h/config/themes")
    assert where.database.parent == where.lock.parent == where.logs_dir.parent == Path("/h/state")
    assert where.api_socket == Path("/h/state/run/api.sock")
    assert where.engine_sockets_dir == Path("/h/state/run/engines")


def test_a_home_is_absolute_whatever_folder_is_asked_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert paths.find({"COCKPIT_HOME": "here"}).state_dir == tmp_path / "here" / "state"


def test_without_a_home_the_users_folders_are_taken() -> None:
    where = paths.find({})
    assert where.config_dir.name == where.state_dir.name == "vllm-cockpit"
    assert where.config_dir != where.state_dir


@pytest.mark.parametrize("length", range(40, 130))
def test_the_longest_socket_name_fits_for_every_state_folder(length: int) -> None:
    state_dir = Path("/" + "s" * (length - 1))
    run = paths.run_folder(state_dir)
    longest = run / "engines" / ("x" * 16 + ".sock")
    assert len(os.fsencode(longest)) <= paths.SOCKET_PATH_LIMIT_BYTES


def test_bytes_count_and_not_characters() -> None:
    assert paths.run_folder(Path("/" + "ä" * 45)).parent == Path("/tmp")
    assert paths.run_folder(Path("/" + "a" * 45)).parent != Path("/tmp")


def test_two_state_folders_do_not_share_their_sockets() -> None:
    deep = "/" + "d" * 120
    assert paths.run_folder(Path(deep, "a")) != paths.run_folder(Path(deep, "b"))


def test_processes_with_other_temporary_folders_agree(tmp_path: Path) -> None:
    home = str(tmp_path / ("d" * 120))
    code = "from cockpit import paths; print(paths.find().api_socket)"
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "COCKPIT_HOME": home, "TMPDIR": temporary, "XDG_RUNTIME_DIR": temporary},
            cwd=Path(__file__).resolve().parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for temporary in (str(tmp_path), "/var/tmp")
    }
    assert answers == {str(paths.find({"COCKPIT_HOME": home}).api_socket)}
