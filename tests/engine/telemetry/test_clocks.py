from __future__ import annotations

import asyncio

import pytest

from engine.ports import Clock
from engine.telemetry.system_clock import SystemClock
from tests.support.fake_clock import FakeClock


async def test_both_clocks_satisfy_the_protocol() -> None:
    clocks: list[Clock] = [SystemClock(), FakeClock()]
    for clock in clocks:
        before_s = clock.monotonic()
        await clock.sleep(-1.0)
        assert clock.monotonic() >= before_s


async def test_an_advance_runs_a_loop_once_for_each_of_its_sleeps() -> None:
    clock = FakeClock()
    seen_s: list[float] = []

    async def tick() -> None:
        while True:
            await clock.sleep(1.0)
            seen_s.append(clock.monotonic())

    task = asyncio.create_task(tick())
    await clock.advance(3.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen_s == [1_001.0, 1_002.0, 1_003.0]
    assert clock.epoch() == 1_700_000_003.5


async def test_sleepers_wake_earliest_first_and_the_cancelled_do_not_count() -> None:
    clock = FakeClock()
    woken: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    late = asyncio.create_task(sleeper("late", 2.0))
    early = asyncio.create_task(sleeper("early", 1.0))
    gone = asyncio.create_task(sleeper("gone", 1.5))
    await clock.advance(0.0)
    assert clock.sleeping == 3
    gone.cancel()
    await clock.advance(0.5)
    assert (woken, clock.sleeping) == ([], 2)
    await clock.advance(2.0)
    assert woken == ["early", "late"]
    await asyncio.gather(late, early)
