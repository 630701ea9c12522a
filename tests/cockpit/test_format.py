"""Numbers as the operator reads them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit import format as fmt


@pytest.mark.parametrize(
    "write",
    [
        fmt.percent, fmt.count, fmt.whole, fmt.gib, fmt.size, fmt.rate, fmt.gigabytes_per_s, fmt.milliseconds,
        fmt.duration, fmt.clock, fmt.day_and_clock,
    ],
)  # fmt: skip
def test_unknown_is_a_dash(write: object) -> None:
    assert callable(write)
    assert write(None) == "–"
    assert fmt.age(None, 1.0) == "–"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (0.004, "0.00"), (0.42, "0.42"), (9.994, "9.99"), (9.996, "10.0"), (12.44, "12.4"),
        (99.94, "99.9"), (99.96, "100"), (512, "512"), (999.4, "999"), (999.6, "1.00k"), (3_410, "3.41k"),
        (999_400, "999k"), (999_600, "1.00M"), (1_230_000, "1.23M"),
    ],
)  # fmt: skip
def test_rates_have_three_digits(value: float, text: str) -> None:
    assert fmt.rate(value) == text


@given(st.floats(min_value=0.01, max_value=9.9e8))
def test_rates_keep_their_width_and_their_value(value: float) -> None:
    text = fmt.rate(value)
    assert len(text) <= 5
    factor = {"k": 1e3, "M": 1e6}.get(text[-1], 1.0)
    assert math.isclose(float(text.rstrip("kM")) * factor, value, rel_tol=0.006, abs_tol=0.0051)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"), (0, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (3_599, "59 min"), (3_600, "1 h"),
        (8_040, "2 h 14 min"), (86_400, "1 d"), (97_200, "1 d 3 h"),
    ],
)  # fmt: skip
def test_durations_name_the_two_largest_units(seconds: float, text: str) -> None:
    assert fmt.duration(seconds) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (1_023, "1023 B"), (1_024, "1.0 KiB"), (65_712_521_216, "61.2 GiB"), (2**40 * 3, "3.0 TiB")],
)
def test_sizes_carry_their_unit(size_bytes: int, text: str) -> None:
    assert fmt.size(size_bytes) == text


def test_columns_of_memory_ratio_and_links() -> None:
    assert fmt.gib(61.2 * 2**30) == "61.2"
    assert fmt.gib(141 * 2**30) == "141"
    assert fmt.percent(0.583) == "58"
    assert fmt.gigabytes_per_s(41.24e9) == "41.2"
    assert fmt.gigabytes_per_s(212.4e9) == "212"
    assert fmt.milliseconds(0.1714) == "171"
    assert fmt.plural(1, "request") == "1 request"
    assert fmt.plural(2, "request") == "2 requests"


@given(st.text(st.characters(exclude_categories=["C", "M", "Z"]), max_size=30), st.integers(1, 40))
def test_fitted_text_takes_exactly_its_cells(text: str, width: int) -> None:
    assert fmt.cells(fmt.fit(text, width)) == width
    assert fmt.cells(fmt.right(text, width)) == width


def test_what_is_cut_says_so() -> None:
    assert fmt.fit("abcdef", 4) == "abc…"
    assert fmt.fit("日本語", 4) == "日… "
    assert fmt.fit("abcdef", 0) == ""
    assert fmt.right("7", 3) == "  7"
