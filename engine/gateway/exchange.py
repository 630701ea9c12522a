"""One request of a client, from its arrival to the end of its answer."""

from __future__ import annotations

import asyncio

from aiohttp import web

from engine.gateway.headers import REQUEST_ID_HEADER
from engine.gateway.ledger import Outcome, outcome_of

UNSTALLED_BYTES = 32_768
"""So much written to an empty buffer stays under the transport's high-water mark of 64 KiB, so it cannot
stall and needs no timer: a sixth of the time of forwarding an event."""


class ClientGone(Exception):
    """The client closed its connection, or left its answer unread for too long."""


class Exchange:
    """The client's side: what was asked, and the answer as far as it went out."""

    def __init__(self, request: web.BaseRequest, *, request_id: str, arrived: float, trusted: bool) -> None:
        self.request = request
        self.request_id = request_id
        self.arrived = arrived
        """Monotonic seconds."""
        self.trusted = trusted
        """True where the operator's own tools ask, which may pin a replica."""
        self.endpoint = ""
        self.deployment = ""
        """Empty until the model is known."""
        self.response: web.StreamResponse | None = None
        """Set once the head of the answer is made; from then on no other answer is possible."""
        self.finished = False
        """True once the answer is whole, as far as the gateway is concerned."""
        self.broken = False
        """True when the engine failed after the answer began."""
        self.sent_bytes = 0

    @property
    def outcome(self) -> Outcome:
        """How it ended, once it has."""
        if self.broken:
            return "broken"
        if self.response is None or not self.finished:
            return "cancelled"
        return outcome_of(self.response.status)

    async def begin(self, response: web.StreamResponse) -> None:
        """Make the head of the answer; it goes out with the first bytes of the body."""
        self.response = response
        response.headers[REQUEST_ID_HEADER] = self.request_id
        try:
            await response.prepare(self.request)
        except ConnectionError as error:
            raise ClientGone from error

    async def send(self, data: bytes, stall_s: float) -> None:
        """Send a piece of the body, waiting while the client reads slower than the engine writes."""
        assert self.response is not None
        transport = self.request.transport
        if transport is None:
            raise ClientGone
        try:
            if len(data) <= UNSTALLED_BYTES and not transport.get_write_buffer_size():
                await self.response.write(data)
            else:
                async with asyncio.timeout(stall_s):
                    await self.response.write(data)
        except (ConnectionError, TimeoutError) as error:
            raise ClientGone from error
        self.sent_bytes += len(data)

    async def end(self) -> None:
        """End the body."""
        assert self.response is not None
        try:
            await self.response.write_eof()
        except ConnectionError as error:
            raise ClientGone from error

    def abort(self) -> None:
        """Cut the connection, so that the client sees that its answer is not whole."""
        if self.request.transport is not None:
            self.request.transport.abort()
