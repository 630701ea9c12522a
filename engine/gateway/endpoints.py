"""The gateway's routes.

| route | answer |
|---|---|
| `POST /v1/chat/completions`, `/v1/completions`, `/v1/embeddings` | an engine's |
| `GET /v1/models`, `GET /v1/models/ID` | the deployments, ready or not |
| `GET /health` | 200 when a replica is ready, else 503, with the counts |
| `GET /metrics` | the gateway's own counters, Prometheus text |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from aiohttp import web

from engine.gateway.exchange import ClientGone, Exchange
from engine.gateway.exposition import CONTENT_TYPE, exposition
from engine.gateway.fleet import Fleet
from engine.gateway.headers import REQUEST_ID_HEADER, request_id
from engine.gateway.ledger import Ledger
from engine.gateway.proxy import Proxy
from engine.gateway.refusal import Refusal, json_response, refused
from engine.ports import Clock
from engine.routing.least_in_flight import UnknownModel
from engine.routing.names import ModelName

log = logging.getLogger(__name__)

INFERENCE = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/embeddings"})
MODELS = "/v1/models"
CLOSING_RETRY_S = 5
"""A node that goes down for a restart is back within seconds."""

CUT_S = 1.0
"""How long a request that was cut may take to leave."""


class Endpoints:
    """From a request's path to its answer; the one place where an unforeseen error ends."""

    def __init__(self, fleet: Fleet, proxy: Proxy, clock: Clock, ledger: Ledger) -> None:
        self._fleet = fleet
        self._proxy = proxy
        self._clock = clock
        self._ledger = ledger
        self._created_s = int(clock.epoch())
        self._open: set[asyncio.Task[object]] = set()
        self._closing = False
        self._pages: dict[str, Callable[[], web.Response]] = {
            MODELS: self._models,
            "/health": self._health,
            "/metrics": self._metrics,
        }

    async def handle(self, request: web.BaseRequest, path: str, *, trusted: bool) -> web.StreamResponse:
        """Answer one request. Raises nothing but cancellation.

        Args:
            request: the request, its body unread.
            path: what is asked for, without the prefix of a mount.
            trusted: whether a replica may be pinned.
        """
        exchange = Exchange(
            request,
            request_id=request_id(request.headers),
            arrived=self._clock.monotonic(),
            trusted=trusted,
        )
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            return await self._answer(exchange, path)
        finally:
            self._open.discard(task)
            if exchange.endpoint:
                self._ledger.finish(
                    exchange.deployment, exchange.endpoint, exchange.outcome, exchange.sent_bytes
                )

    async def drain(self, deadline_s: float) -> None:
        """Refuse what comes, wait for what is open, and cut it when the time is over."""
        self._closing = True
        if self._open:
            await asyncio.wait(self._open, timeout=deadline_s)
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open, timeout=CUT_S)

    async def _answer(self, exchange: Exchange, path: str) -> web.StreamResponse:
        try:
            await self._route(exchange, path)
            exchange.finished = True
        except Refusal as refusal:
            exchange.response = refusal.response()
        except ClientGone:
            exchange.abort()
        except Exception:
            log.exception("request %s to %s failed in the gateway", exchange.request_id, path)
            if exchange.response is not None:
                exchange.broken = True
                exchange.abort()
            else:
                exchange.response = Refusal(
                    500,
                    f"the gateway failed on this request; its log has the cause under {exchange.request_id}",
                    code="internal_error",
                ).response()
        assert exchange.response is not None
        if not exchange.response.prepared:
            exchange.finished = True
            exchange.response.headers[REQUEST_ID_HEADER] = exchange.request_id
        return exchange.response

    async def _route(self, exchange: Exchange, path: str) -> None:
        method = exchange.request.method
        if path in INFERENCE:
            if method != "POST":
                raise _wrong_method(method, path, "POST")
            await self._infer(exchange, path)
            return
        page = self._pages.get(path)
        asked_model = path.removeprefix(MODELS + "/") if path.startswith(MODELS + "/") else ""
        if page is None and not asked_model:
            raise Refusal(404, f"no route {method} {path[:200]!r}", code="route_not_found")
        if method not in ("GET", "HEAD"):
            raise _wrong_method(method, path, "GET, HEAD")
        exchange.response = page() if page is not None else self._model(asked_model)

    async def _infer(self, exchange: Exchange, path: str) -> None:
        exchange.endpoint = path
        self._ledger.start(exchange.arrived)
        if self._closing:
            raise Refusal(
                503,
                "the gateway is closing",
                code="gateway_closing",
                headers={"Retry-After": str(CLOSING_RETRY_S)},
            )
        await self._proxy.serve(exchange)

    def _models(self) -> web.Response:
        listing = [self._entry(entry) for entry in self._fleet.names.listing]
        return json_response({"object": "list", "data": listing})

    def _model(self, asked: str) -> web.Response:
        names = self._fleet.names
        entry = names.entry(asked)
        if entry is None:
            raise refused(UnknownModel(model=asked, known=names.ids))
        return json_response(self._entry(entry))

    def _entry(self, entry: ModelName) -> dict[str, str | int]:
        # OpenAI's schema demands a time; the gateway's start is the one it knows.
        return {
            "id": entry.id,
            "object": "model",
            "created": self._created_s,
            "owned_by": "vllm-cockpit",
            "root": entry.model,
        }

    def _health(self) -> web.Response:
        replicas = self._fleet.replicas
        ready = sum(replica.accepts for replica in replicas)
        healthy = ready > 0 and not self._closing
        return json_response(
            {
                "status": "ok" if healthy else "unavailable",
                "ready": ready,
                "replicas": len(replicas),
                "in_flight": self._fleet.in_flight.total,
            },
            status=200 if healthy else 503,
        )

    def _metrics(self) -> web.Response:
        engines = [replica.name for replica in self._fleet.replicas]
        text = exposition(self._ledger, self._fleet.in_flight.counts, engines)
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})


def _wrong_method(method: str, path: str, allowed: str) -> Refusal:
    return Refusal(
        405,
        f"{path} does not answer {method}; use {allowed}",
        code="method_not_allowed",
        headers={"Allow": allowed},
    )
