"""An engine that speaks HTTP byte by byte, for what no HTTP server would do on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

Turn = Callable[[int, int, asyncio.StreamWriter], Awaitable[bool]]
"""Gets the number of the connection, of the request on it, and the writer; False closes the connection."""

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Seen(list[tuple[int, int]]):
    """The (connection, request) pairs that came."""

    port = 0
    """Where it listens, on TCP."""


@asynccontextmanager
async def raw_engine(where: Path | tuple[str, int], turn: Turn) -> AsyncIterator[Seen]:
    """Serve on a Unix socket or on TCP until the block ends."""
    seen = Seen()
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connection, connections = connections, connections + 1
        request = 0
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length")
                )
                await reader.readexactly(length)
                seen.append((connection, request))
                if not await turn(connection, request, writer):
                    break
                request += 1
        writer.close()

    if isinstance(where, Path):
        server = await asyncio.start_unix_server(serve, where)
    else:
        server = await asyncio.start_server(serve, *where)
        seen.port = server.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        server.close()
        await server.wait_closed()
