"""The effect around the pure model: it lets steps pass on the wall clock and hands out their tokens."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from engine.ports import Clock
from engine.simulator.metrics import EngineMetrics
from engine.simulator.timing import EngineModel, Finished, Request, StepResult


@dataclass(slots=True, eq=False)
class Generation:
    """One request under way: how far it is, for the handler that answers it."""

    request: Request
    finish_reason: str
    """What to say at its end: `stop` or `length`."""
    max_tokens: int | None
    produced: int = 0
    cached_tokens: int = 0
    finished: Finished | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def more(self, seen: int) -> int:
        """Wait until more than `seen` tokens are out; tokens now out, the same number at the end."""
        while self.produced <= seen and self.finished is None:
            self._changed.clear()
            await self._changed.wait()
        return self.produced

    async def complete(self) -> Finished:
        """Wait for the end."""
        while self.finished is None:
            self._changed.clear()
            await self._changed.wait()
        return self.finished

    def advance(self, produced: int) -> None:
        """So many tokens are out."""
        self.produced = produced
        self._changed.set()

    def end(self, finished: Finished) -> None:
        """All are out."""
        self.finished = finished
        self._changed.set()


class Pacer:
    """Owns the model. `run` is to be kept as a task; `submit` and `abort` are for handlers."""

    def __init__(self, model: EngineModel, metrics: EngineMetrics, clock: Clock) -> None:
        self._model = model
        self._metrics = metrics
        self._clock = clock
        self._work = asyncio.Event()
        self._generations: dict[str, Generation] = {}

    def submit(self, generation: Generation) -> None:
        """Queue a request.

        Raises:
            ValueError: the model refuses it.
        """
        self._model.add(generation.request, self._clock.monotonic())
        self._generations[generation.request.id] = generation
        self._work.set()

    def abort(self, request_id: str) -> None:
        """Drop a request that nobody waits for; nothing happens when it is complete."""
        if self._generations.pop(request_id, None) is not None:
            self._model.cancel(request_id)
            self._metrics.observe_abort()

    async def run(self) -> None:
        """Step for ever."""
        while True:
            result = self._model.step(self._clock.monotonic())
            if result is None:
                self._work.clear()
                await self._work.wait()
                continue
            await self._clock.sleep(result.ended_s - self._clock.monotonic())
            self._hand_out(result)

    def _hand_out(self, result: StepResult) -> None:
        self._metrics.observe_step(result)
        for token in result.emitted:
            if generation := self._generations.get(token.id):
                generation.advance(token.number)
        for finished in result.finished:
            if generation := self._generations.pop(finished.id, None):
                self._metrics.observe_finished(finished, generation.finish_reason, generation.max_tokens)
                generation.end(finished)
