"""Requests open on each engine: exact, since every request passes here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType


class InFlight:
    """Counts, and who waits for them to reach zero."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._waiters: dict[str, list[asyncio.Future[None]]] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        """Open requests by engine; engines with none are absent."""
        return MappingProxyType(self._counts)

    @property
    def total(self) -> int:
        """Open requests on all engines."""
        return sum(self._counts.values())

    @contextmanager
    def held(self, engine: str) -> Iterator[None]:
        """Count one request for as long as the block runs."""
        self._counts[engine] = self._counts.get(engine, 0) + 1
        try:
            yield
        finally:
            self._counts[engine] -= 1
            if not self._counts[engine]:
                del self._counts[engine]
                for waiter in self._waiters.pop(engine, ()):
                    if not waiter.done():
                        waiter.set_result(None)

    async def wait_idle(self, engine: str, timeout_s: float) -> bool:
        """Wait for none to be open; False when the time ran out."""
        try:
            async with asyncio.timeout(timeout_s):
                while engine in self._counts:
                    waiter = asyncio.get_running_loop().create_future()
                    self._waiters.setdefault(engine, []).append(waiter)
                    await waiter
        except TimeoutError:
            return False
        return True
