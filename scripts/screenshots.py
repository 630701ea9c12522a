"""Export the pictures of the README from the running application: `make screenshots`.

Runs a simulated node in a folder of its own, opens the interface on it, waits until its charts have
something to show, asks the chat a question, and writes docs/images/*.svg.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from textual.widgets import TextArea

from cockpit import node_process, paths
from cockpit.app import CockpitApp
from cockpit.client import NodeClient

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
SIZE = (120, 34)
WARM_UP_S = 45.0
"""The gentle load fills half a minute of the trend."""
KEYS = {" ": "space", ".": "full_stop"}
QUESTION = "Explain paged attention in two sentences."


async def until(holds: Callable[[], bool], limit_s: float, what: str) -> None:
    """Wait for something to hold."""
    deadline = asyncio.get_running_loop().time() + limit_s
    while not holds():
        if asyncio.get_running_loop().time() > deadline:
            raise SystemExit(f"{what}: not within {limit_s:.0f} s")
        await asyncio.sleep(0.1)


async def take(where: paths.Paths) -> None:
    """The pictures."""
    app = CockpitApp(NodeClient(where.api_socket))
    async with app.run_test(size=SIZE) as pilot:
        await until(
            lambda: app.frame is not None and all(e.state.value == "ready" for e in app.frame.engines),
            60,
            "ready",
        )
        await asyncio.sleep(WARM_UP_S)
        await pilot.pause()
        save(app, "fleet")
        await pilot.press("c")
        await until(lambda: bool(app.screen.query(TextArea)), 10, "the chat screen")
        await pilot.pause()
        await pilot.press(*(KEYS.get(character, character) for character in QUESTION), "enter")
        await until(lambda: "tok/s" in _text(app), 60, "an answer")
        await pilot.pause()
        save(app, "chat")


def _text(app: CockpitApp) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


def save(app: CockpitApp, name: str) -> None:
    """One picture."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    (IMAGES / f"{name}.svg").write_text(app.export_screenshot(title="cockpit"))
    sys.stderr.write(f"docs/images/{name}.svg\n")


def main() -> None:
    """Start a node, take the pictures, end it."""
    home = Path(tempfile.mkdtemp(prefix="ck-"))
    os.environ |= {"COCKPIT_HOME": str(home), "COCKPIT_NODE_NAME": "lab-7"}
    where = paths.find()
    try:
        node_process.start(where, ["--sim", "h100x8"])
        asyncio.run(take(where))
    finally:
        pid = node_process.holder(where)
        node_process.terminate(where)
        if pid is not None:
            node_process.wait_gone(pid)
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
