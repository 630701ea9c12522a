"""The newest frame, to whoever watches."""

from __future__ import annotations

import asyncio

from engine.model import Frame


class FrameHub:
    """Latest wins: a slow watcher misses frames and never holds up the others."""

    def __init__(self) -> None:
        self._latest: Frame | None = None
        self._number = 0
        self._arrived = asyncio.Event()

    @property
    def latest(self) -> Frame | None:
        """The newest frame; None before the first."""
        return self._latest

    def publish(self, frame: Frame) -> None:
        """Make a frame the newest."""
        self._latest = frame
        self._number += 1
        self._arrived.set()
        self._arrived = asyncio.Event()

    async def after(self, number: int) -> tuple[int, Frame]:
        """The newest frame once there is one beyond `number`; begin with 0."""
        while self._latest is None or self._number <= number:
            await self._arrived.wait()
        return self._number, self._latest
