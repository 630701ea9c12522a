from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.supervisor.backoff import History, RestartPolicy, delay_s, is_crash_loop, is_stable

POLICY = RestartPolicy(base_s=1.0, cap_s=60.0, stable_s=120.0, loop_failures=5)


def failures(count: int) -> History:
    history = History()
    for number in range(count):
        history = history.failed(float(number))
    return history


def test_the_ceiling_doubles_up_to_the_cap() -> None:
    waits = [delay_s(failures(count), 1.0, POLICY) for count in range(1, 9)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


@given(st.integers(0, 5_000), st.floats(0.0, 1.0, exclude_max=True))
def test_a_wait_lies_between_half_and_all_of_the_ceiling(count: int, jitter: float) -> None:
    history = History(tuple(map(float, range(count))))
    ceiling = delay_s(history, 1.0, POLICY)
    assert 0 < ceiling / 2 <= delay_s(history, jitter, POLICY) <= ceiling <= POLICY.cap_s


@pytest.mark.parametrize(
    ("ready_for_s", "startup_s", "stable"),
    [(119.9, 1.0, False), (120.0, 1.0, True), (299.0, 150.0, False), (300.0, 150.0, True)],
)
def test_stable_is_two_minutes_or_twice_the_start(ready_for_s: float, startup_s: float, stable: bool) -> None:
    assert is_stable(ready_for_s, startup_s, POLICY) is stable


def test_five_failures_are_a_loop_however_far_apart() -> None:
    history = History()
    for number in range(4):
        history = history.failed(number * 10_000.0)
        assert not is_crash_loop(history, POLICY)
    assert is_crash_loop(history.failed(50_000.0), POLICY)
