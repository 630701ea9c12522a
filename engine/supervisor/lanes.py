"""One start at a time on each GPU.

vLLM sizes its KV cache from the device's free memory while it starts; two that start together on
one device mis-size each other (vllm-project/vllm#55827).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager


class StartLanes:
    """A turn per GPU."""

    def __init__(self) -> None:
        self._lanes: dict[str, asyncio.Lock] = {}

    def busy(self, gpu_uuids: Iterable[str]) -> bool:
        """Whether another start holds one of these GPUs."""
        return any(self._lanes[uuid].locked() for uuid in gpu_uuids if uuid in self._lanes)

    @asynccontextmanager
    async def turn(self, gpu_uuids: Iterable[str]) -> AsyncIterator[None]:
        """Hold all of these GPUs; taken in sorted order, so that two groups never wait for each other."""
        async with AsyncExitStack() as held:
            for uuid in sorted(set(gpu_uuids)):
                await held.enter_async_context(self._lanes.setdefault(uuid, asyncio.Lock()))
            yield
