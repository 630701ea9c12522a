"""What a node tells to whoever watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from cockpit.recording import HISTORY_LIMIT
from engine.api import schema
from engine.events import Event
from tests.cockpit.desk import ADA, Desk, desk_in
from tests.engine.api.support import frame
from tests.support.wait_until import wait_until


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk_in(tmp_path) as desk:
        yield desk


async def _event(desk: Desk, message: str) -> int:
    kept, _ = await desk.bus.record(Event(at_s=1.0, kind="test", target="x", message=message))
    assert kept.id is not None
    return kept.id


async def _read(desk: Desk, after: int | None, until: str) -> list[str]:
    """Types and messages, up to an event."""
    seen: list[str] = []
    async with asyncio.timeout(5.0), aclosing(desk.control.stream(after)) as lines:
        async for line in lines:
            seen.append(line.event.message if isinstance(line, schema.EventLine) else type(line).__name__)
            if seen[-1] == "HelloLine":
                asyncio.get_running_loop().call_soon(
                    lambda: desk.bus.post(Event(at_s=1.0, kind="test", target="x", message="live"))
                )
            if seen[-1] == until:
                break
    return seen


async def test_a_stream_goes_on_after_an_event_without_loss_or_repetition(desk: Desk) -> None:
    first = await _event(desk, "one")
    await _event(desk, "two")
    await _event(desk, "three")
    assert await _read(desk, first, "live") == ["HelloLine", "two", "three", "live"]


async def test_a_stream_without_an_event_to_go_on_after_is_of_now(desk: Desk) -> None:
    await _event(desk, "one")
    assert await _read(desk, None, "live") == ["HelloLine", "live"]


async def test_a_history_longer_than_one_answer_of_the_store_is_whole(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert HISTORY_LIMIT > 3
    monkeypatch.setattr("cockpit.recording.HISTORY_LIMIT", 3)
    first = await _event(desk, "first")
    for number in range(10):
        await _event(desk, str(number))
    assert await _read(desk, first, "live") == ["HelloLine", *map(str, range(10)), "live"]


async def test_events_during_the_history_are_told_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await _event(desk, "first")
    history = desk.recorder.events_after

    async def slow(event_id: int) -> tuple[Event, ...]:
        if event_id == first:
            await _event(desk, "meanwhile")  # in the history and in the live queue
        return await history(event_id)

    monkeypatch.setattr(desk.recorder, "events_after", slow)
    seen: list[str] = []
    async with asyncio.timeout(5.0), aclosing(desk.control.stream(first)) as lines:
        async for line in lines:
            if isinstance(line, schema.EventLine):
                seen.append(line.event.message)
                if seen[-1] == "end":
                    break
                desk.bus.post(Event(at_s=1.0, kind="test", target="x", message="end"))
    assert seen == ["meanwhile", "end"]


async def test_an_event_of_another_history_does_not_silence_the_stream(desk: Desk) -> None:
    await _event(desk, "one")
    assert await _read(desk, 10**6, "live") == ["HelloLine", "one", "live"]


async def test_a_slow_reader_misses_frames_and_no_events(desk: Desk) -> None:
    async with aclosing(desk.control.stream(None)) as lines:
        assert isinstance(await anext(lines), schema.HelloLine)
        messages: list[str] = []
        stamps: list[float] = []
        desk.frames.publish(frame(0.0))
        first = await anext(lines)
        assert isinstance(first, schema.FrameLine)
        for number in range(1, 101):  # it does not read meanwhile
            desk.frames.publish(frame(float(number)))
            await _event(desk, str(number))
        async with asyncio.timeout(5.0):
            while len(messages) < 100 or not stamps or stamps[-1] < 100.0:
                line = await anext(lines)
                if isinstance(line, schema.EventLine):
                    messages.append(line.event.message)
                elif isinstance(line, schema.FrameLine):
                    stamps.append(line.frame.at_s)
    assert messages == [str(number) for number in range(1, 101)]
    assert len(stamps) < 10
    assert stamps == sorted(stamps)


async def test_a_stream_that_is_left_leaves_no_task_and_no_subscription(desk: Desk) -> None:
    before = asyncio.all_tasks()
    async with aclosing(desk.control.stream(None)) as lines:
        await anext(lines)
        desk.frames.publish(frame(1.0))
        await anext(lines)
    await wait_until(lambda: asyncio.all_tasks() == before)
    assert desk.bus._subscriptions == []


async def test_the_last_line_says_who_stopped_the_node(desk: Desk) -> None:
    async def last() -> schema.StreamLine:
        lines = [line async for line in desk.control.stream(None)]
        return lines[-1]

    reading = asyncio.create_task(last())
    await wait_until(lambda: len(desk.bus._subscriptions) == 1)
    await desk.control.shutdown(schema.ShutdownRequest(), ADA)
    assert await reading == schema.StoppingLine(by="ada")
