"""Time that passes only when a test says so."""

from __future__ import annotations

import asyncio
import heapq
import itertools

_SETTLE_ROUNDS = 20
"""Turns of the loop after each wake: a woken task may pass through a few queues before it sleeps again."""


class FakeClock:
    """`engine.ports.Clock` that a test moves by hand.

    `await clock.advance(10)` wakes every sleeper due within the next 10 s, earliest first, at its own
    time, and lets tasks run between wakes: a loop that sleeps 1 s runs ten times. Only what needs no
    real I/O settles by itself; for the rest use `wait_until`.
    """

    def __init__(self, monotonic_s: float = 1_000.0, epoch_s: float = 1_700_000_000.0) -> None:
        self._monotonic_s = monotonic_s
        self._epoch_offset_s = epoch_s - monotonic_s
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        """Seconds."""
        return self._monotonic_s

    def epoch(self) -> float:
        """UTC seconds; moves together with `monotonic`."""
        return self._monotonic_s + self._epoch_offset_s

    @property
    def sleeping(self) -> int:
        """How many tasks now wait for this clock: what to wait for before advancing."""
        return sum(not wake.done() for _, _, wake in self._sleepers)

    async def sleep(self, seconds: float) -> None:
        """Wait until the test has advanced this far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._monotonic_s + seconds, next(self._order), wake))
        await wake

    async def advance(self, seconds: float) -> None:
        """Let time pass, waking sleepers on the way."""
        target_s = self._monotonic_s + seconds
        await _settle()
        while self._sleepers and self._sleepers[0][0] <= target_s:
            due_s, _, wake = heapq.heappop(self._sleepers)
            if wake.done():
                continue
            self._monotonic_s = due_s
            wake.set_result(None)
            await _settle()
        self._monotonic_s = target_s
        await _settle()


async def _settle() -> None:
    for _ in range(_SETTLE_ROUNDS):
        await asyncio.sleep(0)
