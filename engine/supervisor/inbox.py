"""Orders to an engine, and how long waits give way to them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

T = TypeVar("T")

Order = Literal["start", "stop", "restart", "shutdown"]


class Interrupted(Exception):
    """An order came while the engine was left to itself."""


class Inbox:
    """A queue that only its actor takes from.

    Waits are raced against it instead of cancelled from outside: what must not be cut (a launch
    being recorded) simply is not raced.
    """

    def __init__(self, is_idle: Callable[[Order], bool]) -> None:
        self._orders: deque[Order] = deque()
        self._mail = asyncio.Event()
        self._is_idle = is_idle
        """Whether an order asks for what is so already; such ones are dropped, not obeyed."""

    def __bool__(self) -> bool:
        return bool(self._orders)

    def __contains__(self, order: object) -> bool:
        return order in self._orders

    def put(self, order: Order) -> None:
        """Add an order."""
        self._orders.append(order)
        self._mail.set()

    def take(self) -> Order:
        """The oldest order; call only when there is one."""
        return self._orders.popleft()

    async def unless_ordered(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`, or give it up for an order.

        Raises:
            Interrupted: an order that changes something waits.
        """
        task = asyncio.ensure_future(work)
        try:
            while True:
                self._drop_idle()
                mail = asyncio.ensure_future(self._mail.wait())
                try:
                    await asyncio.wait({task, mail}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    mail.cancel()
                if task.done():
                    return task.result()
                self._drop_idle()
                if self._orders:
                    raise Interrupted
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    def _drop_idle(self) -> None:
        while self._orders and self._is_idle(self._orders[0]):
            self._orders.popleft()
        if self._orders:
            self._mail.set()
        else:
            self._mail.clear()
