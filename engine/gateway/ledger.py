"""What the gateway has counted since its start, and over the last minute."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Literal

from engine.gateway.window import QuantileWindow, RateWindow

Outcome = Literal["2xx", "3xx", "4xx", "5xx", "broken", "cancelled"]
"""Status class of the answer; `broken`: the engine failed after the answer began; `cancelled`: the
client went away."""
Retry = Literal["stale_connection", "other_replica"]

TTFT_BOUNDS_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
"""Those of `vllm:time_to_first_token_seconds`, so that both can be laid over each other."""


def outcome_of(status: int) -> Outcome:
    """The status class."""
    if status < 300:
        return "2xx"
    if status < 400:
        return "3xx"
    return "4xx" if status < 500 else "5xx"


class Ledger:
    """Counters of the inference endpoints. Times are monotonic seconds."""

    def __init__(self, now: float) -> None:
        self.started_total = 0
        self.finished: Counter[tuple[str, str, Outcome]] = Counter()
        """Requests by deployment (empty where none was found), endpoint and outcome."""
        self.retries: Counter[Retry] = Counter()
        self.received_bytes: Counter[str] = Counter()
        """Request bodies by deployment."""
        self.sent_bytes: Counter[str] = Counter()
        """Answer bodies by deployment."""
        self.ttft_counts = [0] * (len(TTFT_BOUNDS_S) + 1)
        """Streamed answers by bucket of their time to first byte; the last one is above all bounds."""
        self.ttft_sum_s = 0.0
        self._requests = RateWindow(now)
        self._ttft = QuantileWindow()

    @property
    def errors_total(self) -> int:
        """Requests that the gateway or an engine failed; mistakes and hang-ups of clients are not."""
        return sum(count for (_, _, outcome), count in self.finished.items() if outcome in ("5xx", "broken"))

    def start(self, now: float) -> None:
        """A request came."""
        self.started_total += 1
        self._requests.add(now)

    def finish(self, deployment: str, endpoint: str, outcome: Outcome, sent_bytes: int) -> None:
        """A request is over."""
        self.finished[deployment, endpoint, outcome] += 1
        self.sent_bytes[deployment] += sent_bytes

    def first_byte(self, now: float, ttft_s: float) -> None:
        """The first byte of a streamed answer went out."""
        self.ttft_counts[bisect_left(TTFT_BOUNDS_S, ttft_s)] += 1
        self.ttft_sum_s += ttft_s
        self._ttft.add(now, ttft_s)

    def requests_per_s(self, now: float) -> float | None:
        """Over the last minute, or since the start."""
        return self._requests.per_second(now)

    def ttft_p95_s(self, now: float) -> float | None:
        """Over the last minute; None without a streamed answer."""
        return self._ttft.quantile(now, 0.95)
