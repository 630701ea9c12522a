"""The OpenAI-compatible gateway, put together: its listener, its mount on the node's API, its figures."""

from __future__ import annotations

from aiohttp import web

from engine.errors import StateError
from engine.gateway.endpoints import CUT_S, Endpoints
from engine.gateway.fleet import Fleet
from engine.gateway.ledger import Ledger
from engine.gateway.limits import GatewayLimits
from engine.gateway.listener import bind
from engine.gateway.pools import Pools
from engine.gateway.protocol import OpenAiServer, send_continue
from engine.gateway.proxy import Proxy
from engine.gateway.refusal import Refusal
from engine.gateway.relay import Relay
from engine.model import GatewayView
from engine.ports import Clock
from engine.routing.replicas import ReplicaTable

CLOSE_S = 5.0
"""How long open requests may run on after the gateway was told to close."""
BACKLOG = 1024
"""Connections that the kernel holds while the loop is busy: a burst of clients is not turned away."""


class Gateway:
    """Routes OpenAI-compatible requests to the engines. Satisfies `engine.ports.Traffic`.

    One event loop runs all of it; nothing here is shared with another thread.
    """

    def __init__(self, replicas: ReplicaTable, clock: Clock, limits: GatewayLimits | None = None) -> None:
        limits = limits or GatewayLimits()
        self._clock = clock
        self._limits = limits
        self._ledger = Ledger(clock.monotonic())
        self._fleet = Fleet(replicas)
        self._pools = Pools(limits)
        relay = Relay(clock, self._ledger, limits)
        proxy = Proxy(self._fleet, self._pools, relay, clock, self._ledger, limits)
        self._endpoints = Endpoints(self._fleet, proxy, clock, self._ledger)
        self._runner: web.ServerRunner | None = None
        self._listen: str | None = None

    async def listen(self, host: str, port: int) -> str:
        """Open the TCP listener, where replicas cannot be pinned. Returns the bound `host:port`.

        Args:
            host: address or name of this machine.
            port: 0 takes a free one.

        Raises:
            GatewayError: the address cannot be had; the message says who has it.
            StateError: it listens already.
        """
        if self._runner is not None:
            raise StateError(f"the gateway listens on {self._listen} already", "close it first")
        bound = await bind(host, port)
        address = bound.getsockname()
        self._runner = web.ServerRunner(
            OpenAiServer(self._on_tcp, limits=self._limits), shutdown_timeout=CUT_S
        )
        await self._runner.setup()
        await web.SockSite(self._runner, bound, backlog=BACKLOG).start()
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        self._listen = f"{shown}:{address[1]}"
        return self._listen

    def mount(self, app: web.Application, prefix: str = "/openai", *, trusted: bool = True) -> None:
        """Serve the same routes on another application.

        Its runner should have `handler_cancellation=True`: without it a client that hangs up is noticed
        only when the next piece of its answer is written, not while the engine still computes the first.

        Args:
            app: the application, before it is frozen.
            prefix: path under which the routes appear.
            trusted: whether the header that pins a replica is honoured.
        """
        prefix = "/" + prefix.strip("/")

        async def on_mount(request: web.Request) -> web.StreamResponse:
            return await self._endpoints.handle(request, request.path.removeprefix(prefix), trusted=trusted)

        app.router.add_route("*", prefix + "/{route:.*}", on_mount)

    def view(self) -> GatewayView:
        """The figures now."""
        now = self._clock.monotonic()
        return GatewayView(
            listen=self._listen,
            in_flight=self._fleet.in_flight.total,
            requests_total=self._ledger.started_total,
            errors_total=self._ledger.errors_total,
            requests_per_s=self._ledger.requests_per_s(now),
            ttft_p95_s=self._ledger.ttft_p95_s(now),
        )

    def in_flight(self, engine: str) -> int:
        """Requests now open on the engine."""
        return self._fleet.in_flight.counts.get(engine, 0)

    async def wait_idle(self, engine: str, timeout_s: float) -> bool:
        """Wait for none to be open; False when the time ran out."""
        return await self._fleet.in_flight.wait_idle(engine, timeout_s)

    async def close(self, deadline_s: float = CLOSE_S) -> None:
        """Stop listening, give open requests `deadline_s`, then cut them.

        For good: mounted routes stay, and refuse from now on.
        """
        if self._runner is not None:
            for site in self._runner.sites:
                await site.stop()
        await self._endpoints.drain(deadline_s)
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
            self._listen = None
        await self._pools.close()

    async def _on_tcp(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            await send_continue(request)
        except Refusal as refusal:
            return refusal.response()
        return await self._endpoints.handle(request, request.path, trusted=False)
