"""Reading, on a connection of its own that cannot write."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from typing import Any

import aiosqlite
import msgspec

from storage.errors import StorageError
from storage.records import (
    ConversationRecord,
    DeploymentRecord,
    EngineSample,
    EventRecord,
    GpuSample,
    LaunchEnd,
    LaunchRecord,
    MessageRecord,
)

READ_LIMIT_S = 10.0
"""A day of one GPU's samples takes half a second; a disk can hang."""


class Queries:
    """Questions to the database. Transactions are as short as one statement, so that the log can shrink."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection

    async def events(
        self, limit: int, *, before: int | None = None, after: int | None = None, target: str | None = None
    ) -> tuple[EventRecord, ...]:
        """Newest first; with `after`, the oldest beyond it first."""
        where, values = ["1"], list[Any]()
        if before is not None:
            where.append("id < ?")
            values.append(before)
        if after is not None:
            where.append("id > ?")
            values.append(after)
        if target is not None:
            # A deployment's history is that of its engines too.
            where.append("(target = ? OR target GLOB ?)")
            values += [target, f"{_glob_literal(target)}/*"]
        order = "ASC" if after is not None else "DESC"
        rows = await self._rows(
            f"SELECT * FROM events WHERE {' AND '.join(where)} ORDER BY id {order} LIMIT ?", [*values, limit]
        )
        return tuple(msgspec.convert(dict(row), EventRecord) for row in rows)

    async def launches(self, limit: int, engine: str | None = None) -> tuple[LaunchRecord, ...]:
        """Newest first."""
        where, values = ("WHERE engine = ?", [engine]) if engine is not None else ("", [])
        rows = await self._rows(f"SELECT * FROM launches {where} ORDER BY id DESC LIMIT ?", [*values, limit])
        return tuple(map(_launch, rows))

    async def launch(self, launch_id: int) -> LaunchRecord | None:
        """One launch."""
        rows = await self._rows("SELECT * FROM launches WHERE id = ?", [launch_id])
        return _launch(rows[0]) if rows else None

    async def open_launches(self) -> tuple[LaunchRecord, ...]:
        """Those that were never seen to end, oldest first."""
        return tuple(
            map(_launch, await self._rows("SELECT * FROM launches WHERE ended_at_s IS NULL ORDER BY id", []))
        )

    async def deployments(self) -> tuple[DeploymentRecord, ...]:
        """In the order in which they were given."""
        rows = await self._rows("SELECT name, spec FROM deployments ORDER BY position, name", [])
        return tuple(DeploymentRecord(row["name"], row["spec"]) for row in rows)

    async def wanted(self) -> dict[str, bool]:
        """Whether each engine should run."""
        return {row["name"]: bool(row["wanted"]) for row in await self._rows("SELECT * FROM engines", [])}

    async def setting(self, key: str) -> str | None:
        """A remembered choice."""
        rows = await self._rows("SELECT value FROM settings WHERE key = ?", [key])
        return str(rows[0]["value"]) if rows else None

    async def conversations(self) -> tuple[ConversationRecord, ...]:
        """Last used first, without their messages."""
        rows = await self._rows("SELECT * FROM conversations ORDER BY updated_at_s DESC, id DESC", [])
        return tuple(msgspec.convert(dict(row), ConversationRecord) for row in rows)

    async def conversation(self, conversation_id: int) -> ConversationRecord | None:
        """One conversation with its messages in order."""
        rows = await self._rows("SELECT * FROM conversations WHERE id = ?", [conversation_id])
        if not rows:
            return None
        turns = await self._rows(
            "SELECT * FROM messages WHERE conversation_id = ? ORDER BY id", [conversation_id]
        )
        messages = tuple(msgspec.convert(dict(turn), MessageRecord) for turn in turns)
        return msgspec.convert(dict(rows[0]) | {"messages": messages}, ConversationRecord)

    async def gpu_samples(self, gpu_uuid: str, from_s: float, to_s: float) -> tuple[GpuSample, ...]:
        """A GPU's ticks within a span, oldest first."""
        rows = await self._rows(
            "SELECT * FROM gpu_samples WHERE at_s >= ? AND at_s < ? AND gpu_uuid = ? ORDER BY at_s",
            [from_s, to_s, gpu_uuid],
        )
        return tuple(msgspec.convert(dict(row), GpuSample) for row in rows)

    async def engine_samples(self, engine: str, from_s: float, to_s: float) -> tuple[EngineSample, ...]:
        """An engine's ticks within a span, oldest first."""
        rows = await self._rows(
            "SELECT * FROM engine_samples WHERE at_s >= ? AND at_s < ? AND engine = ? ORDER BY at_s",
            [from_s, to_s, engine],
        )
        return tuple(msgspec.convert(dict(row), EngineSample) for row in rows)

    async def _rows(self, sql: str, values: Sequence[Any]) -> list[sqlite3.Row]:
        try:
            async with asyncio.timeout(READ_LIMIT_S):
                return list(await self._connection.execute_fetchall(sql, values))
        except TimeoutError as error:
            # A cancelled task does not end its SQL.
            await self._connection.interrupt()
            raise StorageError(
                f"the database gave no answer within {READ_LIMIT_S:g} s", "see the disk's health"
            ) from error
        except sqlite3.Error as error:
            raise StorageError(f"the database cannot be read: {error}", "see the node's log") from error


def _glob_literal(text: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)


def _launch(row: sqlite3.Row) -> LaunchRecord:
    end = None
    if row["ended_at_s"] is not None:
        end = LaunchEnd(
            ended_at_s=row["ended_at_s"],
            cause_kind=row["cause_kind"],
            cause_summary=row["cause_summary"],
            cause_hint=row["cause_hint"],
            exit_code=row["exit_code"],
            signal=row["signal"],
            last_error_lines=tuple(msgspec.json.decode(row["last_error_lines"] or "[]")),
            retryable=bool(row["retryable"]),
        )
    return LaunchRecord(
        id=row["id"],
        engine=row["engine"],
        started_at_s=row["started_at_s"],
        pid=row["pid"],
        session_id=row["session_id"],
        start_ticks=row["start_ticks"],
        boot_id=row["boot_id"],
        log_path=row["log_path"],
        ready_at_s=row["ready_at_s"],
        end=end,
        argv=tuple(msgspec.json.decode(row["argv"])),
    )
