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

import aiosqlite

from storage import batch
from storage.batch import Change, Statement
from storage.database import BUSY_TIMEOUT_S, is_damage, suspect_mark
from storage.errors import RejectedError, StorageError
from storage.retention import Limits, expired

log = logging.getLogger(__name__)

ANSWER_LIMIT_S = 10.0
"""After this a caller hears that its change is not known to be on disk: a disk can hang."""
RETRY_S = 1.0
"""Between tries while the database refuses; a new change tries at once."""
RETRY_BUSY_TIMEOUT_S = 0.1
"""While it refuses, so that an operator's action is not held up by each try."""
SAMPLES_LIMIT = 20_000
"""Rows waiting: 20 minutes of 8 GPUs and 8 engines at a row a second."""
BATCH_LIMIT = 500
"""Changes in one transaction: bounds how long the first of them waits for the last."""
CLEAN_FIRST_S = 30.0
"""Not at once: the start has other things to write."""
CLEAN_EVERY_S = 600.0
CLEAN_AGAIN_S = 1.0
"""When changes came in between."""
FREED_PAGES = 500
"""Given back to the file system after each cleaning, 2 MB: about 40 ms, during which nothing is written."""
COUNTED = ("events", "launches", "conversations", "messages")


class _Waiting:
    """A change on its way."""

    __slots__ = ("change", "written")

    def __init__(self, change: Change) -> None:
        self.change = change
        self.written: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def tell(self, fault: Exception | None) -> None:
        if self.written.done():
            return
        if fault is None:
            self.written.set_result(True)
        else:
            self.written.set_exception(RejectedError(f"not stored: {fault}"))

    def tell_not_durable(self) -> None:
        if not self.written.done():
            self.written.set_result(False)


class Writer:
    """Owns the writing connection; `run` is its task."""

    def __init__(self, path: Path, now: Callable[[], float], limits: Limits) -> None:
        self._path = path
        self._now = now
        self.limits = limits
        """How long things are kept; may be changed at any time."""
        self._pending: deque[_Waiting] = deque()
        self._samples: list[Statement] = []
        self._wake = asyncio.Event()
        self._closing = False
        self._ended = False
        self._stalled = False
        self._refusal: str | None = None
        self._synchronous = ""
        self._last_ids = dict.fromkeys(COUNTED, 0)
        self.dropped_samples = 0
        """Samples given up since the start."""

    @property
    def pending(self) -> int:
        """Changes accepted and not yet on disk."""
        return len(self._pending)

    @property
    def problem(self) -> str | None:
        """Why the database cannot be written, and what waits for it; None when it can."""
        if self._refusal is None:
            return None
        waiting = f"; changes waiting in memory: {len(self._pending)}" if self._pending else ""
        return f"the database cannot be written: {self._refusal}{waiting}"

    def new_id(self, table: str) -> int:
        """The next id of a table; rises in the order of calls, also while nothing can be written."""
        self._last_ids[table] += 1
        return self._last_ids[table]

    async def submit(self, *change: Statement) -> bool:
        """Accept a change: True once it is on disk, False while it is kept in memory only.

        A caller that is cancelled takes nothing back: the change was accepted.

        Raises:
            RejectedError: the database's rules forbid it; nothing of it is kept.
            StorageError: the store is closed.
        """
        if self._ended:
            raise StorageError("not stored: the database is closed", "the node is ending")
        waiting = _Waiting(change)
        self._pending.append(waiting)
        self._wake.set()
        if self._stalled:
            return False
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                return await waiting.written
        except TimeoutError:
            self._stalled = True
            self._refusal = f"no answer from the disk for {ANSWER_LIMIT_S:g} s"
            log.error("%s", self.problem)
            return False

    def sample(self, *statements: Statement) -> None:
        """Accept samples; the oldest that wait give way when there are too many."""
        if self._ended:
            self.dropped_samples += len(statements)
            return
        self._keep_samples([*self._samples, *statements])
        self._wake.set()

    async def read_ids(self, connection: aiosqlite.Connection) -> None:
        """Go on where the ids ended: those of deleted rows are not given again.

        Raises:
            StorageError: they cannot be read.
        """
        try:
            for table in COUNTED:
                rows = await connection.execute_fetchall(
                    f"""SELECT max(coalesce((SELECT max(id) FROM {table}), 0),
                               coalesce((SELECT seq FROM sqlite_sequence WHERE name = ?), 0))""",
                    (table,),
                )
                self._last_ids[table] = int(next(iter(rows))[0])
        except sqlite3.Error as error:
            raise StorageError(f"the database cannot be read: {error}", "see the node's log") from error

    def close(self) -> None:
        """Let `run` write what waits and end."""
        self._closing = True
        self._wake.set()

    async def run(self, connection: aiosqlite.Connection) -> None:
        """Write until closed."""
        loop = asyncio.get_running_loop()
        clean_at = loop.time() + CLEAN_FIRST_S
        try:
            while True:
                if not (self._pending or self._samples or self._closing):
                    await self._wake.wait()
                self._wake.clear()
                await self._write_batch(connection)
                if self._closing:
                    if self._refusal or not (self._pending or self._samples):
                        return
                elif self._refusal:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(RETRY_S):
                            await self._wake.wait()
                elif loop.time() >= clean_at:
                    done = await self._clean(connection)
                    clean_at = loop.time() + (CLEAN_EVERY_S if done else CLEAN_AGAIN_S)
        finally:
            self._ended = True
            if self._pending:
                log.error("changes lost, since the database could not be written: %d", len(self._pending))
            for waiting in self._pending:
                waiting.tell_not_durable()

    async def _write_batch(self, connection: aiosqlite.Connection) -> None:
        taken = [self._pending[i] for i in range(min(BATCH_LIMIT, len(self._pending)))]
        samples, self._samples = self._samples, []
        changes: list[Change] = [waiting.change for waiting in taken]
        try:
            # What is acknowledged must survive power loss; samples only a crash.
            await self._set_synchronous(connection, "FULL" if taken else "NORMAL")
            faults = await batch.write(connection, changes + [(sample,) for sample in samples])
        except Exception as error:  # a worker: whatever it is, what was accepted stays
            self._keep_samples([*samples, *self._samples])
            await self._refuse(connection, error)
            for waiting in taken:
                waiting.tell_not_durable()
            return
        refused, self._refusal, self._stalled = self._refusal, None, False
        for waiting, fault in zip(taken, faults[: len(taken)], strict=True):
            self._pending.popleft()
            waiting.tell(fault)
        self._drop_samples([fault for fault in faults[len(taken) :] if fault])
        if refused:
            log.warning("the database can be written again")
            await self._set_busy_timeout(connection, BUSY_TIMEOUT_S)

    async def _refuse(self, connection: aiosqlite.Connection, error: Exception) -> None:
        """Say why, once; what is to be kept has been."""
        first = self._refusal is None or self._stalled
        self._refusal = str(error)
        self._stalled = False
        if not first:
            return
        known = isinstance(error, sqlite3.Error)
        log.error("the database cannot be written: %s", error, exc_info=None if known else error)
        await self._set_busy_timeout(connection, RETRY_BUSY_TIMEOUT_S)
        if isinstance(error, sqlite3.Error) and is_damage(error):
            with contextlib.suppress(OSError):
                suspect_mark(self._path).touch()

    def _keep_samples(self, samples: Sequence[Statement]) -> None:
        over = max(0, len(samples) - SAMPLES_LIMIT)
        self.dropped_samples += over
        self._samples = list(samples[over:])

    def _drop_samples(self, faults: Sequence[Exception]) -> None:
        if faults:
            log.warning("%d samples not stored: %s", len(faults), faults[0])
            self.dropped_samples += len(faults)

    async def _set_synchronous(self, connection: aiosqlite.Connection, mode: str) -> None:
        if mode != self._synchronous:
            await connection.execute_fetchall(f"PRAGMA synchronous = {mode}")
            self._synchronous = mode

    async def _set_busy_timeout(self, connection: aiosqlite.Connection, timeout_s: float) -> None:
        with contextlib.suppress(sqlite3.Error, ValueError):
            await connection.execute_fetchall(f"PRAGMA busy_timeout = {timeout_s * 1000:.0f}")

    async def _clean(self, connection: aiosqlite.Connection) -> bool:
        """Remove what is too old, in pieces; False when changes came in between."""
        try:
            for sql, values in expired(self.limits, self._now()):
                while (await connection.execute(sql, values)).rowcount:
                    if self._pending or self._closing:
                        return False
            # A script is stepped to its end; sqlite3 stops a plain statement without columns at its
            # first row, which is one freed page.
            await connection.executescript(f"PRAGMA incremental_vacuum({FREED_PAGES})")
        except sqlite3.Error as error:
            log.warning("old rows could not be removed: %s", error)
        return True
