"""The statements behind each write."""

from __future__ import annotations

from typing import Any

import msgspec

from storage.records import (
    ConversationValues,
    EngineSample,
    EventRecord,
    GpuSample,
    LaunchEnd,
    LaunchStart,
    MessageRecord,
)
from storage.writer import Statement


def insert(table: str, values: dict[str, Any]) -> Statement:
    """An insert of named columns; the names are ours, never input."""
    columns = ", ".join(values)
    marks = ", ".join("?" * len(values))
    return f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(values.values())


def event(record: EventRecord) -> Statement:
    """An event with its id."""
    return insert("events", msgspec.structs.asdict(record))


def launch_start(launch_id: int, start: LaunchStart) -> Statement:
    """A launch as it begins."""
    values = msgspec.structs.asdict(start) | {"argv": msgspec.json.encode(start.argv).decode()}
    return insert("launches", {"id": launch_id, **values})


def launch_end(launch_id: int, end: LaunchEnd) -> Statement:
    """A launch as it ended; the first end that is told counts."""
    return (
        """UPDATE launches SET ended_at_s = ?, cause_kind = ?, cause_summary = ?, cause_hint = ?,
           exit_code = ?, signal = ?, last_error_lines = ?, retryable = ?
           WHERE id = ? AND ended_at_s IS NULL""",
        (
            end.ended_at_s,
            end.cause_kind,
            end.cause_summary,
            end.cause_hint,
            end.exit_code,
            end.signal,
            msgspec.json.encode(end.last_error_lines).decode(),
            int(end.retryable),
            launch_id,
        ),
    )


def conversation_update(conversation_id: int, values: ConversationValues, at_s: float) -> Statement:
    """Other values for a conversation."""
    return (
        """UPDATE conversations SET title = ?, model = ?, system_prompt = ?, temperature = ?,
           max_tokens = ?, updated_at_s = ? WHERE id = ?""",
        (
            values.title,
            values.model,
            values.system_prompt,
            values.temperature,
            values.max_tokens,
            at_s,
            conversation_id,
        ),
    )


def message(conversation_id: int, record: MessageRecord) -> Statement:
    """A turn."""
    return insert("messages", {"conversation_id": conversation_id, **msgspec.structs.asdict(record)})


def gpu_sample(sample: GpuSample) -> Statement:
    """A GPU at one tick."""
    return insert("gpu_samples", msgspec.structs.asdict(sample))


def engine_sample(sample: EngineSample) -> Statement:
    """An engine at one tick."""
    return insert("engine_samples", msgspec.structs.asdict(sample))
