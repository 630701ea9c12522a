"""Brings a database to the present version: numbered SQL files, each in one transaction with its number."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from storage.errors import NewerDatabaseError, StorageError

Step = tuple[int, str]
"""The version that a step leads to, and its SQL."""

_MAGIC = b"SQLite format 3\0"
_NAME = re.compile(r"(\d{4})_\w+\.sql")


def steps() -> list[Step]:
    """All steps, in order."""
    found = []
    for entry in files("storage").joinpath("migrations").iterdir():
        match = _NAME.fullmatch(entry.name)
        if match:
            found.append((int(match.group(1)), entry.read_text(encoding="utf-8")))
    return sorted(found)


def version_of(connection: sqlite3.Connection) -> int:
    """The database's version; 0 for an empty one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refuse_newer(path: Path, known: int | None = None) -> None:
    """Leave a database of a newer cockpit alone: not even its log is folded in.

    Raises:
        NewerDatabaseError: names the file and both versions.
        sqlite3.DatabaseError: its log cannot be read.
    """
    known = steps()[-1][0] if known is None else known
    found = _version_without_writing(path)
    if found > known:
        raise NewerDatabaseError(
            f"the database {path} has version {found}, and this cockpit knows versions up to {known}",
            "use the newer cockpit, or set COCKPIT_HOME to another folder",
        )


def migrate(connection: sqlite3.Connection, path: Path, way: Sequence[Step] | None = None) -> None:
    """Apply what is missing; a file that has data is copied beside itself first.

    The connection must be in autocommit mode: a step is one transaction, DDL included, and the
    version is part of it.

    Raises:
        StorageError: a step failed; the database is as before it.
    """
    begin = version_of(connection)
    missing = [step for step in (steps() if way is None else way) if step[0] > begin]
    if begin and missing:
        _back_up(connection, path.with_name(f"{path.name}.v{begin}.bak"))
    for version, sql in missing:
        try:
            connection.executescript(f"BEGIN IMMEDIATE;\n{sql}\nPRAGMA user_version = {version};\nCOMMIT;")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.rollback()
            raise StorageError(
                f"the database {path} cannot be brought to version {version}: {error}",
                "it is as before; see that the disk has space, else report this",
            ) from error


def _version_without_writing(path: Path) -> int:
    log = path.with_name(f"{path.name}-wal")
    if not log.exists():
        # https://www.sqlite.org/fileformat.html#the_database_header: a connection, even one that
        # only reads, would leave files beside it.
        with path.open("rb") as file:
            header = file.read(100)
        return int.from_bytes(header[60:64], "big", signed=True) if header.startswith(_MAGIC) else 0
    # The log may hold the newest version. A connection that only reads never folds it in.
    address = f"{path.absolute().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
        return version_of(connection)


def _back_up(connection: sqlite3.Connection, target: Path) -> None:
    unfinished = target.with_name(f"{target.name}.part")
    unfinished.unlink(missing_ok=True)
    os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with contextlib.closing(sqlite3.connect(unfinished)) as copy:
        connection.backup(copy)
    unfinished.rename(target)
