"""The last events, for screens that list them."""

from __future__ import annotations

from collections import deque

from engine.events import Event

KEPT_EVENTS = 500
"""More than a tall terminal shows; the node has them all."""


class EventHistory:
    """Events in the order in which they came, the oldest dropped."""

    def __init__(self, kept: int = KEPT_EVENTS) -> None:
        self._events: deque[Event] = deque(maxlen=kept)

    def add(self, event: Event) -> None:
        """One more; a repeated one is not listed twice."""
        if event.id is None or not self._events or (self._events[-1].id or 0) < event.id:
            self._events.append(event)

    def newest(self, count: int) -> list[Event]:
        """Up to `count`, newest first."""
        return [self._events[-1 - index] for index in range(min(count, len(self._events)))]
