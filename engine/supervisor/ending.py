"""Ending an engine so that nothing of it is left.

SIGTERM to the API server  →  its children follow within seconds, and clear their shared memory
SIGTERM to the session     →  for children that lost their parent
SIGKILL to the session     →  again and again, since a dying process may still have spawned one
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from typing import Protocol

from engine.supervisor import sessions

POLL_S = 0.1
"""Between looks at processes that are ending."""


class Endable(Protocol):
    """A process with a session, as `EngineProcess` or one that an earlier node left."""

    async def wait(self) -> int: ...
    def returncode(self) -> int | None: ...
    def members(self) -> tuple[sessions.Process, ...]: ...
    def terminate(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Grace:
    """How long each step may take, seconds."""

    leader_s: float = 20.0
    """SIGTERM of vLLM: 4 s of teardown were seen, more under load."""
    children_s: float = 2.0
    """Workers end by themselves a moment after the API server."""
    orphans_s: float = 8.0
    """`VLLM::EngineCore` without its API server ends within 5 s of a SIGTERM."""
    kill_s: float = 15.0
    """SIGKILL, until the kernel has cleared them; a process inside the driver can take this long."""


async def end(process: Endable, grace: Grace) -> tuple[sessions.Process, ...]:
    """End the engine and all of its session; returns what would not die (empty when all is well)."""
    if process.returncode() is None:
        process.terminate()
        try:
            async with asyncio.timeout(grace.leader_s):
                await process.wait()
        except TimeoutError:
            return await _kill(process, grace)
        if await _gone(process, grace.children_s):
            return ()
    return await end_rest(process, grace)


async def end_rest(process: Endable, grace: Grace) -> tuple[sessions.Process, ...]:
    """End what an engine left when its leader is gone."""
    rest = process.members()
    if not rest:
        return ()
    sessions.send(rest, signal.SIGTERM)
    if await _gone(process, grace.orphans_s):
        return ()
    return await _kill(process, grace)


async def _kill(process: Endable, grace: Grace) -> tuple[sessions.Process, ...]:
    deadline = asyncio.get_running_loop().time() + grace.kill_s
    while rest := process.members():
        sessions.send(rest, signal.SIGKILL)
        if not await _all_ended(rest, deadline):
            return process.members()
    return ()


async def _gone(process: Endable, within_s: float) -> bool:
    """Whether the session emptied in time."""
    deadline = asyncio.get_running_loop().time() + within_s
    while rest := process.members():
        if not await _all_ended(rest, deadline):
            return not process.members()
    return True


async def _all_ended(processes: tuple[sessions.Process, ...], deadline: float) -> bool:
    """Wait for these; whether they ended in time.

    `members` reads the whole of /proc, 20 ms and more on a large machine, on the loop that carries
    every request; so it is asked only once those known are gone.
    """
    while True:
        await asyncio.sleep(POLL_S)
        if asyncio.get_running_loop().time() > deadline:
            return False
        if not any(map(sessions.lives, processes)):
            return True
