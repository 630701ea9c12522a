"""`cockpit` without a command: the interface. Imports only what it needs, to be there at once."""

from __future__ import annotations

import asyncio
import gc
import sys
from typing import NoReturn

from cockpit import node_process, paths

BAD_INPUT = 2


def run() -> None:
    """Start a node when none runs, then open the interface on it."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        _fail("the interface needs a terminal", "`cockpit status` prints what it shows")
    where = paths.find()
    if not node_process.running(where):
        sys.stderr.write("starting the node …\n")
        try:
            node_process.start(where, ["--auto"])
        except node_process.NodeStartError as error:
            _fail(error.message, error.hint)

    # What is imported stays: collecting while it is made costs a tenth of the time to the first frame.
    gc.disable()
    from cockpit.app import CockpitApp
    from cockpit.client import NodeClient
    from cockpit.screens import fleet as _fleet  # noqa: F401  # shown first

    gc.freeze()
    gc.enable()

    async def revive() -> None:
        if not node_process.running(where):
            await asyncio.to_thread(node_process.start, where, ["--auto"])

    CockpitApp(NodeClient(where.api_socket), revive=revive, themes_dir=where.themes_dir).run()


def _fail(message: str, hint: str) -> NoReturn:
    sys.stderr.write(f"cockpit: {message}; {hint}\n")
    raise SystemExit(BAD_INPUT)
