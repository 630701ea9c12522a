"""What is too old to keep. Pure: says which rows, the writer removes them."""

from __future__ import annotations

from dataclasses import dataclass

CHUNK_ROWS = 2_000
"""Rows removed at once: a few milliseconds."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things are kept; events, launches and conversations stay."""

    samples_s: float = 24 * 3600.0


def expired(limits: Limits, now_s: float) -> tuple[tuple[str, tuple[float, int]], ...]:
    """Statements to be repeated until they remove nothing."""
    before_s = now_s - limits.samples_s
    return tuple(
        (
            f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE at_s < ? LIMIT ?)",
            (before_s, CHUNK_ROWS),
        )
        for table in ("gpu_samples", "engine_samples")
    )
