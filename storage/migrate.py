"""Brings a database to the present version: numbered SQL files, each in one transaction with its number."""

from __future__ import annotations

import re
import sqlite3
from importlib.resources import files
from pathlib import Path

from storage.errors import NewerDatabaseError, StorageError

_NAME = re.compile(r"(\d{4})_\w+\.sql")


def migrations() -> list[tuple[int, str]]:
    """Version and SQL of each step, in order."""
    found = []
    for entry in files("storage").joinpath("migrations").iterdir():
        match = _NAME.fullmatch(entry.name)
        if match:
            found.append((int(match.group(1)), entry.read_text(encoding="utf-8")))
    return sorted(found)


def version_of(connection: sqlite3.Connection) -> int:
    """The database's version; 0 for an empty one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def refuse_newer(connection: sqlite3.Connection, path: Path) -> None:
    """Leave a database of a newer cockpit alone.

    Raises:
        NewerDatabaseError: names both versions.
    """
    newest = migrations()[-1][0]
    found = version_of(connection)
    if found > newest:
        raise NewerDatabaseError(
            f"{path} has version {found}, and this cockpit knows up to {newest}",
            "use the newer cockpit, or set COCKPIT_HOME to another folder",
        )


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Apply what is missing; a file that has data is copied beside itself first.

    The connection must be in autocommit mode: a step is one transaction, DDL included, and the
    version is part of it.

    Raises:
        StorageError: a step failed; the database is as before it.
    """
    begin = version_of(connection)
    missing = [(version, sql) for version, sql in migrations() if version > begin]
    if begin and missing:
        _backup(connection, path.with_name(f"{path.name}.v{begin}.bak"))
    for version, sql in missing:
        try:
            connection.executescript(f"BEGIN IMMEDIATE;\n{sql}\nPRAGMA user_version = {version};\nCOMMIT;")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.rollback()
            raise StorageError(
                f"{path}: migration {version} failed: {error}", "the database is unchanged; report this"
            ) from error


def _backup(connection: sqlite3.Connection, target: Path) -> None:
    copy = sqlite3.connect(target)
    try:
        connection.backup(copy)
    finally:
        copy.close()
    target.chmod(0o600)
