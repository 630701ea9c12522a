"""When to try again, and when to stop trying."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Capped exponential back-off with jitter, and quarantine after a crash loop."""

    base_s: float = 1.0
    """Longest wait before the first retry."""
    cap_s: float = 60.0
    """Longest wait of all: an operator who fixed the cause should not wait longer than a minute."""
    stable_s: float = 120.0
    """Ready for this long (or twice the start-up, if longer) forgets earlier failures."""
    loop_failures: int = 5
    """This many failures without stable running in between are a crash loop, however long each took:
    a start of vLLM may fail only after minutes, so no window of time tells a loop from bad luck."""


@dataclass(frozen=True, slots=True)
class History:
    """Unexpected ends of one engine since it last ran stably, newest last, monotonic seconds."""

    failures_at: tuple[float, ...] = ()

    def failed(self, now: float) -> History:
        """With one more failure."""
        return History((*self.failures_at, now))


def is_stable(ready_for_s: float, startup_s: float, policy: RestartPolicy) -> bool:
    """Whether an engine has run long enough for its earlier failures to be forgotten."""
    return ready_for_s >= max(policy.stable_s, 2 * startup_s)


def is_crash_loop(history: History, policy: RestartPolicy) -> bool:
    """Whether to stop trying."""
    return len(history.failures_at) >= policy.loop_failures


def delay_s(history: History, jitter: float, policy: RestartPolicy) -> float:
    """Wait before the next start, seconds.

    Args:
        jitter: uniform in [0, 1); the wait lies between half of the capped exponential and all of
            it, so that engines which failed together do not start together, and none starts at once.
    """
    failures = max(1, len(history.failures_at))
    ceiling = min(policy.cap_s, policy.base_s * 2.0 ** min(failures - 1, 32))
    return ceiling * (0.5 + 0.5 * jitter)
