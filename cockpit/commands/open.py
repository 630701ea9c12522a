"""`cockpit` without a command: the interface."""

from __future__ import annotations

import asyncio
import sys

from cockpit import node_process, paths
from cockpit.client import NodeClient
from cockpit.commands.session import BAD_INPUT, fail, narrate


def run() -> None:
    """Start a node when none runs, then open the interface on it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        fail("the interface needs a terminal", "`cockpit status` prints what it shows", BAD_INPUT)
    where = paths.find()
    if not node_process.running(where):
        narrate("starting the node …")
        try:
            node_process.start(where, ["--auto"])
        except node_process.NodeStartError as error:
            fail(error.message, error.hint, BAD_INPUT)

    from cockpit.app import CockpitApp

    async def revive() -> None:
        if not node_process.running(where):
            await asyncio.to_thread(node_process.start, where, ["--auto"])

    CockpitApp(NodeClient(where.api_socket), revive=revive, themes_dir=where.themes_dir).run()
