"""The newest frame for every watcher."""

from __future__ import annotations

import asyncio

from engine.api.frames import FrameHub
from tests.engine.api.support import frame


async def test_a_watcher_gets_the_newest_and_misses_the_rest() -> None:
    hub = FrameHub()
    for at_s in (1.0, 2.0, 3.0):
        hub.publish(frame(at_s))
    number, newest = await hub.after(0)
    assert newest.at_s == 3.0
    assert hub.latest is newest
    waiting = asyncio.create_task(hub.after(number))
    await asyncio.sleep(0)
    assert not waiting.done()  # the same frame is not given twice
    hub.publish(frame(4.0))
    assert (await waiting)[1].at_s == 4.0


async def test_all_watchers_hear_of_one_frame() -> None:
    hub = FrameHub()
    assert hub.latest is None
    watchers = [asyncio.create_task(hub.after(0)) for _ in range(3)]
    await asyncio.sleep(0)
    watchers[0].cancel()  # one that leaves does not disturb the others
    hub.publish(frame(1.0))
    found = await asyncio.gather(*watchers[1:])
    assert [f.at_s for _, f in found] == [1.0, 1.0]
