"""One transaction over many changes, of which a wrong one is left out alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import aiosqlite

Statement = tuple[str, Sequence[Any]]
Change = tuple[Statement, ...]
"""Statements that belong together: all of them or none."""

# The change itself is at fault; anything else is the database refusing whatever it is given.
_FAULTS = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    sqlite3.InterfaceError,
    OverflowError,
    UnicodeError,
)


async def write(connection: aiosqlite.Connection, changes: Sequence[Change]) -> list[Exception | None]:
    """Commit the changes in order; returns for each why it was left out, or None.

    The plain way is one `executemany` per run of equal statements: about a microsecond a row, where
    an `execute` of its own costs 0.1 ms for the hop to the connection's thread. Only when that meets
    a wrong change is each applied within a savepoint of its own.

    Raises:
        sqlite3.Error: the database refuses (full, locked, read-only, damaged); nothing was written.
    """
    try:
        await _together(connection, changes)
        return [None] * len(changes)
    except (*_FAULTS, sqlite3.OperationalError) as error:
        await _roll_back(connection)
        if not _is_fault(error):
            raise
    except BaseException:
        await _roll_back(connection)
        raise
    try:
        return await _one_by_one(connection, changes)
    except BaseException:
        await _roll_back(connection)
        raise


def _is_fault(error: Exception) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        # SQLITE_ERROR: the SQL makes no sense to this schema, and will not later either.
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
    return isinstance(error, _FAULTS)


async def _together(connection: aiosqlite.Connection, changes: Sequence[Change]) -> None:
    await connection.execute("BEGIN IMMEDIATE")
    for sql, rows in _runs(statement for change in changes for statement in change):
        await connection.executemany(sql, rows)
    await connection.execute("COMMIT")


def _runs(statements: Iterable[Statement]) -> Iterator[tuple[str, list[Sequence[Any]]]]:
    for sql, run in groupby(statements, key=itemgetter(0)):
        yield sql, [values for _, values in run]


async def _one_by_one(connection: aiosqlite.Connection, changes: Sequence[Change]) -> list[Exception | None]:
    await connection.execute("BEGIN IMMEDIATE")
    faults = [await _apply(connection, change) for change in changes]
    await connection.execute("COMMIT")
    return faults


async def _apply(connection: aiosqlite.Connection, change: Change) -> Exception | None:
    await connection.execute("SAVEPOINT change")
    try:
        for sql, values in change:
            await connection.execute(sql, values)
    except (*_FAULTS, sqlite3.OperationalError) as error:
        if not _is_fault(error):
            raise
        await connection.execute("ROLLBACK TO change")
        await connection.execute("RELEASE change")
        return error
    await connection.execute("RELEASE change")
    return None


async def _roll_back(connection: aiosqlite.Connection) -> None:
    # SQLite has already done so after some errors, such as a full disk.
    if connection.in_transaction:
        await connection.execute("ROLLBACK")
