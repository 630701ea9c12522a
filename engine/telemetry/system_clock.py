"""The machine's own time."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """`engine.ports.Clock` on the system's clocks and the running event loop."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary moment; never goes back."""
        return time.monotonic()

    def epoch(self) -> float:
        """UTC seconds since 1970; an administrator may set it back."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait; nothing or less yields to the loop once."""
        await asyncio.sleep(max(0.0, seconds))
