"""A process that adds events as fast as it can and prints each id once it is acknowledged.

Run as `python -m tests.storage.writing_child DATABASE`; meant to be killed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from storage.store import Store, open_store
from tests.storage import records

WRITERS = 8


async def write(store: Store) -> None:
    while True:
        kept, durable = await store.add_event(records.event("x" * 500))
        if durable:
            sys.stdout.write(f"{kept.id}\n")
            sys.stdout.flush()


async def main(path: Path) -> None:
    async with open_store(path) as store, asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(write(store))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
