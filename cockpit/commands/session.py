"""What commands share: a client for the length of one, errors as one line, and exit statuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

import click

from cockpit import node_process, paths
from cockpit.client import ClientError, NodeClient, NodeRefusedError, NodeUnreachableError

T = TypeVar("T")

FAILED = 1
BAD_INPUT = 2
NO_NODE = 3


def with_node(work: Callable[[NodeClient], Awaitable[T]]) -> T:
    """Run `work` against the running node; ends the command with a line on stderr when that fails."""
    where = paths.find()

    async def run() -> T:
        async with NodeClient(where.api_socket) as node:
            return await work(node)

    try:
        return asyncio.run(run())
    except NodeRefusedError as error:
        fail(error.message, error.hint, BAD_INPUT if error.status < 500 else FAILED)
    except NodeUnreachableError as error:
        if node_process.running(where):
            fail("the node runs but does not answer", f"see {where.node_log}", FAILED)
        fail(error.message, error.hint, NO_NODE)
    except ClientError as error:
        fail(error.message, error.hint, FAILED)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def fail(message: str, hint: str = "", status: int = FAILED) -> NoReturn:
    """One line on stderr: what is wrong and what to do; then exit."""
    click.echo(f"cockpit: {message}" + (f"; {hint}" if hint else ""), err=True)
    raise SystemExit(status)


def narrate(message: str) -> None:
    """Say what goes on: on stderr, since stdout is data."""
    click.echo(message, err=True)
