from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest

from engine import event_bus
from engine.event_bus import EventBus, Subscription
from engine.events import Event
from engine.model import ExitCause, Frame


class SlowRecorder:
    """Gives ids in the order of keeping; keeps nothing while the gate is shut."""

    def __init__(self) -> None:
        self.kept: list[Event] = []
        self.durable = True
        self.gate = asyncio.Event()
        self.gate.set()

    async def record_event(self, event: Event) -> tuple[Event, bool]:
        await self.gate.wait()
        self.kept.append(msgspec.structs.replace(event, id=len(self.kept) + 1))
        return self.kept[-1], self.durable

    async def launch_started(
        self,
        *,
        engine: str,
        at_s: float,
        pid: int,
        session_id: int,
        start_ticks: int,
        boot_id: str,
        log_path: str,
        argv: Sequence[str],
    ) -> int:
        raise AssertionError("a bus keeps events only")

    async def launch_ready(self, launch_id: int, at_s: float) -> None:
        raise AssertionError("a bus keeps events only")

    async def launch_ended(self, launch_id: int, at_s: float, cause: ExitCause) -> None:
        raise AssertionError("a bus keeps events only")

    def record_frame(self, frame: Frame) -> None:
        raise AssertionError("a bus keeps events only")


def event(number: int) -> Event:
    return Event(at_s=float(number), kind="engine.ready", target="qwen/0", message=f"event {number}")


async def messages(subscription: Subscription) -> list[str]:
    """All until the end."""
    found = []
    while (said := await asyncio.wait_for(subscription.queue.get(), 5.0)) is not None:
        found.append(said.message)
    return found


@pytest.fixture
async def recorder() -> SlowRecorder:
    return SlowRecorder()


@pytest.fixture
async def bus(recorder: SlowRecorder) -> AsyncIterator[EventBus]:
    """A bus whose pump ends with the test."""
    bus = EventBus(recorder)
    pump = asyncio.create_task(bus.run())
    yield bus
    recorder.gate.set()
    bus.close()
    await asyncio.wait_for(pump, 5.0)


async def test_an_event_is_told_with_its_id_and_only_once_kept(bus: EventBus, recorder: SlowRecorder) -> None:
    recorder.gate.clear()
    async with bus.subscribe() as subscription:
        bus.post(event(1))
        for _ in range(20):
            await asyncio.sleep(0)
        assert subscription.queue.empty()
        recorder.gate.set()
        told = await asyncio.wait_for(subscription.queue.get(), 5.0)
        assert told == recorder.kept[0]
        assert told.id == 1


async def test_record_waits_until_it_is_kept_and_says_whether_on_disk(
    bus: EventBus, recorder: SlowRecorder
) -> None:
    recorder.durable = False
    recorder.gate.clear()
    waiting = asyncio.create_task(bus.record(event(1)))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    recorder.gate.set()
    kept, durable = await asyncio.wait_for(waiting, 5.0)
    assert (kept.id, kept.message, durable) == (1, "event 1", False)


async def test_posted_and_recorded_events_keep_the_order_of_acceptance(
    bus: EventBus, recorder: SlowRecorder
) -> None:
    recorder.gate.clear()
    async with bus.subscribe() as first, bus.subscribe() as second:
        bus.post(event(1))
        waiting = asyncio.create_task(bus.record(event(2)))
        await asyncio.sleep(0)
        bus.post(event(3))
        recorder.gate.set()
        await asyncio.wait_for(waiting, 5.0)
        for subscription in (first, second):
            heard = [await asyncio.wait_for(subscription.queue.get(), 5.0) for _ in range(3)]
            assert [said.id for said in heard if said is not None] == [1, 2, 3]
    assert [kept.message for kept in recorder.kept] == ["event 1", "event 2", "event 3"]


async def test_one_who_gives_up_waiting_loses_no_event(bus: EventBus, recorder: SlowRecorder) -> None:
    recorder.gate.clear()
    waiting = asyncio.create_task(bus.record(event(1)))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    recorder.gate.set()
    assert (await asyncio.wait_for(bus.record(event(2)), 5.0))[0].id == 2
    assert [kept.message for kept in recorder.kept] == ["event 1", "event 2"]


async def test_all_that_was_accepted_is_kept_before_the_end() -> None:
    recorder = SlowRecorder()
    recorder.gate.clear()
    bus = EventBus(recorder)
    pump = asyncio.create_task(bus.run())
    async with bus.subscribe() as subscription:
        for number in range(1, 4):
            bus.post(event(number))
        bus.close()
        bus.post(event(4))  # an engine's last words, while the node ends
        await asyncio.sleep(0)
        recorder.gate.set()
        await asyncio.wait_for(pump, 5.0)
        assert await messages(subscription) == ["event 1", "event 2", "event 3", "event 4"]
    assert len(recorder.kept) == 4


async def test_an_idle_bus_ends_when_closed() -> None:
    bus = EventBus(SlowRecorder())
    pump = asyncio.create_task(bus.run())
    await asyncio.sleep(0)
    bus.close()
    bus.close()
    await asyncio.wait_for(pump, 5.0)


async def test_after_the_end_nobody_hangs() -> None:
    recorder = SlowRecorder()
    bus = EventBus(recorder)
    bus.close()
    await asyncio.wait_for(bus.run(), 5.0)
    async with bus.subscribe() as subscription:
        assert await messages(subscription) == []
    kept, durable = await asyncio.wait_for(bus.record(event(1)), 5.0)
    assert (kept.id, durable) == (1, True)


async def test_one_who_lags_too_far_is_cut_off_and_the_others_are_not(
    bus: EventBus, recorder: SlowRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_bus, "SUBSCRIBER_LIMIT", 3)
    async with bus.subscribe() as slow, bus.subscribe() as quick:
        for number in range(1, 7):
            bus.post(event(number))
            told = await asyncio.wait_for(quick.queue.get(), 5.0)
            assert told is not None
            assert told.id == number
        assert slow.lagged
        assert not quick.lagged
        assert await messages(slow) == ["event 1", "event 2", "event 3"], "the rest is read by id"
        assert slow.queue.empty()


async def test_one_who_left_hears_no_more(bus: EventBus) -> None:
    async with bus.subscribe() as subscription:
        pass
    await asyncio.wait_for(bus.record(event(1)), 5.0)
    assert subscription.queue.empty()
