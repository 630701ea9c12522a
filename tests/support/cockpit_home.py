"""A cockpit of its own: a state folder, its command line, and the certainty that nothing of it stays."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.supervisor import sessions

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class CockpitHome:
    """`COCKPIT_HOME` in a short folder of its own, since sockets must fit into 107 bytes."""

    path: Path

    @property
    def environment(self) -> dict[str, str]:
        """What commands run with: none of the user's own settings."""
        own = {k: v for k, v in os.environ.items() if not k.startswith("COCKPIT_")}
        return own | {"COCKPIT_HOME": str(self.path), "COCKPIT_NODE_NAME": "test"}

    @property
    def socket(self) -> Path:
        """The node's API."""
        return self.path / "state" / "run" / "api.sock"

    def start(self, *arguments: str, **kwargs: Any) -> subprocess.Popen[str]:
        """A cockpit command, running."""
        return subprocess.Popen(
            [sys.executable, "-m", "cockpit", *arguments],
            env=self.environment,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **kwargs,
        )

    def run(self, *arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """A cockpit command, to its end."""
        with self.start(*arguments) as process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def ok(self, *arguments: str, timeout_s: float = 60.0) -> str:
        """The standard output of a command that must succeed."""
        done = self.run(*arguments, timeout_s=timeout_s)
        assert done.returncode == 0, f"cockpit {' '.join(arguments)}: {done.returncode}\n{done.stderr}"
        return done.stdout

    def status(self) -> dict[str, Any]:
        """`cockpit status --json`."""
        found = json.loads(self.ok("status", "--json"))
        assert isinstance(found, dict)
        return found

    def engine(self, name: str) -> dict[str, Any]:
        """One engine of the status."""
        return next(engine for engine in self.status()["engines"] if engine["name"] == name)

    def node_log(self) -> str:
        """What the node wrote."""
        log = self.path / "state" / "node.log"
        return log.read_text() if log.exists() else ""


@contextmanager
def cockpit_home() -> Iterator[CockpitHome]:
    """A fresh home; taken down and checked for leftovers at the end."""
    home = CockpitHome(Path(tempfile.mkdtemp(prefix="ck-")))
    try:
        yield home
    finally:
        down = home.run("down", timeout_s=90.0)
        log = home.node_log()
        shutil.rmtree(home.path, ignore_errors=True)
        assert down.returncode == 0, f"cockpit down: {down.stderr}\n{log}"
        assert "Traceback" not in log, log


def living(session_ids: set[int]) -> list[sessions.Process]:
    """Processes of these sessions that are not zombies, read from /proc."""
    return [p for p in sessions.every_process() if p.session_id in session_ids and p.state != "Z"]


def poll(predicate: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Wait, outside an event loop, until something holds; looks ten times a second."""
    deadline = time.monotonic() + timeout_s
    while not predicate():
        assert time.monotonic() < deadline, f"{what}: not within {timeout_s} s"
        time.sleep(0.1)
