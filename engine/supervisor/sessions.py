"""Processes by session id, read from /proc.

An engine starts in a session of its own. Its children may change process group (vLLM's multi-port
mode calls `setpgrp`) and lose their parent (SIGKILL of the API server leaves `VLLM::EngineCore`
to init), but they keep the session id: it is what to reap by.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
GONE = ("Z", "X")
"""States of a process that holds nothing any more; only its parent can clear it."""


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc/PID/stat, as far as it matters here."""

    pid: int
    command: str
    state: str
    """`R`, `S`, `D` (uninterruptible), `Z` (zombie), …"""
    parent_pid: int
    session_id: int
    start_ticks: int
    """Clock ticks after boot; with the pid it names a process for good."""


def parse_stat(text: str) -> Process:
    """A line of /proc/PID/stat; the command may hold blanks and brackets (proc_pid_stat(5)).

    Raises:
        ValueError: it is no such line.
    """
    opening, closing = text.index("("), text.rindex(")")
    rest = text[closing + 1 :].split()
    if len(rest) < 20:
        raise ValueError(f"{len(rest)} fields after the command")
    return Process(
        pid=int(text[:opening]),
        command=text[opening + 1 : closing],
        state=rest[0],
        parent_pid=int(rest[1]),
        session_id=int(rest[3]),
        start_ticks=int(rest[19]),
    )


def find(pid: int) -> Process | None:
    """The process of this pid now, or None."""
    try:
        # Not pathlib: a scan reads one such file per process of the machine, and this halves it.
        with open(f"{PROC}/{pid}/stat", errors="replace") as stat:  # noqa: PTH123
            return parse_stat(stat.read())
    except (OSError, ValueError):
        return None


def lives(process: Process) -> bool:
    """Whether it still runs: not another that got its pid, and no zombie."""
    now = find(process.pid)
    return now is not None and now.start_ticks == process.start_ticks and now.state not in GONE


def every_process() -> Iterator[Process]:
    """All processes that this user may see; those that vanish meanwhile are left out."""
    with os.scandir(PROC) as entries:
        for entry in entries:
            if entry.name.isdigit():
                process = find(int(entry.name))
                if process is not None:
                    yield process


def belonging(session_id: int, started_after_ticks: int) -> tuple[Process, ...]:
    """Processes of a session, zombies among them.

    `started_after_ticks` is the leader's start: members of an older session of that number are not ours.
    """
    leader = find(session_id)
    if leader is not None and leader.start_ticks != started_after_ticks and leader.session_id == session_id:
        return ()  # the number has been given to somebody else's session
    return tuple(
        p for p in every_process() if p.session_id == session_id and p.start_ticks >= started_after_ticks
    )


def members(session_id: int, started_after_ticks: int) -> tuple[Process, ...]:
    """As `belonging`, without zombies."""
    return tuple(p for p in belonging(session_id, started_after_ticks) if p.state not in GONE)


def send(processes: tuple[Process, ...], number: signal.Signals) -> None:
    """Signal each process, unless its pid has passed to another meanwhile."""
    for process in processes:
        try:
            pidfd = os.pidfd_open(process.pid)
        except OSError:
            continue
        try:
            now = find(process.pid)
            if now is not None and now.start_ticks == process.start_ticks:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    signal.pidfd_send_signal(pidfd, number)
        finally:
            os.close(pidfd)


def boot_id() -> str:
    """Names this boot of the machine; pids and start ticks mean nothing across boots."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
