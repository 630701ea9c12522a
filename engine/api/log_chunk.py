"""A piece of a log file, by byte offset."""

from __future__ import annotations

from pathlib import Path

from engine.api.schema import LogChunk


def read_chunk(path: Path, launch_id: int, offset: int, limit: int, *, ended: bool) -> LogChunk:
    """Up to `limit` bytes from `offset`; a negative offset counts from the end.

    The piece ends at a line end where it holds one and the file goes on, so that a line is not
    split between two pieces unless it is longer than `limit`.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        start = max(0, size + offset) if offset < 0 else min(offset, size)
        file.seek(start)
        data = file.read(limit)
    if start + len(data) < size:
        cut = data.rfind(b"\n") + 1
        data = data[: cut or len(data)]
    return LogChunk(
        launch_id=launch_id,
        offset=start,
        next_offset=start + len(data),
        size_bytes=size,
        text=data.decode(errors="replace"),
        ended=ended,
    )
