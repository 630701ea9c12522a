from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.simulator.traffic import MAX_SESSIONS, MAX_TURNS, PERIOD_S, Arrival, Traffic


def _drive(traffic: Traffic, count: int) -> list[Arrival]:
    """Arrivals that are each answered before the next."""
    arrivals = []
    for _ in range(count):
        arrivals.append(traffic.next())
        traffic.answered(arrivals[-1].session, "An answer.")
    return arrivals


@settings(deadline=None, max_examples=15)
@given(st.integers(), st.floats(0.05, 5.0))
def test_equal_seeds_give_equal_traffic_in_order_of_time(seed: int, rate_per_s: float) -> None:
    arrivals = _drive(Traffic(rate_per_s, seed, 100.0), 40)
    assert arrivals == _drive(Traffic(rate_per_s, seed, 100.0), 40)
    times = [arrival.at_s for arrival in arrivals]
    assert times == sorted(times)
    assert times[0] > 100.0
    assert all(8 <= arrival.max_tokens <= 320 for arrival in arrivals)


def test_the_mean_rate_is_the_one_asked_for() -> None:
    arrivals = _drive(Traffic(2.0, 7, 0.0), 4_000)
    assert 4_000 / arrivals[-1].at_s == pytest.approx(2.0, rel=0.1)


def test_the_rate_swings_over_minutes() -> None:
    traffic = Traffic(1.0, 7, 0.0)
    rates = [traffic.rate_at(second) for second in range(int(PERIOD_S))]
    assert min(rates) == pytest.approx(0.4, abs=0.01)
    assert max(rates) == pytest.approx(1.6, abs=0.01)


def test_a_session_goes_on_with_its_history_and_ends_after_its_turns() -> None:
    arrivals = _drive(Traffic(1.0, 3, 0.0), 400)
    last: dict[int, Arrival] = {}
    for arrival in arrivals:
        if before := last.get(arrival.session):
            assert arrival.messages[: len(before.messages)] == before.messages
            assert arrival.messages[-2] == ("assistant", "An answer.")
        last[arrival.session] = arrival
    turns = [sum(role == "user" for role, _ in arrival.messages) for arrival in last.values()]
    assert 1 < max(turns) <= MAX_TURNS


def test_sessions_share_few_system_prompts() -> None:
    arrivals = _drive(Traffic(1.0, 3, 0.0), 200)
    assert len({arrival.messages[0] for arrival in arrivals}) <= 4


def test_a_failed_session_does_not_come_again() -> None:
    traffic = Traffic(1.0, 3, 0.0)
    seen = set()
    for _ in range(50):
        arrival = traffic.next()
        assert arrival.session not in seen
        seen.add(arrival.session)
        traffic.failed(arrival.session)
    assert traffic.sessions == 0


def test_open_sessions_are_bounded() -> None:
    traffic = Traffic(1.0, 3, 0.0)
    arrivals = [traffic.next() for _ in range(200)]
    for arrival in arrivals:
        traffic.answered(arrival.session, "An answer.")
    assert traffic.sessions <= MAX_SESSIONS
