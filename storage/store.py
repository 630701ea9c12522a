"""The store as the node uses it: writes that say whether they are on disk, and questions."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from storage import changes
from storage.database import prepare, reading, writing
from storage.errors import RejectedError, UnknownRecordError
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
from storage.writer import Writer


class Store:
    """Writes through the one writer; `read` asks on another connection.

    Every write returns once it is on disk. While the database cannot be written it returns as well,
    and the change waits in memory: `problem` says why, and `add_event` says so for that event. What
    waits there cannot be read yet.
    """

    def __init__(self, writer: Writer, read: Queries, now: Callable[[], float], notice: str | None) -> None:
        self._writer = writer
        self.read = read
        self._now = now
        self.notice = notice
        """What the operator should know of the opening: a damaged file was set aside."""

    @property
    def problem(self) -> str | None:
        """Why the database cannot be written, and how much waits for it; None when it can."""
        return self._writer.problem

    @property
    def pending(self) -> int:
        """Changes that are not on disk yet."""
        return self._writer.pending

    @property
    def dropped_samples(self) -> int:
        """Samples given up since the start."""
        return self._writer.dropped_samples

    def keep_samples(self, seconds: float) -> None:
        """How long samples are kept from now on."""
        self._writer.limits = dataclasses.replace(self._writer.limits, samples_s=seconds)

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
        await self._writer.submit(changes.launch_ready(launch_id, at_s))

    async def end_launch(self, launch_id: int, end: LaunchEnd) -> None:
        """A launch is over."""
        await self._writer.submit(changes.launch_end(launch_id, end))

    async def replace_deployments(self, deployments: Sequence[DeploymentRecord]) -> None:
        """Forget all deployments and their engines, and keep these: all or nothing.

        Raises:
            RejectedError: two of one name.
        """
        await self._writer.submit(*changes.deployments(deployments))

    async def add_deployment(self, deployment: DeploymentRecord) -> None:
        """Keep one more, after the others.

        Raises:
            RejectedError: there is one of that name.
        """
        await self._writer.submit(changes.deployment_added(deployment))

    async def forget_deployment(self, name: str) -> None:
        """Forget a deployment and its engines."""
        await self._writer.submit(*changes.deployment_forgotten(name))

    async def set_wanted(self, engines: Sequence[str], wanted: bool) -> None:
        """Whether these engines should run."""
        await self._writer.submit(*(changes.wanted(engine, wanted) for engine in engines))

    async def set_setting(self, key: str, value: str | None) -> None:
        """Remember a choice; None forgets it."""
        await self._writer.submit(changes.setting(key, value))

    async def create_conversation(self, values: ConversationValues) -> ConversationRecord:
        """Begin a conversation."""
        at_s = self._now()
        record = ConversationRecord(
            id=self._writer.new_id("conversations"),
            created_at_s=at_s,
            updated_at_s=at_s,
            **msgspec.structs.asdict(values),
        )
        await self._writer.submit(changes.conversation(record))
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
            raise _no_conversation(conversation_id)
        return found

    async def add_message(self, conversation_id: int, values: MessageValues) -> MessageRecord:
        """Append a turn.

        Raises:
            UnknownRecordError: there is no such conversation.
        """
        record = MessageRecord(
            id=self._writer.new_id("messages"), at_s=self._now(), **msgspec.structs.asdict(values)
        )
        try:
            await self._writer.submit(*changes.message(conversation_id, record))
        except RejectedError as error:
            if await self.read.conversation(conversation_id) is None:
                raise _no_conversation(conversation_id) from error
            raise
        return record

    async def delete_messages_from(self, conversation_id: int, message_id: int) -> None:
        """Remove a turn and all later ones."""
        await self._writer.submit(
            ("DELETE FROM messages WHERE conversation_id = ? AND id >= ?", (conversation_id, message_id))
        )

    def add_samples(self, gpus: Sequence[GpuSample], engines: Sequence[EngineSample]) -> None:
        """Keep one tick; best effort."""
        self._writer.sample(*map(changes.gpu_sample, gpus), *map(changes.engine_sample, engines))


@asynccontextmanager
async def open_store(
    path: Path, *, now: Callable[[], float] = time.time, limits: Limits | None = None
) -> AsyncIterator[Store]:
    """Open the store; what was accepted is written before it closes, also when its user is cancelled.

    Raises:
        StorageError: and why; nothing was changed.
    """
    notice = await asyncio.to_thread(prepare, path)
    # The writer closes last: only it can fold the log into the file and remove it.
    async with writing(path) as connection, reading(path) as reader:
        writer = Writer(path, now, limits or Limits())
        await writer.read_ids(connection)
        task = asyncio.create_task(writer.run(connection), name="storage writer")
        try:
            yield Store(writer, Queries(reader), now, notice)
        finally:
            writer.close()
            await _finish(task)


async def _finish(task: asyncio.Task[None]) -> None:
    """Wait for a task to its end; a cancellation is passed on only then."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


def _no_conversation(conversation_id: int) -> UnknownRecordError:
    return UnknownRecordError(f"there is no conversation {conversation_id}", "list them first")
