"""Events on their way: kept first, then told to whoever listens. None is ever dropped.

One pump task owns the order: an event gets its id from the recorder, and only then reaches the
subscribers, so that a stream that resumes after an id misses nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from engine.events import Event
from engine.ports import Recorder

SUBSCRIBER_LIMIT = 10_000
"""Events a subscriber may lag behind before it is cut off; it resumes by id from the database."""


class Subscription:
    """One listener's queue; `None` ends it."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self.lagged = False

    def _put(self, event: Event | None) -> None:
        if event is not None and self.queue.qsize() >= SUBSCRIBER_LIMIT:
            self.lagged = True
            event = None
        self.queue.put_nowait(event)


class EventBus:
    """Accepts events from anywhere in the node."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._queue: asyncio.Queue[tuple[Event, asyncio.Future[tuple[Event, bool]] | None] | None] = (
            asyncio.Queue()
        )
        self._subscriptions: list[Subscription] = []
        self._closing = False
        self._ended = False

    def post(self, event: Event) -> None:
        """Accept an event without waiting."""
        self._queue.put_nowait((event, None))

    async def record(self, event: Event) -> tuple[Event, bool]:
        """Accept an event and wait until it is kept: the event with its id, and whether it is on disk."""
        if self._ended:
            return await self._recorder.record_event(event)
        kept: asyncio.Future[tuple[Event, bool]] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((event, kept))
        return await kept

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[Subscription]:
        """Hear of every event kept from now on."""
        subscription = Subscription()
        if self._ended:
            subscription._put(None)
        self._subscriptions.append(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.remove(subscription)

    async def run(self) -> None:
        """Pump until `close`; what is accepted before the last is kept, is kept too."""
        while not (self._closing and self._queue.empty()):
            item = await self._queue.get()
            if item is None:
                continue
            event, waiter = item
            kept, durable = await self._recorder.record_event(event)
            if waiter is not None and not waiter.done():
                waiter.set_result((kept, durable))
            for subscription in self._subscriptions:
                if not subscription.lagged:
                    subscription._put(kept)
        self._ended = True
        for subscription in self._subscriptions:
            subscription._put(None)

    def close(self) -> None:
        """Let `run` end once all that was accepted is kept."""
        self._closing = True
        self._queue.put_nowait(None)
