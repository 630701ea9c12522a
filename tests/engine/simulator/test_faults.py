from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import SpecError
from engine.simulator.faults import Faults, parse_faults

faults = st.builds(
    Faults,
    ignore_sigterm=st.booleans(),
    slow_start=st.none() | st.integers(0, 900).map(lambda tenths: tenths / 10),
    oom_at_start=st.booleans(),
    crash_after=st.none() | st.integers(0, 999),
    break_stream_after=st.none() | st.integers(0, 999),
    reset_idle=st.booleans(),
)


@given(faults)
def test_words_written_are_words_read(chosen: Faults) -> None:
    assert parse_faults(chosen.words()) == chosen


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("explode", "unknown fault 'explode'; known: ignore-sigterm"),
        ("crash-after", "needs a number, got ''; write crash-after=3"),
        ("crash-after=soon", "needs a number, got 'soon'"),
        ("crash-after=-1", "not negative"),
        ("slow-start=nan", "not negative"),
        ("reset-idle=2", "takes no number"),
    ],
)
def test_a_wrong_word_is_named_with_the_remedy(word: str, complaint: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_faults([word])
    assert complaint in str(caught.value)


def test_start_only_faults_are_told_apart() -> None:
    chosen = parse_faults(["slow-start=1.5", "hang-after=2", "bad-argument"])
    assert chosen.start_only == ["slow-start=1.5", "bad-argument"]
