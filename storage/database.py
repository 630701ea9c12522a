"""Opening the file: checked, brought up to date, in WAL mode, readable by its owner alone.

Only for a local file system: WAL needs shared memory. One connection writes, others read; see
https://www.sqlite.org/wal.html.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiosqlite

from storage.errors import CorruptDatabaseError, NotWritableError, StorageError
from storage.migrate import migrate, refuse_newer

log = logging.getLogger(__name__)

BUSY_TIMEOUT_S = 2.0
"""How long a lock of another process is waited for. Only one node writes: it is a backup or a shell."""
WRITER_PRAGMAS = (
    # What is acknowledged must survive power loss, not only a crash: FULL syncs the log at each
    # commit. The writer turns to NORMAL for transactions that hold nothing but samples.
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    # What a reader kept from being checkpointed is given back once it has been.
    "PRAGMA journal_size_limit = 67108864",
)
READER_PRAGMAS = ("PRAGMA query_only = ON",)

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_REFUSAL = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the file itself is broken."""
    return _code(error) in _DAMAGE


def suspect_mark(path: Path) -> Path:
    """The file whose presence asks for a full check at the next opening."""
    return path.with_name(f"{path.name}.suspect")


def prepare(path: Path) -> str | None:
    """Make the file ready for `writing`; returns a notice when a damaged one was set aside.

    Blocks: after an unclean end it reads the whole file once.

    Raises:
        NotWritableError: the folder or the file, and what to do.
        NewerDatabaseError: the file is left as it is.
        CorruptDatabaseError: damaged, and it cannot be set aside.
        StorageError: held by another process, no space, a failed migration.
    """
    _make_file(path)
    try:
        try:
            _bring_up_to_date(path)
            return None
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            aside = _set_aside(path, error)
            _make_file(path)
            _bring_up_to_date(path)
            return f"the database was damaged ({error}) and begun anew; the old one is {aside}"
    except sqlite3.Error as error:
        if _code(error) in _REFUSAL:
            raise _not_writable(path, str(error)) from error
        raise StorageError(
            f"the database {path} cannot be opened: {error}",
            "see that no other program holds it and that the disk has space",
        ) from error


@asynccontextmanager
async def writing(path: Path) -> AsyncIterator[aiosqlite.Connection]:
    """The connection that writes, in autocommit mode: transactions are begun by hand."""
    # aiosqlite's thread is no daemon: a connection left open keeps the process from ending.
    async with aiosqlite.connect(path, isolation_level=None, timeout=BUSY_TIMEOUT_S) as connection:
        await _set(connection, WRITER_PRAGMAS)
        yield connection


@asynccontextmanager
async def reading(path: Path) -> AsyncIterator[aiosqlite.Connection]:
    """A connection that cannot write."""
    address = f"{path.absolute().as_uri()}?mode=ro"
    async with aiosqlite.connect(
        address, uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_S
    ) as connection:
        connection.row_factory = aiosqlite.Row
        await _set(connection, READER_PRAGMAS)
        yield connection


def require_wal(connection: sqlite3.Connection, path: Path) -> None:
    """Turn write-ahead logging on, and see that it is: SQLite says no by silence.

    Raises:
        NotWritableError: the file system cannot do it.
    """
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise NotWritableError(
            f"{path} cannot use write-ahead logging (SQLite stays in mode {mode!r})",
            "SQLite needs a local file system; set COCKPIT_HOME to a folder on one",
        )


async def _set(connection: aiosqlite.Connection, pragmas: tuple[str, ...]) -> None:
    try:
        for pragma in pragmas:
            await connection.execute_fetchall(pragma)
    except sqlite3.Error as error:
        raise StorageError(f"the database cannot be opened: {error}", "see the node's log") from error


def _make_file(path: Path) -> None:
    if path.parent.exists() and not path.parent.is_dir():
        raise _not_writable(path, f"{path.parent} is not a folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _not_writable(path, error.strerror or str(error)) from error
    try:
        # Chats and commands are its owner's; SQLite gives the log the mode of the file.
        os.fchmod(descriptor, 0o600)
    except OSError as error:
        raise _not_writable(path, f"its mode cannot be set: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _bring_up_to_date(path: Path) -> None:
    mark = suspect_mark(path)
    # The last connection to close removes the log, so one that is there was left by a crash.
    doubtful = path.with_name(f"{path.name}-wal").exists() or mark.exists()
    refuse_newer(path)
    with contextlib.closing(
        sqlite3.connect(path, isolation_level=None, timeout=BUSY_TIMEOUT_S)
    ) as connection:
        if doubtful:
            _check(connection)
            mark.unlink(missing_ok=True)
        if not connection.execute("PRAGMA page_count").fetchone()[0]:
            # Takes effect only before the first table, and writes the header each time.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        require_wal(connection, path)
        migrate(connection, path)


def _check(connection: sqlite3.Connection) -> None:
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        error = sqlite3.DatabaseError(str(found).strip().splitlines()[-1])
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error


def _set_aside(path: Path, error: sqlite3.DatabaseError) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    try:
        for suffix in ("", "-wal", "-shm"):
            part = path.with_name(path.name + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
        suspect_mark(path).unlink(missing_ok=True)
    except OSError as cannot:
        raise CorruptDatabaseError(
            f"the database {path} is damaged ({error}) and cannot be moved: {cannot.strerror}",
            "move it away by hand, with its -wal and -shm files",
        ) from cannot
    log.error("the database %s is damaged (%s): moved to %s", path, error, aside)
    return aside


def _not_writable(path: Path, why: str) -> NotWritableError:
    return NotWritableError(
        f"the database {path} cannot be written: {why}",
        "make it writable, or set COCKPIT_HOME to another folder",
    )


def _code(error: sqlite3.Error) -> int | None:
    """The primary result code; extended ones have it in their low byte."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
