"""The whole application on a node in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from cockpit.app import CockpitApp
from cockpit.bridge import Revive
from cockpit.glyphs import UNICODE, Glyphs
from tests.support.fake_node import NOW_S, FakeNode
from tests.support.wait_until import wait_until


@asynccontextmanager
async def cockpit(
    node: FakeNode,
    size: tuple[int, int] = (80, 24),
    *,
    revive: Revive | None = None,
    themes_dir: Path | None = None,
    now: Callable[[], float] = lambda: NOW_S,
    glyphs: Glyphs = UNICODE,
) -> AsyncIterator[tuple[CockpitApp, Pilot[None]]]:
    """An open cockpit that has drawn the node's frame, if the node has one."""
    app = CockpitApp(node, revive=revive, themes_dir=themes_dir, now=now, glyphs=glyphs)
    async with app.run_test(size=size, notifications=True) as pilot:
        if node.up and node.latest is not None:
            await wait_until(lambda: app.frame is not None)
            await pilot.pause()
        yield app, pilot


def toasts(app: CockpitApp) -> list[str]:
    """Messages of the notifications that are shown."""
    return [notification.message for notification in app._notifications]
