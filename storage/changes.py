"""The statements behind each write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from storage.batch import Statement
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
)


def insert(table: str, values: dict[str, Any], verb: str = "INSERT") -> Statement:
    """An insert of named columns; the names are ours, never input."""
    columns = ", ".join(values)
    marks = ", ".join("?" * len(values))
    return f"{verb} INTO {table} ({columns}) VALUES ({marks})", tuple(map(storable, values.values()))


def storable(value: Any) -> Any:
    r"""A value that SQLite takes: half a surrogate pair, as from the bytes of a path, becomes `\udcff`."""
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def event(record: EventRecord) -> Statement:
    """An event with its id."""
    return insert("events", msgspec.structs.asdict(record))


def launch_start(launch_id: int, start: LaunchStart) -> Statement:
    """A launch as it begins."""
    return insert("launches", {"id": launch_id, **msgspec.structs.asdict(start), "argv": _json(start.argv)})


def launch_ready(launch_id: int, at_s: float) -> Statement:
    """A launch that answers."""
    return "UPDATE launches SET ready_at_s = ? WHERE id = ?", (at_s, launch_id)


def launch_end(launch_id: int, end: LaunchEnd) -> Statement:
    """A launch as it ended; the first end that is told counts."""
    values = msgspec.structs.asdict(end) | {"last_error_lines": _json(end.last_error_lines)}
    columns = ", ".join(f"{column} = ?" for column in values)
    return (
        f"UPDATE launches SET {columns} WHERE id = ? AND ended_at_s IS NULL",
        (*map(storable, values.values()), launch_id),
    )


def deployments(records: Sequence[DeploymentRecord]) -> list[Statement]:
    """These and no others, and no wish of an engine."""
    return [
        ("DELETE FROM deployments", ()),
        ("DELETE FROM engines", ()),
        *(
            insert("deployments", {"name": record.name, "position": position, "spec": record.spec})
            for position, record in enumerate(records)
        ),
    ]


def deployment_added(record: DeploymentRecord) -> Statement:
    """One more, after the others."""
    return (
        """INSERT INTO deployments (name, position, spec)
           SELECT ?, coalesce(max(position), -1) + 1, ? FROM deployments""",
        (storable(record.name), storable(record.spec)),
    )


def deployment_forgotten(name: str) -> list[Statement]:
    """One fewer, with its engines."""
    return [
        ("DELETE FROM deployments WHERE name = ?", (name,)),
        ("DELETE FROM engines WHERE substr(name, 1, ?) = ?", (len(name) + 1, f"{name}/")),
    ]


def wanted(engine: str, value: bool) -> Statement:
    """Whether an engine should run."""
    return insert("engines", {"name": engine, "wanted": int(value)}, "REPLACE")


def setting(key: str, value: str | None) -> Statement:
    """A remembered choice; None forgets it."""
    if value is None:
        return "DELETE FROM settings WHERE key = ?", (key,)
    return insert("settings", {"key": key, "value": value}, "REPLACE")


def conversation(record: ConversationRecord) -> Statement:
    """A conversation as it begins, without messages."""
    values = msgspec.structs.asdict(record)
    del values["messages"]
    return insert("conversations", values)


def conversation_update(conversation_id: int, values: ConversationValues, at_s: float) -> Statement:
    """Other values for a conversation."""
    changed = msgspec.structs.asdict(values) | {"updated_at_s": at_s}
    columns = ", ".join(f"{column} = ?" for column in changed)
    return (
        f"UPDATE conversations SET {columns} WHERE id = ?",
        (*map(storable, changed.values()), conversation_id),
    )


def message(conversation_id: int, record: MessageRecord) -> list[Statement]:
    """A turn, which makes its conversation the last used."""
    return [
        insert("messages", {"conversation_id": conversation_id, **msgspec.structs.asdict(record)}),
        ("UPDATE conversations SET updated_at_s = ? WHERE id = ?", (record.at_s, conversation_id)),
    ]


def gpu_sample(sample: GpuSample) -> Statement:
    """A GPU at one tick; a clock set back may give a time twice."""
    return insert("gpu_samples", msgspec.structs.asdict(sample), "REPLACE")


def engine_sample(sample: EngineSample) -> Statement:
    """An engine at one tick."""
    return insert("engine_samples", msgspec.structs.asdict(sample), "REPLACE")


def _json(lines: Sequence[str]) -> str:
    return msgspec.json.encode(tuple(map(storable, lines))).decode()
