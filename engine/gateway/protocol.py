"""The TCP listener's HTTP: what aiohttp would answer by itself, in OpenAI's shape instead."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiohttp import HttpVersion11, web

from engine.gateway.limits import GatewayLimits
from engine.gateway.refusal import Refusal

log = logging.getLogger(__name__)


class OpenAiProtocol(web.RequestHandler):
    """One client connection."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no HTTP, or what aiohttp gave up on; the connection is closed after it."""
        log.debug("malformed HTTP request", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer went out already")
        reason = (message or "it cannot be parsed").strip().partition("\n")[0].rstrip(":")
        return Refusal(
            status, f"malformed HTTP request: {reason}", code="malformed_http", close=True
        ).response()


class OpenAiServer(web.Server):
    """Makes the protocols. A client that hangs up cancels its handler."""

    def __init__(
        self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], *, limits: GatewayLimits
    ) -> None:
        super().__init__(handler, handler_cancellation=True)
        self._limits = limits

    def __call__(self) -> web.RequestHandler:
        """A protocol for a new connection."""
        return OpenAiProtocol(
            self,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=self._limits.client_idle_s,
            lingering_time=self._limits.linger_s,
            access_log=None,  # type: ignore[arg-type]  # aiohttp's own runners pass None to mean no log
        )


async def send_continue(request: web.BaseRequest) -> None:
    """Let a client that asks first (curl, from 1 MiB on) send its body; an `Application` does it itself.

    Raises:
        Refusal: 417, when it expects something else.
    """
    expected = request.headers.get("Expect")
    if expected is None or request.version < HttpVersion11:
        return
    if expected.lower() != "100-continue":
        raise Refusal(
            417, f"Expect: {expected[:40]!r} is not supported", code="expectation_failed", close=True
        )
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    # The interim answer must not make the real one look begun.
    request.writer.output_size = 0
