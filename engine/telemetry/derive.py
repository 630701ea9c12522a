"""From two scrapes of an engine's metrics to what an operator reads.

Names and meaning: vLLM's `v1/metrics/loggers.py`. A series per `engine` label (data parallel) is summed,
KV use averaged. Counters that fell started again from zero, so the new value is what they gained.
Whatever the page lacks, or states as NaN, is None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from engine.model import EngineReading
from engine.telemetry.exposition import Sample
from engine.telemetry.histogram import DeltaWindow, quantile

WINDOW_S = 60.0
"""Span of percentiles and of the prefix hit ratio: at 1 Hz single intervals hold too few requests."""

_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"
_KV_USED = "vllm:kv_cache_usage_perc"
_GENERATED = "vllm:generation_tokens_total"
_PROMPT = "vllm:prompt_tokens_total"
_FINISHED = "vllm:request_success_total"  # counts every end, aborted and failed ones too
_PREFIX_QUERIES = "vllm:prefix_cache_queries_total"
_PREFIX_HITS = "vllm:prefix_cache_hits_total"
_STEPS = "vllm:iteration_tokens_total_count"  # a histogram in spite of its name
_TTFT = "vllm:time_to_first_token_seconds_bucket"
_ITL = "vllm:inter_token_latency_seconds_bucket"
_CACHE_CONFIG = "vllm:cache_config_info"

_COUNTERS = (_GENERATED, _PROMPT, _FINISHED, _PREFIX_QUERIES, _PREFIX_HITS, _TTFT, _ITL)
WANTED = frozenset({_RUNNING, _WAITING, _KV_USED, _STEPS, _CACHE_CONFIG, *_COUNTERS})
"""The names to ask `engine.telemetry.exposition` for."""

_SeriesKey = tuple[str, frozenset[tuple[str, str]]]


class Scrape(msgspec.Struct, frozen=True):
    """One page, with the moment it was asked for."""

    at_s: float
    """UTC epoch."""
    monotonic_s: float
    """For the length of intervals."""
    samples: Sequence[Sample]


class Derivation:
    """Turns the scrapes of one engine process into readings, one after another.

    Pure: its only state is the previous scrape's counters and two sliding windows. Use a new one for a
    new process.
    """

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._previous_s: float | None = None
        self._counters: dict[_SeriesKey, float] = {}
        self._ttft = DeltaWindow[float](window_s)
        self._itl = DeltaWindow[float](window_s)
        self._prefix = DeltaWindow[str](window_s)

    def step(self, scrape: Scrape) -> EngineReading:
        """The reading at `scrape`; rates cover the time since the scrape before, None at the first."""
        now_s = scrape.monotonic_s
        gains = self._gains(scrape)
        interval_s = None if self._previous_s is None else now_s - self._previous_s
        self._previous_s = now_s
        if interval_s is not None:
            self._ttft.add(now_s, _by_bound(gains, _TTFT))
            self._itl.add(now_s, _by_bound(gains, _ITL))
            hits = _total(value for series, value in gains if series.name == _PREFIX_HITS)
            queries = _total(value for series, value in gains if series.name == _PREFIX_QUERIES)
            if hits is not None and queries is not None:
                self._prefix.add(now_s, {"hits": hits, "queries": queries})

        def rate(name: str) -> float | None:
            gained = _total(value for series, value in gains if series.name == name)
            return gained / interval_s if gained is not None and interval_s else None

        prefix = self._prefix.sums(now_s)
        running, waiting = _values(scrape, _RUNNING), _values(scrape, _WAITING)
        kv_used = _values(scrape, _KV_USED)
        return EngineReading(
            at_s=scrape.at_s,
            running=round(sum(running)) if running else None,
            waiting=round(sum(waiting)) if waiting else None,
            kv_used_ratio=sum(kv_used) / len(kv_used) if kv_used else None,
            generation_tokens_per_s=rate(_GENERATED),
            prompt_tokens_per_s=rate(_PROMPT),
            requests_per_s=rate(_FINISHED),
            ttft_p95_s=quantile(0.95, self._ttft.sums(now_s)),
            itl_p95_s=quantile(0.95, self._itl.sums(now_s)),
            prefix_hit_ratio=prefix["hits"] / prefix["queries"] if prefix.get("queries") else None,
            steps_total=_total(_values(scrape, _STEPS)),
            kv_blocks=_kv_blocks(scrape),
        )

    def _gains(self, scrape: Scrape) -> list[tuple[Sample, float]]:
        """Each counter of the page with what it gained; a series not there before gained its whole value."""
        counters: dict[_SeriesKey, float] = {}
        gains: list[tuple[Sample, float]] = []
        for sample in scrape.samples:
            if sample.name not in _COUNTERS or not math.isfinite(sample.value):
                continue
            key = (sample.name, frozenset(sample.labels.items()))
            before = self._counters.get(key, 0.0)
            counters[key] = sample.value
            gains.append((sample, sample.value - before if sample.value >= before else sample.value))
        self._counters = counters
        return gains


def _by_bound(gains: Iterable[tuple[Sample, float]], name: str) -> dict[float, float]:
    """Cumulative bucket gains by upper bound, summed over engines."""
    buckets: dict[float, float] = {}
    for sample, gained in gains:
        if sample.name == name:
            try:
                bound = float(sample.labels["le"])
            except (KeyError, ValueError):
                continue
            buckets[bound] = buckets.get(bound, 0.0) + gained
    return buckets


def _values(scrape: Scrape, name: str) -> list[float]:
    return [sample.value for sample in scrape.samples if sample.name == name and math.isfinite(sample.value)]


def _total(values: Iterable[float]) -> float | None:
    found = list(values)
    return sum(found) if found else None


def _kv_blocks(scrape: Scrape) -> int | None:
    """KV blocks of all engines: vLLM states the sum on every engine's own series, so the largest is it."""
    counts = [
        int(blocks)
        for sample in scrape.samples
        if sample.name == _CACHE_CONFIG and (blocks := sample.labels.get("num_gpu_blocks", "")).isdecimal()
    ]
    return max(counts, default=None)
