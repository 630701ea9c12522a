"""The store as the node uses it: writes that say whether they are on disk, and questions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiosqlite
import msgspec

from storage import changes
from storage.database import BUSY_TIMEOUT_S, READER_PRAGMAS, prepare
from storage.errors import UnknownRecordError
from storage.queries import Queries
from storage.records import (
    ConversationRecord,
    ConversationValues,
    DeploymentRecord,
    EngineSample,
    EventRecord,
    GpuSample,
    LaunchEnd,
    LaunchStart,
    MessageRecord,
    MessageValues,
)
from storage.retention import Limits
from storage.writer import Statement, Writer


class Store:
    """Writes through the one writer; `read` asks on another connection."""

    def __init__(self, writer: Writer, read: Queries, now: Callable[[], float], notice: str | None) -> None:
        self._writer = writer
        self.read = read
        self._now = now
        self.notice = notice
        """What the operator should know of the opening: a damaged file was set aside."""

    @property
    def problem(self) -> str | None:
        """Why the database cannot be written, or None."""
        return self._writer.problem

    async def add_event(self, record: EventRecord) -> tuple[EventRecord, bool]:
        """Keep an event: with its id, and whether it is on disk."""
        record = msgspec.structs.replace(record, id=self._writer.new_id("events"))
        return record, await self._writer.submit(changes.event(record))

    async def start_launch(self, start: LaunchStart) -> int:
        """Keep a launch; returns its id."""
        launch_id = self._writer.new_id("launches")
        await self._writer.submit(changes.launch_start(launch_id, start))
        return launch_id

    async def launch_ready(self, launch_id: int, at_s: float) -> None:
        """A launch answers."""
        await self._writer.submit(("UPDATE launches SET ready_at_s = ? WHERE id = ?", (at_s, launch_id)))

    async def end_launch(self, launch_id: int, end: LaunchEnd) -> None:
        """A launch is over."""
        await self._writer.submit(changes.launch_end(launch_id, end))

    async def replace_deployments(self, deployments: Sequence[DeploymentRecord]) -> None:
        """Forget all deployments and their engines, and keep these: all or nothing."""
        rows: list[Statement] = [("DELETE FROM deployments", ()), ("DELETE FROM engines", ())]
        rows += [
            changes.insert("deployments", {"name": d.name, "position": position, "spec": d.spec})
            for position, d in enumerate(deployments)
        ]
        await self._writer.submit(*rows)

    async def add_deployment(self, deployment: DeploymentRecord) -> None:
        """Keep one more, after the others."""
        await self._writer.submit(
            (
                """INSERT INTO deployments (name, position, spec)
                   SELECT ?, coalesce(max(position), -1) + 1, ? FROM deployments""",
                (deployment.name, deployment.spec),
            )
        )

    async def forget_deployment(self, name: str) -> None:
        """Forget a deployment and its engines."""
        await self._writer.submit(
            ("DELETE FROM deployments WHERE name = ?", (name,)),
            ("DELETE FROM engines WHERE substr(name, 1, ?) = ?", (len(name) + 1, f"{name}/")),
        )

    async def set_wanted(self, engines: Sequence[str], wanted: bool) -> None:
        """Whether these engines should run."""
        upsert = """INSERT INTO engines (name, wanted) VALUES (?, ?)
                    ON CONFLICT DO UPDATE SET wanted = excluded.wanted"""
        await self._writer.submit(*((upsert, (name, int(wanted))) for name in engines))

    async def set_setting(self, key: str, value: str | None) -> None:
        """Remember a choice; None forgets it."""
        if value is None:
            await self._writer.submit(("DELETE FROM settings WHERE key = ?", (key,)))
            return
        await self._writer.submit(
            (
                """INSERT INTO settings (key, value) VALUES (?, ?)
                   ON CONFLICT DO UPDATE SET value = excluded.value""",
                (key, value),
            )
        )

    async def create_conversation(self, values: ConversationValues) -> ConversationRecord:
        """Begin a conversation."""
        at_s = self._now()
        record = ConversationRecord(
            id=self._writer.new_id("conversations"),
            created_at_s=at_s,
            updated_at_s=at_s,
            **msgspec.structs.asdict(values),
        )
        row = msgspec.structs.asdict(record)
        del row["messages"]
        await self._writer.submit(changes.insert("conversations", row))
        return record

    async def update_conversation(
        self, conversation_id: int, values: ConversationValues
    ) -> ConversationRecord:
        """Change a conversation.

        Raises:
            UnknownRecordError: there is none of that id.
        """
        found = await self.conversation(conversation_id)
        at_s = self._now()
        await self._writer.submit(changes.conversation_update(conversation_id, values, at_s))
        return msgspec.structs.replace(found, **msgspec.structs.asdict(values), updated_at_s=at_s)

    async def delete_conversation(self, conversation_id: int) -> None:
        """Remove a conversation and its messages.

        Raises:
            UnknownRecordError: there is none of that id.
        """
        await self.conversation(conversation_id)
        await self._writer.submit(("DELETE FROM conversations WHERE id = ?", (conversation_id,)))

    async def conversation(self, conversation_id: int) -> ConversationRecord:
        """A conversation with its messages.

        Raises:
            UnknownRecordError: there is none of that id.
        """
        found = await self.read.conversation(conversation_id)
        if found is None:
            raise UnknownRecordError(f"there is no conversation {conversation_id}", "list them first")
        return found

    async def add_message(self, conversation_id: int, values: MessageValues) -> MessageRecord:
        """Append a turn.

        Raises:
            StorageError: there is no such conversation.
        """
        at_s = self._now()
        record = MessageRecord(
            id=self._writer.new_id("messages"), at_s=at_s, **msgspec.structs.asdict(values)
        )
        await self._writer.submit(
            changes.message(conversation_id, record),
            ("UPDATE conversations SET updated_at_s = ? WHERE id = ?", (at_s, conversation_id)),
        )
        return record

    async def delete_messages_from(self, conversation_id: int, message_id: int) -> None:
        """Remove a turn and all later ones."""
        await self._writer.submit(
            ("DELETE FROM messages WHERE conversation_id = ? AND id >= ?", (conversation_id, message_id))
        )

    def add_samples(self, gpus: Sequence[GpuSample], engines: Sequence[EngineSample]) -> None:
        """Keep one tick; best effort."""
        for gpu in gpus:
            self._writer.sample(changes.gpu_sample(gpu))
        for engine in engines:
            self._writer.sample(changes.engine_sample(engine))


@asynccontextmanager
async def open_store(
    path: Path, *, now: Callable[[], float] = time.time, limits: Limits | None = None
) -> AsyncIterator[Store]:
    """Open the store; what was accepted is written before it closes.

    Raises:
        StorageError: and why; nothing was changed.
    """
    notice = await asyncio.to_thread(prepare, path)
    writer = Writer(path, now, limits or Limits())
    connection = await writer.open()
    try:
        # aiosqlite's thread is no daemon: a connection left open keeps the process from ending.
        async with aiosqlite.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_S
        ) as reader:
            reader.row_factory = aiosqlite.Row
            for pragma in READER_PRAGMAS:
                await reader.execute(pragma)
            task = asyncio.create_task(writer.run(connection), name="storage writer")
            try:
                yield Store(writer, Queries(reader), now, notice)
            finally:
                writer.close()
                await asyncio.shield(task)
    finally:
        await connection.close()
