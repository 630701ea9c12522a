"""Taking a request to an engine: choice, connection, and the two cases in which it is sent again.

A request is sent again only where the first try cannot have harmed:
- the engine could not be reached: nothing was sent, so another replica gets it, once;
- a pooled connection was reset at once, with no byte of an answer: the engine closed it for idleness
  while the request was on its way, so a fresh connection gets it, once. A reset that comes later is an
  engine that died over the request, which is not handed to the next one.
"""

from __future__ import annotations

import logging
from functools import partial

from aiohttp import (
    ClientConnectionResetError,
    ClientConnectorError,
    ClientError,
    ClientOSError,
    ClientResponse,
    ConnectionTimeoutError,
    ServerDisconnectedError,
)

from engine.api.schema import PIN_HEADER, REPLICA_HEADER
from engine.gateway.exchange import Exchange
from engine.gateway.fleet import Fleet
from engine.gateway.headers import to_engine
from engine.gateway.ledger import Ledger
from engine.gateway.limits import GatewayLimits
from engine.gateway.pools import Attempt, Pool, Pools
from engine.gateway.refusal import Refusal, refused
from engine.gateway.relay import Relay, broke
from engine.gateway.request_body import RequestBody, parse_body, read_body
from engine.ports import Clock
from engine.routing.least_in_flight import Ask, Chosen
from engine.routing.replicas import Replica

log = logging.getLogger(__name__)

STALE_RESET_S = 1.0
"""A connection closed for idleness fails as soon as it is written to: on one machine within a
millisecond, and within this on a loaded one."""

RESETS = (ClientOSError, ClientConnectionResetError, ServerDisconnectedError)
"""How aiohttp tells of a connection that the other side closed: on reading, before writing, or with a
clean end."""


class UnreachableError(Exception):
    """No connection to the engine could be made."""


class Proxy:
    """Serves the inference endpoints."""

    def __init__(
        self, fleet: Fleet, pools: Pools, relay: Relay, clock: Clock, ledger: Ledger, limits: GatewayLimits
    ) -> None:
        self._fleet = fleet
        self._pools = pools
        self._relay = relay
        self._clock = clock
        self._ledger = ledger
        self._limits = limits

    async def serve(self, exchange: Exchange) -> None:
        """Answer one request.

        Raises:
            Refusal: nothing went out yet; this is the answer.
            ClientGone: the client did not take its answer.
        """
        body = parse_body(await read_body(exchange.request, self._limits))
        pinned = exchange.request.headers.get(PIN_HEADER) if exchange.trusted else None
        replica = self._choose(exchange, Ask(model=body.model, pinned=pinned))
        self._ledger.received_bytes[exchange.deployment] += len(body.raw)
        try:
            await self._serve_on(exchange, body, replica)
        except UnreachableError as error:
            log.warning("%s cannot be reached: %s", replica.name, error.__cause__)
            refusal = Refusal(
                502,
                f"engine {replica.name} cannot be reached; send the request again",
                code="engine_unreachable",
                headers={REPLICA_HEADER: replica.name},
            )
            ask = Ask(model=body.model, pinned=pinned, tried=frozenset({replica.name}))
            decision = self._fleet.choose(ask)
            if not isinstance(decision, Chosen):
                raise refusal from error
            self._ledger.retries["other_replica"] += 1
            try:
                await self._serve_on(exchange, body, decision.replica)
            except UnreachableError:
                raise refusal from error

    def _choose(self, exchange: Exchange, ask: Ask) -> Replica:
        decision = self._fleet.choose(ask)
        if not isinstance(decision, Chosen):
            exchange.deployment = self._fleet.names.deployment(ask.model) or ""
            raise refused(decision)
        exchange.deployment = decision.replica.deployment
        return decision.replica

    async def _serve_on(self, exchange: Exchange, body: RequestBody, replica: Replica) -> None:
        with self._fleet.in_flight.held(replica.name):
            await self._pools.sweep(self._fleet.replicas)
            pool = self._pools.of(replica)
            with pool.used():
                upstream = await self._open(exchange, body, replica, pool)
                try:
                    await self._relay.carry(exchange, upstream, replica)
                finally:
                    # Ends the request at the engine where the answer was not read to its end; else the
                    # connection went back to its pool already.
                    upstream.close()

    async def _open(
        self, exchange: Exchange, body: RequestBody, replica: Replica, pool: Pool
    ) -> ClientResponse:
        post = partial(self._post, exchange, body, replica, pool)
        attempt = Attempt()
        sent = self._clock.monotonic()
        try:
            return await post(attempt, fresh=False)
        except RESETS as error:
            at_once = self._clock.monotonic() - sent < STALE_RESET_S
            if not (attempt.reused and at_once and not _answer_began(error)):
                raise broke(error, replica, self._limits) from error
        except (ClientError, TimeoutError) as error:
            raise broke(error, replica, self._limits) from error
        self._ledger.retries["stale_connection"] += 1
        try:
            return await post(Attempt(), fresh=True)
        except (ClientError, TimeoutError) as error:
            raise broke(error, replica, self._limits) from error

    async def _post(
        self,
        exchange: Exchange,
        body: RequestBody,
        replica: Replica,
        pool: Pool,
        attempt: Attempt,
        *,
        fresh: bool,
    ) -> ClientResponse:
        query = exchange.request.rel_url.raw_query_string
        try:
            return await pool.post(
                f"{exchange.endpoint}?{query}" if query else exchange.endpoint,
                to_engine(exchange.request.headers, api_key=replica.api_key, request_id=exchange.request_id),
                body.for_engine(replica.served_name),
                attempt,
                fresh=fresh,
            )
        except (ClientConnectorError, ConnectionTimeoutError) as error:
            raise UnreachableError from error


def _answer_began(error: ClientError) -> bool:
    # aiohttp puts what it had parsed of an answer's head in place of the message.
    return isinstance(error, ServerDisconnectedError) and not isinstance(error.message, str)
