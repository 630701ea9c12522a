"""Engines that an earlier node left running when it died."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from engine.supervisor import sessions
from engine.supervisor.ending import Grace, end_rest


@dataclass(frozen=True, slots=True)
class Leftover:
    """A launch that was never seen to end."""

    launch_id: int
    engine: str
    session_id: int
    start_ticks: int
    boot_id: str

    async def wait(self) -> int:
        """Not ours to wait for: its parent is gone."""
        raise NotImplementedError

    def returncode(self) -> int | None:
        """Treated as ended: the whole session is to go."""
        return 0

    def members(self) -> tuple[sessions.Process, ...]:
        """What still lives of it, if it is of this boot and of this user."""
        if self.boot_id != sessions.boot_id():
            return ()
        return tuple(p for p in sessions.members(self.session_id, self.start_ticks) if _is_ours(p.pid))

    def terminate(self) -> None:
        """Nothing: `end_rest` signals the session."""


def _is_ours(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.getuid()
    except OSError:
        return False


async def end_leftovers(leftovers: tuple[Leftover, ...], grace: Grace) -> dict[int, int]:
    """End what lives of them, all at once: launch id → number of processes ended."""
    living = [len(leftover.members()) for leftover in leftovers]
    rests = await asyncio.gather(*(end_rest(leftover, grace) for leftover in leftovers))
    return {
        leftover.launch_id: max(0, count - len(rest))
        for leftover, count, rest in zip(leftovers, living, rests, strict=True)
    }
