"""`cockpit down`."""

from __future__ import annotations

import asyncio
import os
import signal

import click

from cockpit import node_process, paths
from cockpit.client import ClientError, NodeClient
from cockpit.commands.session import FAILED, fail, narrate


@click.command()
@click.option("--reason", help="Kept with the event.")
def command(reason: str | None) -> None:
    """Stop every engine and the node; returns when no process is left.

    Requests in flight may finish, each deployment's drain_timeout_s long. Where the node is gone
    already, engines that it left behind are ended.
    """
    where = paths.find()
    ran = node_process.running(where)
    if ran:
        pid = node_process.holder(where)
        if not asyncio.run(_ask(where, reason)) and not node_process.terminate(where) and pid is not None:
            narrate(f"the node (pid {pid}) does not react and is killed; its engines are ended next")
            os.kill(pid, signal.SIGKILL)
        if pid is not None and not node_process.wait_gone(pid):
            fail(f"the node (pid {pid}) does not end", f"see {where.node_log}", FAILED)
    elif not where.database.exists():
        narrate("nothing is running")
        return
    from cockpit.commands.leftovers import end_leftovers

    ended = end_leftovers(where)
    if ended:
        left = "1 process" if ended == 1 else f"{ended} processes"
        narrate(f"ended {left} that an earlier node left; none is left")
    else:
        narrate("stopped; no process is left" if ran else "nothing is running")


async def _ask(where: paths.Paths, reason: str | None) -> bool:
    async with NodeClient(where.api_socket) as node:
        try:
            await node.shutdown(reason)
        except ClientError as error:
            narrate(f"the node did not take the order: {error.message}")
            return False
    return True
