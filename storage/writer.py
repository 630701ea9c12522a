"""The one writer: batches what waits into a transaction, and loses nothing that it accepted.

A change is a list of SQL statements whose ids are given here, in memory, so that it can be kept and
written later while the database refuses (disk full, locked, read-only): in order, and known to the
caller as not durable. Samples are best effort: the oldest are dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import aiosqlite

from storage.database import BUSY_TIMEOUT_S, WRITER_PRAGMAS
from storage.errors import StorageError
from storage.retention import Limits, expired

log = logging.getLogger(__name__)

Statement = tuple[str, Sequence[Any]]
Change = tuple[Statement, ...]

RETRY_S = 1.0
"""Between tries while the database refuses; a new change tries at once."""
SAMPLES_LIMIT = 20_000
"""Rows waiting: 20 minutes of 8 GPUs and 8 engines at a row a second."""
BATCH_LIMIT = 500
"""Changes in one transaction: bounds how long readers' checkpoints wait."""
RETENTION_EVERY_S = 600.0
COUNTED = ("events", "launches", "conversations", "messages")


class _Waiting:
    """A change on its way."""

    def __init__(self, change: Change) -> None:
        self.change = change
        self.written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()


class Writer:
    """Owns the writing connection; `run` is its task."""

    def __init__(self, path: Path, now: Callable[[], float], limits: Limits) -> None:
        self._path = path
        self._now = now
        self._limits = limits
        self._pending: deque[_Waiting] = deque()
        self._samples: deque[Statement] = deque(maxlen=SAMPLES_LIMIT)
        self._wake = asyncio.Event()
        self._closing = False
        self._next_ids: dict[str, int] = {}
        self.problem: str | None = None
        """Why the database cannot be written, or None."""
        self.dropped_samples = 0

    @property
    def pending(self) -> int:
        """Changes accepted and not yet on disk."""
        return len(self._pending)

    def new_id(self, table: str) -> int:
        """The next id of a table; rises in the order of calls, also while nothing can be written."""
        self._next_ids[table] += 1
        return self._next_ids[table]

    async def submit(self, *change: Statement) -> bool:
        """Accept a change: True once it is on disk, False while it is kept in memory only.

        A caller that is cancelled takes nothing back: the change was accepted.

        Raises:
            StorageError: the database says that the change is wrong, such as a reference to nothing.
        """
        waiting = _Waiting(change)
        self._pending.append(waiting)
        self._wake.set()
        return await asyncio.shield(waiting.written)

    def sample(self, statement: Statement) -> None:
        """Accept a sample; the oldest waiting one gives way when there are too many."""
        if len(self._samples) == SAMPLES_LIMIT:
            self.dropped_samples += 1
        self._samples.append(statement)
        self._wake.set()

    async def open(self) -> aiosqlite.Connection:
        """The writing connection, with the ids counted."""
        connection = await aiosqlite.connect(self._path, isolation_level=None, timeout=BUSY_TIMEOUT_S)
        for pragma in WRITER_PRAGMAS:
            await connection.execute(pragma)
        for table in COUNTED:
            rows = await connection.execute_fetchall(f"SELECT coalesce(max(id), 0) FROM {table}")
            self._next_ids[table] = int(next(iter(rows))[0])
        return connection

    def close(self) -> None:
        """Let `run` write what waits and end."""
        self._closing = True
        self._wake.set()

    async def run(self, connection: aiosqlite.Connection) -> None:
        """Write until closed."""
        cleaned_at = self._now()
        while True:
            if not (self._pending or self._samples or self._closing):
                await self._wake.wait()
            self._wake.clear()
            await self._write_batch(connection)
            if self._closing and (self.problem or not self._pending):
                self._give_up()
                return
            if self.problem and not self._closing:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RETRY_S):
                        await self._wake.wait()
            elif self._now() - cleaned_at > RETENTION_EVERY_S:
                cleaned_at = self._now()
                await self._clean(connection)

    async def _write_batch(self, connection: aiosqlite.Connection) -> None:
        batch = [self._pending[i] for i in range(min(BATCH_LIMIT, len(self._pending)))]
        samples = list(self._samples)
        self._samples.clear()
        try:
            # What was acknowledged must survive power loss; samples only a crash.
            await connection.execute(f"PRAGMA synchronous = {'FULL' if batch else 'NORMAL'}")
            await connection.execute("BEGIN IMMEDIATE")
            wrong = [await _apply(connection, waiting.change) for waiting in batch]
            for sql, values in samples:
                await connection.execute(sql, values)
            await connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._samples.extendleft(reversed(samples))
            await self._refused(connection, error, batch)
            return
        if self.problem:
            log.warning("the database can be written again")
            self.problem = None
        for waiting, fault in zip(batch, wrong, strict=True):
            self._pending.popleft()
            if waiting.written.done():
                continue
            if fault is None:
                waiting.written.set_result(True)
            else:
                waiting.written.set_exception(StorageError(f"not stored: {fault}"))

    async def _refused(
        self, connection: aiosqlite.Connection, error: sqlite3.Error, batch: Sequence[_Waiting]
    ) -> None:
        """The batch stays in memory, in order; its callers learn that it is not on disk."""
        with contextlib.suppress(sqlite3.Error):
            if connection.in_transaction:
                await connection.execute("ROLLBACK")
        if not self.problem:
            log.error("the database cannot be written: %s", error)
        self.problem = f"the database cannot be written: {error}"
        self._tell_not_durable(batch)

    def _give_up(self) -> None:
        if self._pending:
            log.error("%d changes could not be written before the end", len(self._pending))
            self._tell_not_durable(self._pending)

    @staticmethod
    def _tell_not_durable(waiting: Sequence[_Waiting] | deque[_Waiting]) -> None:
        for one in waiting:
            if not one.written.done():
                one.written.set_result(False)

    async def _clean(self, connection: aiosqlite.Connection) -> None:
        """Remove what is too old, in pieces, so that no transaction holds others up."""
        try:
            for sql, values in expired(self._limits, self._now()):
                removed = 1
                while removed and not self._pending:
                    removed = (await connection.execute(sql, values)).rowcount
            await connection.execute("PRAGMA incremental_vacuum(200)")
        except sqlite3.Error as error:
            log.warning("old samples could not be removed: %s", error)


async def _apply(connection: aiosqlite.Connection, change: Change) -> sqlite3.IntegrityError | None:
    """One change within the batch's transaction; a wrong one is undone alone and returned."""
    await connection.execute("SAVEPOINT change")
    try:
        for sql, values in change:
            await connection.execute(sql, values)
    except sqlite3.IntegrityError as error:
        await connection.execute("ROLLBACK TO change")
        return error
    finally:
        await connection.execute("RELEASE change")
    return None
