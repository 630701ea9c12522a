"""Reads one launch's log through the node: a window that moves, and a search over the whole file."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from cockpit.client import NodeApi
from cockpit.log_search import SearchResult, scanned
from cockpit.log_window import (
    PIECE_BYTES,
    WINDOW_BYTES,
    LogWindow,
    extended_down,
    extended_up,
    opened,
    span_before,
)
from engine.api.schema import LogChunk

SEARCH_BYTES = 262_144
"""What a search fetches at once: few round trips, and each still well below a tenth of a second."""


class LogReader:
    """The log of one launch. Stateless: windows go in and come out.

    Every method raises `cockpit.client.ClientError` when the node cannot be read.
    """

    def __init__(self, node: NodeApi, engine: str, launch_id: int | None) -> None:
        self._node = node
        self.engine = engine
        self.launch_id = launch_id
        """None is the newest launch."""

    async def head(self) -> LogWindow:
        """The first piece."""
        return opened(await self._read(0), line_start=True)

    async def tail(self) -> LogWindow:
        """The last piece."""
        return opened(await self._read(-PIECE_BYTES), line_start=False)

    async def around(self, offset: int) -> LogWindow:
        """A window that holds the line beginning at `offset`, with a piece of what comes before."""
        window = opened(await self._read(offset), line_start=True)
        return await self.older(window)

    async def older(self, window: LogWindow) -> LogWindow:
        """With the piece before; the same where there is none."""
        offset, length = span_before(window)
        if length <= 0:
            return window
        chunk = await self._read(offset, length)
        # The node may cut an answer short at a line end: read on until it meets the window.
        while chunk.text and chunk.next_offset < window.start:
            more = await self._read(chunk.next_offset, window.start - chunk.next_offset)
            if more.next_offset <= chunk.next_offset:
                break
            chunk = _joined(chunk, more)
        return extended_up(window, chunk)

    async def newer(self, window: LogWindow) -> LogWindow:
        """With the piece after; the same where there is none yet."""
        return extended_down(window, await self._read(window.end))

    async def measured(self, window: LogWindow) -> LogWindow:
        """The same lines, with the file's present size."""
        chunk = await self._read(window.end, 1)
        return msgspec.structs.replace(window, size_bytes=chunk.size_bytes, ended=chunk.ended)

    async def following(self, window: LogWindow) -> LogWindow:
        """With all that was written since, or the newest piece where that is too much to catch up with."""
        window = await self.newer(window)
        if window.size_bytes - window.end > WINDOW_BYTES // 2:
            chunk = await self._read(-PIECE_BYTES)
            return opened(chunk, line_start=False, skipped_bytes=chunk.offset - window.end)
        while not window.at_end:
            longer = await self.newer(window)
            if longer.end == window.end:
                break
            window = longer
        return window

    async def search(self, needle: str) -> AsyncIterator[SearchResult]:
        """Results as they grow, from the file's start to its present end."""
        result = SearchResult(needle)
        while True:
            chunk = await self._read(result.scanned_bytes, SEARCH_BYTES)
            stuck = chunk.next_offset <= result.scanned_bytes
            result = scanned(result, chunk)
            yield result
            if stuck or result.complete:
                return

    async def _read(self, offset: int, limit: int = PIECE_BYTES) -> LogChunk:
        return await self._node.log(self.engine, self.launch_id, offset, limit)


def _joined(chunk: LogChunk, more: LogChunk) -> LogChunk:
    return LogChunk(
        launch_id=chunk.launch_id,
        offset=chunk.offset,
        next_offset=more.next_offset,
        size_bytes=more.size_bytes,
        text=chunk.text + more.text,
        ended=more.ended,
    )
