"""Ending what a dead node left, when no node runs to do it."""

from __future__ import annotations

import asyncio

from cockpit import node_process
from cockpit.commands.session import BAD_INPUT, fail
from cockpit.paths import Paths


def end_leftovers(where: Paths) -> int:
    """End the engines of a node that died; returns how many processes that were."""
    from cockpit.recording import StoreRecorder
    from cockpit.runtime import clear_leftovers
    from engine.telemetry.system_clock import SystemClock
    from storage.errors import StorageError
    from storage.store import open_store

    async def run() -> int:
        async with open_store(where.database) as store:
            return sum(ended for _, ended in await clear_leftovers(StoreRecorder(store), SystemClock()))

    lock = node_process.NodeLock(where)
    try:
        lock.acquire()
        return asyncio.run(run())
    except (node_process.NodeStartError, StorageError) as error:
        fail(error.message, error.hint, BAD_INPUT)
    finally:
        lock.release()
