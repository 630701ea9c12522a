"""The log of each launch: one file, kept until it is old enough."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from pathlib import Path

KEPT_PER_ENGINE = 20
"""Launches whose logs are kept: a crash loop must not push its first failure out at once."""
TAIL_BYTES = 64 * 1024
"""What is read of a log's end to explain an exit: a CUDA traceback with its causes takes 10 to 30 kB."""

PARTIAL_LIMIT_BYTES = 4096
"""What is kept of a line that has not ended: milestones are short."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def folder(logs_dir: Path, engine: str) -> Path:
    """Where an engine's logs lie: `qwen/0` in `qwen-0`; no character of a name can leave the folder."""
    return logs_dir / _UNSAFE.sub("-", engine)


def new_path(logs_dir: Path, engine: str, at_s: float, pid_hint: int) -> Path:
    """The file for a launch at this time, sortable by name."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at_s))
    return folder(logs_dir, engine) / f"{stamp}-{pid_hint:04d}.log"


def prune(logs_dir: Path, engine: str) -> None:
    """Remove the oldest logs beyond those kept."""
    files = sorted(folder(logs_dir, engine).glob("*.log"))
    for old in files[:-KEPT_PER_ENGINE]:
        old.unlink(missing_ok=True)


def tail(path: Path, limit_bytes: int = TAIL_BYTES) -> list[str]:
    """The last lines of a log; empty when it is gone."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - limit_bytes))
            return file.read(limit_bytes).decode(errors="replace").splitlines()
    except OSError:
        return []


@dataclass
class Follower:
    """Reads what was added to a log since the last look, bounded per look."""

    path: Path
    _offset: int = 0
    _partial: bytes = field(default=b"")

    def new_lines(self, limit_bytes: int = 256 * 1024) -> list[str]:
        """Whole lines since the last call; a progress bar's carriage returns count as line ends."""
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, 2)
                if size < self._offset:  # emptied by somebody who rotates logs
                    self._offset, self._partial = 0, b""
                if size - self._offset > limit_bytes:  # far behind: what matters is the newest
                    self._offset, self._partial = size - limit_bytes, b""
                file.seek(self._offset)
                data = file.read(limit_bytes)
        except OSError:
            return []
        self._offset += len(data)
        *whole, rest = (self._partial + data).replace(b"\r", b"\n").split(b"\n")
        self._partial = rest[-PARTIAL_LIMIT_BYTES:]
        return [line.decode(errors="replace") for line in whole]
