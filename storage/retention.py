"""What is too old to keep. Pure: says which rows, the writer removes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

CHUNK_ROWS = 2_000
"""Rows removed at once: about 15 ms, during which nothing else is written."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things are kept. Launches, conversations and settings stay."""

    samples_s: float = 24 * 3600.0
    events_s: float = 365 * 24 * 3600.0
    events_rows: int = 1_000_000


def expired(limits: Limits, now_s: float) -> Iterator[tuple[str, dict[str, float]]]:
    """Statements, each to be repeated until it removes nothing.

    All go by the key from its low end, so that one which has nothing to remove costs nothing.
    """
    for table in ("gpu_samples", "engine_samples"):
        yield (
            f"""DELETE FROM {table} WHERE at_s < :before_s AND at_s <= coalesce(
                (SELECT at_s FROM {table} ORDER BY at_s LIMIT 1 OFFSET :chunk), :before_s)""",
            {"before_s": now_s - limits.samples_s, "chunk": CHUNK_ROWS},
        )
    # Up to the first that is young enough: a clock that was wrong for a while removes nothing early.
    yield (
        """DELETE FROM events WHERE id < coalesce(
               (SELECT id FROM events WHERE at_s >= :before_s ORDER BY id LIMIT 1),
               (SELECT max(id) FROM events))
           AND id < (SELECT min(id) FROM events) + :chunk""",
        {"before_s": now_s - limits.events_s, "chunk": CHUNK_ROWS},
    )
    yield (
        """DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - :rows
           AND id < (SELECT min(id) FROM events) + :chunk""",
        {"rows": limits.events_rows, "chunk": CHUNK_ROWS},
    )
