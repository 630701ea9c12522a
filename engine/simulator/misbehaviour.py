"""The faults of a running engine, carried out at its HTTP surface."""

from __future__ import annotations

import asyncio
import os
from weakref import WeakSet

import msgspec
from aiohttp import web

from engine.simulator.faults import Faults
from engine.simulator.log import EngineLog
from engine.simulator.startup import CRASH


class Misbehaviour:
    """Holds the present faults and counts towards them."""

    def __init__(self, faults: Faults, log: EngineLog) -> None:
        self.faults = faults
        self._log = log
        self._answered = 0
        self._hung = False
        self._connections: WeakSet[object] = WeakSet()

    def replace(self, faults: Faults) -> None:
        """Take other faults from now on; counts start again and a hang ends for new requests."""
        self.faults = faults
        self._answered = 0
        self._hung = False

    async def meet(self, request: web.Request) -> None:
        """Let a request pass, or do to it what a fault wants; those that control faults always pass."""
        reused = self._remember_connection(request)
        if request.path.startswith("/sim/"):
            return
        if self._hung:
            await _forever()
        if reused and self.faults.reset_idle and request.transport is not None:
            self.faults = msgspec.structs.replace(self.faults, reset_idle=False)
            request.transport.close()
            # The closed connection cancels this handler.
            await _forever()
        if request.path.startswith("/v1/") and request.method == "POST":
            if self.faults.crash_after is not None and self._answered >= self.faults.crash_after:
                self._crash()
            if self.faults.hang_after is not None and self._answered >= self.faults.hang_after:
                self._hung = True
                await _forever()
            self._answered += 1

    def breaks_stream(self, chunks: int) -> bool:
        """Whether a stream that has sent so many chunks loses its connection now."""
        return self.faults.break_stream_after is not None and chunks >= self.faults.break_stream_after

    def _remember_connection(self, request: web.Request) -> bool:
        """Whether the connection has brought a request before."""
        reused = request.transport in self._connections
        self._connections.add(request.transport)
        return reused

    def _crash(self) -> None:
        for line in CRASH:
            self._log.line("EngineCore", "core.py:1103", line, "ERROR")
        # Past every handler and finaliser, as a process dies whose core is gone.
        os._exit(1)


async def _forever() -> None:
    await asyncio.Event().wait()
