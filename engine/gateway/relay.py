"""Carrying an engine's answer to the client.

| the engine fails | the client gets |
|---|---|
| before the first byte of the body | 502, or 504 after silence |
| within a short answer that is no stream | the same: it is collected first |
| within a longer one | a cut connection, since its status is out |
| within a stream of events | a last event with the error, and no `[DONE]` |
"""

from __future__ import annotations

import logging

from aiohttp import ClientError, ClientResponse, web

from engine.api.schema import REPLICA_HEADER
from engine.gateway.exchange import Exchange
from engine.gateway.headers import to_client
from engine.gateway.ledger import Ledger
from engine.gateway.limits import GatewayLimits
from engine.gateway.refusal import Refusal
from engine.ports import Clock
from engine.routing.replicas import Replica

log = logging.getLogger(__name__)


class Relay:
    """Forwards answers."""

    def __init__(self, clock: Clock, ledger: Ledger, limits: GatewayLimits) -> None:
        self._clock = clock
        self._ledger = ledger
        self._limits = limits

    async def carry(self, exchange: Exchange, upstream: ClientResponse, replica: Replica) -> None:
        """Forward the answer to its end.

        Raises:
            Refusal: the engine failed before anything went out.
            ClientGone: the client did not take it.
        """
        streamed = upstream.content_type == "text/event-stream"
        head, whole = await self._head(upstream, replica, streamed=streamed)
        response = web.StreamResponse(
            status=upstream.status,
            reason=upstream.reason,
            headers=to_client(upstream.headers, served_by=replica.name),
        )
        if whole:
            response.content_length = len(head)
        elif upstream.content_length is not None:
            response.content_length = upstream.content_length
        await exchange.begin(response)
        if head:
            await exchange.send(head, self._limits.client_stall_s)
        if streamed and upstream.status < 300:
            now = self._clock.monotonic()
            self._ledger.first_byte(now, now - exchange.arrived)
        if not whole:
            await self._rest(exchange, upstream, replica, head, streamed=streamed)
        if not exchange.broken or streamed:
            await exchange.end()

    async def _head(
        self, upstream: ClientResponse, replica: Replica, *, streamed: bool
    ) -> tuple[bytes, bool]:
        """The first bytes, and whether they are all: the first piece of a stream, else up to the buffer."""
        enough = 1 if streamed else self._limits.answer_buffer_bytes
        head = bytearray()
        try:
            while len(head) < enough:
                chunk = await upstream.content.readany()
                if not chunk:
                    return bytes(head), True
                head += chunk
        except (ClientError, TimeoutError) as error:
            raise broke(error, replica, self._limits) from error
        return bytes(head), False

    async def _rest(
        self, exchange: Exchange, upstream: ClientResponse, replica: Replica, last: bytes, *, streamed: bool
    ) -> None:
        stall_s = self._limits.client_stall_s
        read = upstream.content.readany
        try:
            while chunk := await read():
                last = chunk
                await exchange.send(chunk, stall_s)
        except (ClientError, TimeoutError) as error:
            exchange.broken = True
            log.warning("%s broke within the answer to %s: %r", replica.name, exchange.request_id, error)
            if not streamed:
                exchange.abort()
                return
            # An event that was cut must not swallow the one that says so.
            gap = b"" if last.endswith((b"\n\n", b"\r\n\r\n")) else b"\n\n"
            await exchange.send(gap + broke(error, replica, self._limits).event(), stall_s)


def broke(error: ClientError | TimeoutError, replica: Replica, limits: GatewayLimits) -> Refusal:
    """What the client is told of an engine that failed."""
    served_by = {REPLICA_HEADER: replica.name}
    if isinstance(error, TimeoutError):
        return Refusal(
            504,
            f"engine {replica.name} sent nothing for {limits.silence_s:g} s; it may hang: see its logs",
            code="engine_timeout",
            headers=served_by,
        )
    return Refusal(
        502,
        f"engine {replica.name} broke off before its answer was complete; send the request again",
        code="engine_failed",
        headers=served_by,
    )
