"""Counts and quantiles over the last minute, in time slots that are overwritten in turn."""

from __future__ import annotations

import math

GAMMA = 1.02
"""Ratio of neighbouring bucket bounds: a quantile is off by at most 1 %."""
_LOG_GAMMA = math.log(GAMMA)
SMALLEST = 1e-6
"""Values below count as this: a microsecond is under what a socket can show."""


class RateWindow:
    """Events per second over the last `span_s` seconds, one slot a second."""

    def __init__(self, start: float, span_s: int = 60) -> None:
        self._start = start
        self._span_s = span_s
        self._slots: dict[int, int] = {}

    def add(self, now: float) -> None:
        """One event at `now`."""
        slot = int(now)
        self._slots[slot] = self._slots.get(slot, 0) + 1
        if len(self._slots) > self._span_s:
            self._slots = {at: count for at, count in self._slots.items() if at > slot - self._span_s}

    def per_second(self, now: float) -> float | None:
        """Rate at `now`; None in the first second, of which no rate can be told."""
        covered_s = min(now - self._start, float(self._span_s))
        if covered_s < 1.0:
            return None
        events = sum(count for at, count in self._slots.items() if at > now - self._span_s)
        return events / covered_s


class QuantileWindow:
    """Quantiles of positive values over the last minute.

    Each slot holds a sketch with logarithmic buckets as in DDSketch (Masson, Rim, Lee, VLDB 2019,
    section 2): bucket i counts values in (g^(i-1), g^i], and 2 g^i / (g + 1) stands for them, which
    is off by at most (g - 1) / (g + 1) of the value.
    """

    def __init__(self, slot_s: float = 5.0, slots: int = 12) -> None:
        self._slot_s = slot_s
        self._slots_kept = slots
        self._slots: dict[int, dict[int, int]] = {}

    def add(self, now: float, value: float) -> None:
        """One value at `now`."""
        slot = int(now // self._slot_s)
        if slot not in self._slots:
            self._slots = {at: kept for at, kept in self._slots.items() if at > slot - self._slots_kept}
            self._slots[slot] = {}
        counts = self._slots[slot]
        bucket = math.ceil(math.log(max(value, SMALLEST)) / _LOG_GAMMA)
        counts[bucket] = counts.get(bucket, 0) + 1

    def quantile(self, now: float, q: float) -> float | None:
        """The `q`-quantile (0 to 1) at `now`, or None without values."""
        oldest = int(now // self._slot_s) - self._slots_kept
        merged: dict[int, int] = {}
        for at, counts in self._slots.items():
            if at > oldest:
                for bucket, count in counts.items():
                    merged[bucket] = merged.get(bucket, 0) + count
        total = sum(merged.values())
        rank = max(1, math.ceil(q * total))
        for bucket in sorted(merged):
            rank -= merged[bucket]
            if rank <= 0:
                return 2 * GAMMA**bucket / (GAMMA + 1)
        return None
