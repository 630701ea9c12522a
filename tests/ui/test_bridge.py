"""The node's stream as messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from textual.message import Message

from cockpit.bridge import Bridge
from cockpit.messages import EventArrived, FrameArrived, NodeConnected, NodeLost, NodeStopping
from engine.events import Event
from tests.support.fake_node import NOW_S, FakeNode, calm_frame, past_events
from tests.support.wait_until import wait_until


@asynccontextmanager
async def running(
    node: FakeNode, revive: Callable[[], Awaitable[None]] | None = None, frame_interval_s: float = 0.0
) -> AsyncIterator[list[Message]]:
    """What a running bridge posts."""
    posted: list[Message] = []
    bridge = Bridge(node, posted.append, revive, retry_s=(0.01,), frame_interval_s=frame_interval_s)
    task = asyncio.create_task(bridge.run())
    try:
        yield posted
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def kinds(posted: list[Message]) -> list[type[Message]]:
    return [type(message) for message in posted]


def event_ids(posted: list[Message]) -> list[int | None]:
    return [message.event.id for message in posted if isinstance(message, EventArrived)]


def frame_times(posted: list[Message]) -> list[float]:
    return [message.frame.at_s for message in posted if isinstance(message, FrameArrived)]


def happening(number: int) -> Event:
    return Event(at_s=NOW_S, kind="x", target="node", message=f"event {number}", id=number)


async def test_past_events_come_first_oldest_first_then_the_stream() -> None:
    node = FakeNode(calm_frame(), past_events())
    async with running(node) as posted:
        await wait_until(lambda: FrameArrived in kinds(posted))
        node.happen(happening(5))
        await wait_until(lambda: 5 in event_ids(posted))
    assert event_ids(posted) == [1, 2, 3, 4, 5]
    assert kinds(posted)[4] is NodeConnected


async def test_events_of_an_outage_come_after_it_and_none_twice() -> None:
    node = FakeNode(calm_frame(), past_events())
    async with running(node) as posted:
        await wait_until(lambda: FrameArrived in kinds(posted))
        node.lose()
        await wait_until(lambda: NodeLost in kinds(posted))
        node.past.append(happening(5))
        node.come_back()
        await wait_until(lambda: kinds(posted).count(NodeConnected) == 2)
        await wait_until(lambda: 5 in event_ids(posted))
    assert event_ids(posted) == [1, 2, 3, 4, 5]


async def test_a_burst_of_frames_is_drawn_once_and_the_latest_wins() -> None:
    node = FakeNode(calm_frame())
    async with running(node, frame_interval_s=0.2) as posted:
        await wait_until(lambda: len(frame_times(posted)) == 1)
        for number in range(1, 50):
            node.send(calm_frame(NOW_S + number))
        await wait_until(lambda: NOW_S + 49 in frame_times(posted))
    assert len(frame_times(posted)) <= 3


async def test_events_are_not_held_up_by_frames() -> None:
    node = FakeNode(calm_frame())
    async with running(node, frame_interval_s=60.0) as posted:
        await wait_until(lambda: len(frame_times(posted)) == 1)
        node.send(calm_frame(NOW_S + 1))
        for number in range(1, 20):
            node.happen(happening(number))
        await wait_until(lambda: event_ids(posted) == list(range(1, 20)))
        assert len(frame_times(posted)) == 1


async def test_the_last_frame_before_a_loss_is_not_kept_back() -> None:
    node = FakeNode(calm_frame())
    async with running(node, frame_interval_s=60.0) as posted:
        await wait_until(lambda: len(frame_times(posted)) == 1)
        node.send(calm_frame(NOW_S + 1))
        node.lose()
        await wait_until(lambda: NodeLost in kinds(posted))
    assert frame_times(posted) == [NOW_S, NOW_S + 1]
    assert kinds(posted).index(NodeLost) > max(
        index for index, kind in enumerate(kinds(posted)) if kind is FrameArrived
    )


async def test_a_lost_node_is_started_again() -> None:
    node = FakeNode(calm_frame())
    revived = []

    async def revive() -> None:
        revived.append(True)
        node.come_back()

    async with running(node, revive) as posted:
        await wait_until(lambda: NodeConnected in kinds(posted))
        node.lose()
        await wait_until(lambda: kinds(posted).count(NodeConnected) == 2)
    assert revived == [True]


async def test_a_node_that_cannot_be_started_is_said_and_tried_again() -> None:
    node = FakeNode(calm_frame())
    node.up = False
    tries = []

    async def revive() -> None:
        tries.append(True)
        raise OSError("no space left")

    async with running(node, revive) as posted:
        await wait_until(lambda: len(tries) >= 3)
    problems = [message.problem for message in posted if isinstance(message, NodeLost)]
    assert any("cannot be started again: no space left" in problem for problem in problems)


async def test_a_node_that_an_operator_stopped_is_left_alone_but_noticed_when_it_is_back() -> None:
    node = FakeNode(calm_frame())
    revived = []

    async def revive() -> None:
        revived.append(True)

    async with running(node, revive) as posted:
        await wait_until(lambda: NodeConnected in kinds(posted))
        node.stop("anna")
        await wait_until(lambda: NodeStopping in kinds(posted))
        node.come_back()
        await wait_until(lambda: kinds(posted).count(NodeConnected) == 2)
    assert revived == []
    assert NodeLost not in kinds(posted)
