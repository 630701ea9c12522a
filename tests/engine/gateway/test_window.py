"""Rates and quantiles of the last minute."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.gateway.window import QuantileWindow, RateWindow


def test_no_rate_is_told_in_the_first_second() -> None:
    window = RateWindow(start=10.0)
    window.add(10.1)
    assert window.per_second(10.9) is None
    assert window.per_second(12.0) == 0.5


def test_a_quiet_window_has_rate_zero() -> None:
    assert RateWindow(start=0.0).per_second(100.0) == 0.0


def test_a_rate_forgets_what_is_older_than_its_span() -> None:
    window = RateWindow(start=0.0, span_s=60)
    for _ in range(120):
        window.add(5.0)
    assert window.per_second(60.0) == 2.0
    assert window.per_second(70.0) == 0.0


@given(st.lists(st.floats(0.0, 300.0), max_size=200))
def test_a_rate_never_counts_an_event_twice_and_keeps_the_last_span(times: list[float]) -> None:
    window = RateWindow(start=0.0, span_s=60)
    for at in sorted(times):
        window.add(at)
    rate = window.per_second(400.0 - 60.0)
    inside = sum(1 for at in times if at > 281.0)
    assert rate is not None
    assert inside / 60 <= rate <= sum(1 for at in times if at >= 280.0) / 60


def test_without_values_there_is_no_quantile() -> None:
    window = QuantileWindow()
    assert window.quantile(0.0, 0.95) is None
    window.add(0.0, 1.0)
    assert window.quantile(100.0, 0.95) is None


@given(st.lists(st.floats(1e-5, 1e4), min_size=1, max_size=300), st.sampled_from([0.0, 0.5, 0.95, 1.0]))
def test_a_quantile_is_within_one_percent(values: list[float], q: float) -> None:
    window = QuantileWindow()
    for value in values:
        window.add(7.0, value)
    exact = sorted(values)[max(1, math.ceil(q * len(values))) - 1]
    assert window.quantile(7.0, q) == pytest.approx(exact, rel=0.01)


def test_a_quantile_covers_the_last_minute_only() -> None:
    window = QuantileWindow()
    window.add(0.0, 100.0)
    window.add(30.0, 1.0)
    assert window.quantile(30.0, 1.0) == pytest.approx(100.0, rel=0.01)
    for at in range(31, 90):
        window.add(float(at), 1.0)
    assert window.quantile(89.0, 1.0) == pytest.approx(1.0, rel=0.01)


def test_a_value_of_zero_is_counted() -> None:
    window = QuantileWindow()
    window.add(0.0, 0.0)
    assert window.quantile(0.0, 0.5) == pytest.approx(1e-6, rel=0.01)
