"""A log in memory, answered in chunks as the node does."""

from __future__ import annotations

from engine.api.schema import LogChunk


class LogFile:
    """The bytes of one launch's log; grows by `write`."""

    def __init__(self, content: bytes = b"", *, launch_id: int = 1) -> None:
        self.content = content
        self.launch_id = launch_id
        self.ended = False
        self.reads: list[tuple[int, int]] = []
        """Offset and limit of each read."""

    def write(self, content: bytes) -> None:
        """The engine prints something."""
        self.content += content

    def chunk(self, offset: int, limit: int) -> LogChunk:
        """As the API cuts it: at the last line end within the limit, where there is one."""
        self.reads.append((offset, limit))
        size = len(self.content)
        start = max(0, size + offset) if offset < 0 else min(offset, size)
        data = self.content[start : start + limit]
        if start + len(data) < size and (cut := data.rfind(b"\n")) >= 0:
            data = data[: cut + 1]
        return LogChunk(
            launch_id=self.launch_id,
            offset=start,
            next_offset=start + len(data),
            size_bytes=size,
            text=data.decode(errors="replace"),
            ended=self.ended,
        )
