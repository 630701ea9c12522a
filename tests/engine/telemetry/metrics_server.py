"""An engine's /metrics on a Unix socket, under the test's control."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiohttp import web

from engine.model import Endpoint


class MetricsServer:
    """Serves `page` with `status`; waits while `gate` is clear."""

    def __init__(self, socket: Path) -> None:
        self.page: str | bytes = ""
        self.status = 200
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = 0
        self.endpoint = Endpoint(uds=str(socket))
        self._socket = socket
        app = web.Application()
        app.router.add_get("/metrics", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)

    async def start(self) -> None:
        await self._runner.setup()
        await web.UnixSite(self._runner, str(self._socket)).start()

    async def stop(self) -> None:
        self.gate.set()
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        await self.gate.wait()
        body = self.page.encode() if isinstance(self.page, str) else self.page
        return web.Response(body=body, status=self.status, content_type="text/plain")
