"""`cockpit logs`."""

from __future__ import annotations

import asyncio
import sys

import click
import msgspec

from cockpit.client import NodeClient
from cockpit.commands.session import BAD_INPUT, fail, with_node
from engine.api.schema import LogChunk

LOOK_S = 0.3
BYTES_PER_LINE = 400
"""A generous guess for finding the last N lines; a longer line only shows fewer of them."""


@click.command()
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Go on printing what is added, over restarts too.")
@click.option("-n", "--lines", default=200, show_default=True, help="Lines from the end; 0 for all.")
@click.option("--launch", type=int, help="A launch's number, as `cockpit events` and the interface show it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with its byte offset.")
def command(name: str, follow: bool, lines: int, launch: int | None, as_json: bool) -> None:
    """Show the log of engine NAME, of its newest launch unless told otherwise."""
    if lines < 0:
        fail("--lines must not be negative", "0 prints all", BAD_INPUT)

    async def run(node: NodeClient) -> None:
        chunk = await node.log(name, launch, -lines * BYTES_PER_LINE if lines else 0, 1024 * 1024)
        text = chunk.text
        if lines and chunk.offset:
            text = text.partition("\n")[2] or text
        _write(chunk, "".join(text.splitlines(keepends=True)[-lines:]) if lines else text, as_json)
        while chunk.next_offset < chunk.size_bytes or follow:
            newer = await node.log(name, launch, chunk.next_offset, 1024 * 1024)
            if newer.launch_id != chunk.launch_id:
                newer = await node.log(name, launch, 0, 1024 * 1024)
            if newer.text:
                _write(newer, newer.text, as_json)
            elif follow:
                await asyncio.sleep(LOOK_S)
            else:
                return
            chunk = newer

    with_node(run)


def _write(chunk: LogChunk, text: str, as_json: bool) -> None:
    if as_json:
        for line in text.splitlines():
            click.echo(msgspec.json.encode({"launch": chunk.launch_id, "text": line}).decode())
    else:
        sys.stdout.write(text)
        sys.stdout.flush()
