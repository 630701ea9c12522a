"""Opening the file: checked, brought up to date, in WAL mode, readable by its owner alone."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from pathlib import Path

from storage.errors import CorruptDatabaseError, NotWritableError, StorageError
from storage.migrate import migrate, refuse_newer

log = logging.getLogger(__name__)

BUSY_TIMEOUT_S = 5.0
WRITER_PRAGMAS = (
    # A transaction must survive power loss, not only a crash: an acknowledged action is an audit
    # record. FULL costs an fsync per commit, of which the batching writer makes a few a second.
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA journal_size_limit = 67108864",
)
READER_PRAGMAS = ("PRAGMA query_only = ON",)


def prepare(path: Path) -> str | None:
    """Make the file ready for `connect`; returns a notice when a damaged one was set aside.

    Raises:
        NotWritableError, NewerDatabaseError, CorruptDatabaseError, StorageError: and why.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise NotWritableError(
            f"the database {path} cannot be written: {error.strerror}",
            "make it writable, or set COCKPIT_HOME to another folder",
        ) from error
    try:
        _bring_up_to_date(path)
        return None
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise StorageError(
                f"the database {path} cannot be opened: {error}", "see who holds it"
            ) from error
        aside = _set_aside(path, error)
        _bring_up_to_date(path)
        return f"the database was damaged ({error}) and begun anew; the old file is {aside}"


def _bring_up_to_date(path: Path) -> None:
    unclean = path.with_name(path.name + "-wal").exists()
    with contextlib.closing(
        sqlite3.connect(path, isolation_level=None, timeout=BUSY_TIMEOUT_S)
    ) as connection:
        refuse_newer(connection, path)
        if unclean and (found := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(f"quick_check: {found}")
        # Takes effect only before the first table.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise NotWritableError(
                f"{path} cannot use write-ahead logging (mode {mode})",
                "SQLite needs a local file system; set COCKPIT_HOME to one",
            )
        migrate(connection, path)


def _set_aside(path: Path, error: sqlite3.DatabaseError) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    try:
        for suffix in ("", "-wal", "-shm"):
            part = path.with_name(path.name + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
    except OSError as cannot:
        raise CorruptDatabaseError(
            f"{path} is damaged ({error}) and cannot be moved: {cannot.strerror}", "move it away by hand"
        ) from cannot
    log.warning("%s is damaged (%s): moved to %s", path, error, aside)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return aside
