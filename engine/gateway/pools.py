"""Connections to the engines, one pool for each launch of an engine."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace

from aiohttp import (
    BaseConnector,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
    TraceConfig,
    TraceConnectionReuseconnParams,
    UnixConnector,
)
from multidict import CIMultiDict
from yarl import URL

from engine.gateway.limits import GatewayLimits
from engine.routing.replicas import Replica

IDLE_S = 4.0
"""How long an idle connection is used again. uvicorn closes one after 5 s; staying below it makes a
reset on reuse rare."""
WHOLE_BODY_BYTES = 2**20
"""Above this aiohttp wants the body as a file, and sends it in pieces."""


class Attempt:
    """One try to reach an engine, filled in by the connector."""

    def __init__(self) -> None:
        self.reused = False
        """True when it ran over a connection that had served a request before."""


class Pool:
    """Connections to one launch of one engine."""

    def __init__(self, replica: Replica, limits: GatewayLimits) -> None:
        self._replica = replica
        self._limits = limits
        self._pooled = self._session(force_close=False)
        self._fresh: ClientSession | None = None
        self._users = 0

    def serves(self, replica: Replica) -> bool:
        """Whether the replica is still the launch that this pool belongs to."""
        mine = self._replica
        return mine.generation == replica.generation and mine.endpoint == replica.endpoint

    @property
    def idle(self) -> bool:
        """True while no request uses it."""
        return not self._users

    @contextmanager
    def used(self) -> Iterator[None]:
        """Keep the pool from being closed for as long as the block runs."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1

    async def post(
        self, path: str, headers: CIMultiDict[str], body: bytes, attempt: Attempt, *, fresh: bool
    ) -> ClientResponse:
        """Send a request and wait for the head of its answer.

        Args:
            path: path and query at the engine.
            headers: of the request, complete but for the length.
            body: of the request.
            attempt: told whether the connection was used before.
            fresh: open a new connection.
        """
        if fresh and self._fresh is None:
            self._fresh = self._session(force_close=True)
        session = self._fresh if fresh and self._fresh is not None else self._pooled
        host = self._replica.endpoint
        origin = "http://engine" if host.uds else f"http://{host.host}:{host.port}"
        return await session.post(
            URL(origin + path, encoded=True),
            headers=headers,
            data=body if len(body) <= WHOLE_BODY_BYTES else io.BytesIO(body),
            allow_redirects=False,
            trace_request_ctx=attempt,
        )

    async def close(self) -> None:
        """Close all connections, those in use too."""
        await self._pooled.close()
        if self._fresh is not None:
            await self._fresh.close()

    def _session(self, *, force_close: bool) -> ClientSession:
        trace = TraceConfig()
        trace.on_connection_reuseconn.append(_note_reuse)
        return ClientSession(
            connector=self._connector(force_close=force_close),
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept"),
            trace_configs=[trace],
            timeout=ClientTimeout(
                total=None, sock_connect=self._limits.connect_s, sock_read=self._limits.silence_s
            ),
        )

    def _connector(self, *, force_close: bool) -> BaseConnector:
        # aiohttp refuses an idle time together with force_close.
        if self._replica.endpoint.uds:
            path = self._replica.endpoint.uds
            if force_close:
                return UnixConnector(path, limit=0, force_close=True)
            return UnixConnector(path, limit=0, keepalive_timeout=IDLE_S)
        if force_close:
            return TCPConnector(limit=0, force_close=True)
        return TCPConnector(limit=0, keepalive_timeout=IDLE_S)


class Pools:
    """The pools of all engines."""

    def __init__(self, limits: GatewayLimits) -> None:
        self._limits = limits
        self._current: dict[str, Pool] = {}
        self._retired: list[Pool] = []

    def of(self, replica: Replica) -> Pool:
        """The pool of the replica's present launch."""
        pool = self._current.get(replica.name)
        if pool is not None and pool.serves(replica):
            return pool
        if pool is not None:
            self._retired.append(pool)
        pool = self._current[replica.name] = Pool(replica, self._limits)
        return pool

    async def sweep(self, replicas: Sequence[Replica]) -> None:
        """Close the pools of launches that are gone, once their last request is done."""
        present = {replica.name: replica for replica in replicas}
        for name, pool in list(self._current.items()):
            replica = present.get(name)
            if replica is None or not pool.serves(replica):
                self._retired.append(self._current.pop(name))
        for pool in [pool for pool in self._retired if pool.idle]:
            self._retired.remove(pool)
            await pool.close()

    async def close(self) -> None:
        """Close everything."""
        pools = [*self._current.values(), *self._retired]
        self._current, self._retired = {}, []
        for pool in pools:
            await pool.close()


async def _note_reuse(
    _session: ClientSession, context: SimpleNamespace, _params: TraceConnectionReuseconnParams
) -> None:
    context.trace_request_ctx.reused = True
