"""Waiting for a condition instead of sleeping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


async def wait_until(predicate: Callable[[], bool], timeout_s: float = 5.0) -> None:
    """Return once `predicate` holds, looking every 10 ms.

    Raises:
        TimeoutError: it never held; the message names the predicate.
    """
    deadline = time.monotonic() + timeout_s
    while not predicate():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{predicate} did not hold within {timeout_s} s")
        await asyncio.sleep(0.01)
