"""How a simulated engine spends its time: a pure model, stepped by a clock from outside.

It follows vLLM's V1 scheduler: sequences that run are served first, in order, one token each or a
chunk of their prompt; then waiting ones are admitted while the window (`max_num_seqs`), the token
budget and the KV blocks allow. When a running sequence needs a block and none is free, the youngest
running one is preempted: its blocks are released and its tokens are computed again later. A step
that completes a prompt also yields the first token.

A step with `n` decoding sequences and `p` prompt tokens takes

    max(base, [n > 0] * (base + per_seq * (n - 1)) + p / prefill_tokens_per_s)

with `base = decode_base_s` (one pass over the weights) and `per_seq = decode_per_seq_s` (reading
that sequence's KV cache). Nothing here reads a clock, sleeps, logs or draws random numbers: the
server paces it on the wall clock, benches run it in virtual time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import msgspec

from engine.errors import SpecError
from engine.model import SimulatedEngine
from engine.simulator.blocks import BlockPool, BlockTable

TOKEN_BUDGET = 2_048
"""Tokens a step computes at most: vLLM's default `max_num_batched_tokens`."""


class Request(msgspec.Struct, frozen=True):
    """What an engine is asked for."""

    id: str
    prompt_tokens: int
    output_tokens: int
    """Tokens that the answer has; the model makes exactly so many."""
    block_hashes: tuple[int, ...] = ()
    """Hashes of the full blocks of the prompt, then of the answer, as far as they are known."""


class Emitted(msgspec.Struct, frozen=True):
    """One token of one sequence."""

    id: str
    number: int
    """1 is the first."""
    gap_s: float
    """Since the previous token; for the first since arrival (TTFT)."""


class Finished(msgspec.Struct, frozen=True):
    """A sequence that is complete, and where its time went."""

    id: str
    prompt_tokens: int
    cached_tokens: int
    """Prompt tokens found in the prefix cache when it was first admitted."""
    output_tokens: int
    preemptions: int
    e2e_s: float
    queue_s: float
    """From arrival to first admission."""
    prefill_s: float
    """From first admission to the first token."""
    decode_s: float
    """From the first to the last token."""


class StepResult(msgspec.Struct, frozen=True):
    """One engine step. Its tokens are out at `ended_s`, when the next step can start."""

    started_s: float
    ended_s: float
    emitted: tuple[Emitted, ...]
    finished: tuple[Finished, ...]
    preempted: tuple[str, ...]
    prefill_tokens: int
    """Prompt tokens computed, those of preempted sequences included."""
    prompts: tuple[tuple[int, int], ...]
    """Prompts that were completed for the first time: (tokens, of which cached)."""
    cache_queries: int
    """Prompt tokens looked up in the prefix cache by newly admitted sequences."""
    cache_hits: int
    """Of those, found."""


@dataclass(slots=True, eq=False)
class _Sequence:
    request: Request
    arrived_s: float
    table: BlockTable = field(default_factory=BlockTable)
    computed: int = 0
    produced: int = 0
    cached: int = 0
    preemptions: int = 0
    admitted_s: float | None = None
    first_token_s: float = 0.0
    last_token_s: float = 0.0

    @property
    def pending(self) -> int:
        """Tokens to compute before the next one can be sampled."""
        return self.request.prompt_tokens + self.produced - self.computed

    @property
    def decoding(self) -> bool:
        return self.produced > 0 and self.pending == 1


@dataclass(slots=True)
class _Plan:
    """What one step computes, while it is put together."""

    budget: int
    chunks: list[tuple[_Sequence, int]] = field(default_factory=list)
    preempted: list[str] = field(default_factory=list)
    cache_queries: int = 0
    cache_hits: int = 0


class EngineModel:
    """One engine.

    Raises:
        SpecError: the KV cache cannot hold one sequence of `max_model_len`, which vLLM refuses too.
    """

    def __init__(self, timing: SimulatedEngine, token_budget: int = TOKEN_BUDGET) -> None:
        self.timing = timing
        self.pool = BlockPool(timing.kv_blocks)
        # A budget under the window would starve the youngest sequences; vLLM refuses it.
        self._budget = max(token_budget, timing.max_num_seqs)
        self._running: list[_Sequence] = []
        self._waiting: deque[_Sequence] = deque()
        self._ids: set[str] = set()
        if self.pool.usable * timing.block_tokens < timing.max_model_len:
            raise SpecError(
                f"kv_blocks = {timing.kv_blocks} of {timing.block_tokens} tokens cannot hold one sequence of "
                f"max_model_len = {timing.max_model_len}",
                "raise kv_blocks or lower max_model_len",
            )

    @property
    def running(self) -> int:
        """Sequences in the batch."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Sequences in the queue, preempted ones included."""
        return len(self._waiting)

    @property
    def busy(self) -> bool:
        """Whether a step has anything to do."""
        return bool(self._running or self._waiting)

    @property
    def kv_used_ratio(self) -> float:
        """Blocks that sequences hold, of all usable; cached free ones count as free, as in vLLM."""
        return self.pool.referenced / self.pool.usable

    def add(self, request: Request, now: float) -> None:
        """Queue a request.

        Raises:
            ValueError: it asks for no token, for more than `max_model_len`, or its id is in use.
        """
        total = request.prompt_tokens + request.output_tokens
        if request.prompt_tokens < 1 or request.output_tokens < 1 or total > self.timing.max_model_len:
            raise ValueError(
                f"request {request.id}: {request.prompt_tokens} prompt and {request.output_tokens} answer "
                f"tokens must each be positive and at most {self.timing.max_model_len} together"
            )
        if request.id in self._ids:
            raise ValueError(f"request {request.id} is queued or running already")
        self._ids.add(request.id)
        self._waiting.append(_Sequence(request, arrived_s=now))

    def cancel(self, request_id: str) -> bool:
        """Drop a request, wherever it is; False when it is not (or no longer) there."""
        if request_id not in self._ids:
            return False
        self._ids.remove(request_id)
        for queue in (self._running, self._waiting):
            for sequence in queue:
                if sequence.request.id == request_id:
                    queue.remove(sequence)
                    self.pool.release(sequence.table)
                    return True
        return False

    def step(self, now: float) -> StepResult | None:
        """Compute one step from `now` on; None when there is nothing to do."""
        if not self.busy:
            return None
        plan = _Plan(self._budget)
        self._continue_running(plan)
        if not plan.preempted:
            self._admit(plan, now)
        decoding = sum(sequence.decoding for sequence, _ in plan.chunks)
        prefill_tokens = sum(chunk for sequence, chunk in plan.chunks if not sequence.decoding)
        ended_s = now + self._duration_s(decoding, prefill_tokens)
        emitted: list[Emitted] = []
        finished: list[Finished] = []
        prompts: list[tuple[int, int]] = []
        for sequence, chunk in plan.chunks:
            sequence.computed += chunk
            self._publish_full_blocks(sequence)
            if sequence.pending == 0:
                if sequence.produced == 0:
                    prompts.append((sequence.request.prompt_tokens, sequence.cached))
                emitted.append(_emit(sequence, ended_s))
                if sequence.produced == sequence.request.output_tokens:
                    finished.append(self._finish(sequence))
        return StepResult(
            started_s=now,
            ended_s=ended_s,
            emitted=tuple(emitted),
            finished=tuple(finished),
            preempted=tuple(plan.preempted),
            prefill_tokens=prefill_tokens,
            prompts=tuple(prompts),
            cache_queries=plan.cache_queries,
            cache_hits=plan.cache_hits,
        )

    def _duration_s(self, decoding: int, prefill_tokens: int) -> float:
        timing = self.timing
        decode_s = timing.decode_base_s + timing.decode_per_seq_s * (decoding - 1) if decoding else 0.0
        return max(timing.decode_base_s, decode_s + prefill_tokens / timing.prefill_tokens_per_s)

    def _continue_running(self, plan: _Plan) -> None:
        index = 0
        while index < len(self._running) and plan.budget > 0:
            sequence = self._running[index]
            chunk = min(sequence.pending, plan.budget)
            fresh = self._missing_blocks(sequence, sequence.computed + chunk)
            while not self.pool.fits((), fresh):
                victim = self._running.pop()
                self._preempt(victim)
                plan.preempted.append(victim.request.id)
                if victim is sequence:
                    return
            self.pool.grow(sequence.table, fresh)
            plan.chunks.append((sequence, chunk))
            plan.budget -= chunk
            index += 1

    def _admit(self, plan: _Plan, now: float) -> None:
        block_tokens = self.timing.block_tokens
        while self._waiting and len(self._running) < self.timing.max_num_seqs and plan.budget > 0:
            sequence = self._waiting[0]
            # The last token is always computed, since the next one is sampled from it.
            hits = self.pool.cached_prefix(
                sequence.request.block_hashes, (sequence.pending - 1) // block_tokens
            )
            shared = sequence.request.block_hashes[:hits]
            chunk = min(sequence.pending - hits * block_tokens, plan.budget)
            fresh = -(-(hits * block_tokens + chunk) // block_tokens) - hits
            if not self.pool.fits(shared, fresh):
                return
            self._running.append(self._waiting.popleft())
            self.pool.share(sequence.table, shared)
            self.pool.grow(sequence.table, fresh)
            sequence.computed = hits * block_tokens
            if sequence.admitted_s is None:
                sequence.admitted_s = now
                sequence.cached = sequence.computed
                plan.cache_queries += sequence.request.prompt_tokens
                plan.cache_hits += sequence.cached
            plan.chunks.append((sequence, chunk))
            plan.budget -= chunk

    def _missing_blocks(self, sequence: _Sequence, tokens: int) -> int:
        return max(0, -(-tokens // self.timing.block_tokens) - sequence.table.size)

    def _publish_full_blocks(self, sequence: _Sequence) -> None:
        hashes = sequence.request.block_hashes
        full = min(sequence.computed // self.timing.block_tokens, len(hashes))
        while sequence.table.hashed < full:
            self.pool.publish(sequence.table, hashes[sequence.table.hashed])

    def _preempt(self, sequence: _Sequence) -> None:
        self.pool.release(sequence.table)
        sequence.computed = 0
        sequence.preemptions += 1
        self._waiting.appendleft(sequence)

    def _finish(self, sequence: _Sequence) -> Finished:
        self._running.remove(sequence)
        self._ids.remove(sequence.request.id)
        self.pool.release(sequence.table)
        admitted_s = sequence.arrived_s if sequence.admitted_s is None else sequence.admitted_s
        return Finished(
            id=sequence.request.id,
            prompt_tokens=sequence.request.prompt_tokens,
            cached_tokens=sequence.cached,
            output_tokens=sequence.produced,
            preemptions=sequence.preemptions,
            e2e_s=sequence.last_token_s - sequence.arrived_s,
            queue_s=admitted_s - sequence.arrived_s,
            prefill_s=sequence.first_token_s - admitted_s,
            decode_s=sequence.last_token_s - sequence.first_token_s,
        )


def _emit(sequence: _Sequence, at_s: float) -> Emitted:
    previous_s = sequence.last_token_s if sequence.produced else sequence.arrived_s
    sequence.produced += 1
    sequence.last_token_s = at_s
    if sequence.produced == 1:
        sequence.first_token_s = at_s
    return Emitted(id=sequence.request.id, number=sequence.produced, gap_s=at_s - previous_s)
