"""The interface in a real terminal, as a new user meets it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.cockpit_home import REPOSITORY, CockpitHome, poll

pytestmark = pytest.mark.timeout(150)


class Terminal:
    """A tmux server of its own with one window."""

    def __init__(self, home: CockpitHome, columns: int, lines: int, *, commands: str) -> None:
        # Paths of Unix sockets are short, and the home's is.
        self._socket = home.path / "tmux"
        env = home.environment | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        self._run(
            "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines), commands, env=env
        )

    def _run(self, *words: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *words],
            env=env,
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        return done.stdout

    def screen(self) -> str:
        """What is to be seen."""
        return self._run("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self._run("send-keys", *keys)

    def close(self) -> None:
        """Close the window, as a terminal that is closed: SIGHUP to what runs in it."""
        self._run("kill-server")


@pytest.fixture
def need_tmux() -> None:
    """Skip without tmux; CI must have it."""
    if shutil.which("tmux") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("tmux is not installed: `apt-get install tmux`")
        pytest.skip("tmux is not installed: `apt-get install tmux`")


@pytest.fixture
def first_run(need_tmux: None, home: CockpitHome) -> Iterator[Terminal]:
    """`cockpit` in a terminal of 100x30 on a home where nothing ran: what `make run` comes to."""
    command = shlex.join([sys.executable, "-m", "cockpit"])
    terminal = Terminal(home, 100, 30, commands=f"{command}; echo left with $?; sleep 100")
    try:
        yield terminal
    finally:
        terminal.close()


def test_the_first_run_shows_eight_simulated_gpus(first_run: Terminal) -> None:
    poll(lambda: first_run.screen().count("● ready") >= 7, 60, "seven engines are ready on the screen")
    screen = first_run.screen()
    lines = screen.splitlines()
    assert "SIM" in lines[0]
    assert "8 × H100" in lines[0]
    assert "make run-vllm-cpu" in screen
    first = next(number for number, line in enumerate(lines) if "qwen/0" in line)
    assert [line.lstrip("▌ ")[0] for line in lines[first : first + 8]] == list("01234567")
    assert all(len(line) <= 100 for line in lines)


def test_quitting_leaves_the_engines_and_coming_back_finds_them(
    first_run: Terminal, home: CockpitHome
) -> None:
    poll(lambda: first_run.screen().count("● ready") >= 7, 60, "seven engines are ready on the screen")
    before = {engine["name"]: engine["pid"] for engine in home.status()["engines"]}
    first_run.press("q")
    poll(lambda: "Leave the engines running" in first_run.screen(), 10, "it asks")
    first_run.press("Enter")
    poll(lambda: "left with 0" in first_run.screen(), 10, "the interface ends")
    after = {engine["name"]: engine["pid"] for engine in home.status()["engines"]}
    assert after == before


def test_a_closed_terminal_harms_neither_node_nor_engines(first_run: Terminal, home: CockpitHome) -> None:
    poll(lambda: first_run.screen().count("● ready") >= 7, 60, "seven engines are ready on the screen")
    before = {engine["name"]: engine["pid"] for engine in home.status()["engines"]}
    first_run.close()
    assert {engine["name"]: engine["pid"] for engine in home.status()["engines"]} == before


def test_make_run_installs_nothing_a_second_time() -> None:
    """The stamps hold: with an environment that is there, `make run` comes straight to the cockpit."""
    made = (REPOSITORY / ".venv" / ".product-installed").exists()
    if not made and os.environ.get("CI") != "true":
        pytest.skip("this environment was not made by `make`")
    plan = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "run"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert plan.stdout.split() == [".venv/bin/cockpit"]
