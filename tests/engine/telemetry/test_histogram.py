from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.telemetry.histogram import DeltaWindow, quantile

BOUNDS = (0.01, 0.1, 1.0, 10.0)


def cumulative(observations: list[float]) -> dict[float, float]:
    return {bound: float(sum(x <= bound for x in observations)) for bound in (*BOUNDS, math.inf)}


def test_a_quantile_is_linear_within_its_bucket() -> None:
    assert quantile(0.5, {1.0: 4.0, 2.0: 12.0, math.inf: 12.0}) == pytest.approx(1.25)


def test_the_first_bucket_starts_at_zero() -> None:
    assert quantile(0.5, {1.0: 10.0, math.inf: 10.0}) == pytest.approx(0.5)


def test_beyond_the_last_bound_the_bound_is_given() -> None:
    assert quantile(0.95, {1.0: 1.0, 2.0: 1.0, math.inf: 10.0}) == 2.0


def test_nothing_observed_is_unknown() -> None:
    assert quantile(0.95, {}) is None
    assert quantile(0.95, {1.0: 0.0, math.inf: 0.0}) is None
    assert quantile(0.95, {math.inf: 3.0}) is None


@given(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=50), st.floats(0.01, 0.99))
def test_the_error_is_at_most_the_width_of_the_bucket(observations: list[float], q: float) -> None:
    found = quantile(q, cumulative(observations))
    true = sorted(observations)[math.ceil(q * len(observations)) - 1]
    assert found is not None
    upper = next(bound for bound in BOUNDS if bound >= true)
    lower = max((bound for bound in BOUNDS if bound < upper), default=0.0)
    assert lower <= found <= upper


def test_a_window_forgets_what_is_older_than_its_span() -> None:
    window = DeltaWindow[str](60.0)
    window.add(0.0, {"hits": 1.0})
    window.add(30.0, {"hits": 2.0, "queries": 4.0})
    assert window.sums(59.0) == {"hits": 3.0, "queries": 4.0}
    assert window.sums(60.0) == {"hits": 2.0, "queries": 4.0}
    assert window.sums(90.0) == {}
