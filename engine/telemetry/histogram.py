"""Sums over a sliding window, and percentiles from a Prometheus histogram's buckets."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class DeltaWindow(Generic[K]):
    """What counters gained in the last `span_s`, per key: buckets, or the two sides of a ratio.

    Pure: told the time. Holds one entry per scrape with a gain, so 60 at most for a minute at 1 Hz.
    """

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._entries: deque[tuple[float, Mapping[K, float]]] = deque()

    def add(self, now_s: float, gained: Mapping[K, float]) -> None:
        """Count `gained`, seen at `now_s` (monotonic)."""
        if any(gained.values()):
            self._entries.append((now_s, gained))

    def sums(self, now_s: float) -> dict[K, float]:
        """Gains not older than the span; keys without any may be missing."""
        while self._entries and self._entries[0][0] <= now_s - self._span_s:
            self._entries.popleft()
        sums: dict[K, float] = {}
        for _, gained in self._entries:
            for key, value in gained.items():
                sums[key] = sums.get(key, 0.0) + value
        return sums


def quantile(q: float, buckets: Mapping[float, float]) -> float | None:
    """The q-quantile of cumulative buckets (upper bound → observations at or below it).

    As Prometheus' `histogram_quantile` does: linear within the bucket that holds the rank, the first
    bucket starting at 0, so the error is at most that bucket's width. A rank in the `+Inf` bucket gives
    the highest finite bound, which the true value exceeds. None without observations or without `+Inf`.
    https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile
    """
    total = buckets.get(math.inf, 0.0)
    if total <= 0.0:
        return None
    rank = q * total
    lower = below = 0.0
    for upper in sorted(buckets):
        if upper == math.inf:
            break
        # A page is not one instant: a bucket read a moment earlier may lag the one under it.
        count = max(buckets[upper], below)
        if count >= rank and count > below:
            return lower + (upper - lower) * (rank - below) / (count - below)
        lower, below = upper, count
    return lower if lower > 0.0 else None
