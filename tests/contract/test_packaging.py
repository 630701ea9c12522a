"""Wheel and sdist, each installed into an empty environment outside the checkout, run a node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cockpit import __version__
from cockpit.settings_text import example

ROOT = Path(__file__).parents[2]
PACKAGES = ("cockpit", "engine", "storage")
# Building and installing download what pip has not cached.
pytestmark = pytest.mark.timeout(600)


def outside(home: Path) -> dict[str, str]:
    """The environment of a user who has nothing of ours, and keeps the state in `home`."""
    ours = ("COCKPIT_", "PYTHON", "VIRTUAL_ENV", "CONDA", "VLLM_")
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    return inherited | {"COCKPIT_HOME": str(home)}


def run(words: Sequence[str | Path], cwd: Path, environment: dict[str, str], timeout_s: float = 300) -> str:
    done = subprocess.run(
        words,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, f"{words}: exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel, built from the sdist, and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--outdir", folder, ROOT], folder, dict(os.environ))
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


@pytest.fixture(scope="session")
def commands() -> dict[str, Path]:
    """What `installed` has made so far: a parametrized session fixture would be made anew at each turn."""
    return {}


@pytest.fixture(params=["wheel", "sdist"])
def installed(
    request: pytest.FixtureRequest,
    archives: dict[str, Path],
    commands: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The `cockpit` command of an environment that holds one archive and what it needs."""
    kind = str(request.param)
    if kind not in commands:
        folder = tmp_path_factory.mktemp(kind)
        environment = outside(folder / "home")
        run([sys.executable, "-m", "venv", folder / "env"], folder, environment)
        python = folder / "env" / "bin" / "python"
        pip: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        run([*pip, archives[kind]], folder, environment)
        commands[kind] = python.with_name("cockpit")
    return commands[kind]


@pytest.fixture
def home(installed: Path, tmp_path: Path) -> Iterator[Path]:
    """A state folder whose node is gone afterwards."""
    yield tmp_path
    subprocess.run([installed, "down"], env=outside(tmp_path), capture_output=True, timeout=60, check=False)


def test_the_wheel_holds_every_file_of_the_packages(archives: dict[str, Path]) -> None:
    sources = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    themes = {f"cockpit/_themes/{path.name}" for path in (ROOT / "themes").iterdir() if path.is_file()}
    held = zipfile.ZipFile(archives["wheel"]).namelist()
    assert sources - set(held) == set()
    assert themes - set(held) == set()
    assert {name.split("/")[0] for name in held if ".dist-info" not in name} == set(PACKAGES)


def test_the_sdist_holds_what_its_tests_need(archives: dict[str, Path]) -> None:
    with tarfile.open(archives["sdist"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "LICENSE", "README.md", "pyproject.toml", "tests/contract/test_packaging.py"} <= names


def test_the_archive_runs_without_a_checkout(installed: Path, home: Path) -> None:
    environment = outside(home)
    assert __version__ in run([installed, "--version"], home, environment)
    text = run([installed, "config", "example"], home, environment)
    assert text == example()
    (home / "example.toml").write_text(text)
    run([installed, "config", "check", "example.toml"], home, environment)
    assert json.loads(run([installed, "config", "schema"], home, environment))["title"] == "vllm-cockpit"


def test_the_archive_runs_a_simulated_node(installed: Path, home: Path) -> None:
    environment = outside(home)
    try:
        run([installed, "up", "--sim", "h100x8", "--wait"], home, environment, timeout_s=120)
    except AssertionError as error:
        log = home / "state" / "node.log"
        error.add_note(log.read_text() if log.exists() else "there is no node.log")
        raise
    status = json.loads(run([installed, "status", "--json"], home, environment))
    assert status["simulated"] is True
    assert len(status["gpus"]) == 8
    assert status["engines"]
    assert {engine["state"] for engine in status["engines"]} == {"ready"}
    run([installed, "down"], home, environment, timeout_s=120)
    sessions = {engine["session_id"] for engine in status["engines"]}
    assert status["node"]["pid"] not in processes()
    assert sessions.isdisjoint(processes().values())


def processes() -> dict[int, int]:
    """Every process that is no zombie, with its session."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            found[int(stat.parent.name)] = int(session)
    return found
