"""The one place where the node's stream becomes messages.

Frames are coalesced to four a second, latest wins; events all come, each once and in order. A stream
that ends is opened again with growing pauses; a node that was lost, rather than stopped by an
operator, is first started again where the cockpit can do that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from textual.message import Message

from cockpit.client import ClientError, NodeApi
from cockpit.messages import EventArrived, FrameArrived, NodeConnected, NodeLost, NodeStopping
from engine.api.schema import EventLine, FrameLine, HelloLine, StoppingLine, StreamLine
from engine.model import Frame

FRAME_INTERVAL_S = 0.25
"""Numbers that change faster are not read, and each frame drawn costs the terminal and an SSH line."""
PAST_EVENTS = 200
"""Events fetched at the start: more than any screen shows at once."""
RETRY_S = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Pauses before the stream is opened again; the last one repeats."""

Revive = Callable[[], Awaitable[None]]
"""Starts the node again; raises with a sentence where it cannot."""


class Bridge:
    """Follows the node for as long as `run` is awaited.

    Args:
        post: takes each message; must not block.
        revive: starts a lost node again, or None where that is not ours to do.
        retry_s: pauses between attempts.
    """

    def __init__(
        self,
        node: NodeApi,
        post: Callable[[Message], object],
        revive: Revive | None = None,
        *,
        retry_s: tuple[float, ...] = RETRY_S,
        frame_interval_s: float = FRAME_INTERVAL_S,
    ) -> None:
        self._node = node
        self._post = post
        self._revive = revive
        self._retry_s = retry_s
        self._frame_interval_s = frame_interval_s
        self._last_event: int | None = None
        self._stopped = False
        """An operator stopped the node: it is not ours to start it again."""
        self._attempt = 0
        self._pending: Frame | None = None
        self._posted_at_s = float("-inf")
        self._flush_timer: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Follow the stream until cancelled."""
        while True:
            try:
                await self._follow()
            except ClientError as error:
                await self._lost(error.message, error.hint)
            else:
                if not self._stopped:
                    await self._lost("the node is gone: its stream ended", "")
            await asyncio.sleep(self._retry_s[min(self._attempt, len(self._retry_s) - 1)])
            self._attempt += 1

    async def _follow(self) -> None:
        if self._last_event is None:
            past = await self._node.events(limit=PAST_EVENTS)
            self._last_event = 0
            for event in reversed(past):
                self._take(EventLine(event))
        try:
            async for line in self._node.stream(self._last_event):
                self._take(line)
        finally:
            # The last thing that is known is shown, with its age.
            self._flush()

    def _take(self, line: StreamLine) -> None:
        match line:
            case HelloLine(node=node):
                self._attempt = 0
                self._stopped = False
                self._post(NodeConnected(node))
            case FrameLine(frame=frame):
                self._offer(frame)
            case EventLine(event=event):
                if event.id is not None:
                    self._last_event = max(self._last_event or 0, event.id)
                self._post(EventArrived(event))
            case StoppingLine(by=by):
                self._stopped = True
                self._post(NodeStopping(by))

    async def _lost(self, problem: str, hint: str) -> None:
        if self._stopped:
            return
        self._post(NodeLost(problem, hint))
        if self._revive is None:
            return
        try:
            await self._revive()
        except Exception as error:  # a worker's boundary: whatever it is, the operator reads it and we go on
            self._post(
                NodeLost(f"{problem}; it cannot be started again: {error}", str(getattr(error, "hint", "")))
            )

    def _offer(self, frame: Frame) -> None:
        self._pending = frame
        wait_s = self._posted_at_s + self._frame_interval_s - time.monotonic()
        if wait_s <= 0:
            self._flush()
        elif self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(wait_s, self._flush)

    def _flush(self) -> None:
        frame, self._pending = self._pending, None
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if frame is not None:
            self._posted_at_s = time.monotonic()
            self._post(FrameArrived(frame))
