"""`cockpit logs`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import click
import msgspec

from cockpit.client import NodeApi, NodeClient
from cockpit.commands.session import BAD_INPUT, fail, with_node
from engine.api.schema import LogChunk

LOOK_S = 0.3
CHUNK_BYTES = 1024 * 1024
BYTES_PER_LINE = 400
"""A generous guess for finding the last N lines; a longer line only shows fewer of them."""
LAUNCHES = 50
"""How many starts a reader may miss between two looks and still see all of their logs."""


@click.command()
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Go on printing what is added, over restarts too.")
@click.option("-n", "--lines", default=200, show_default=True, help="Lines from the end; 0 for all.")
@click.option("--launch", type=int, help="A launch's number, as the interface shows it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line: launch and text.")
def command(name: str, follow: bool, lines: int, launch: int | None, as_json: bool) -> None:
    """Show the log of engine NAME, of its newest launch unless told otherwise."""
    if lines < 0:
        fail("--lines must not be negative", "0 prints all", BAD_INPUT)

    async def run(node: NodeClient) -> None:
        printer = LinePrinter(as_json)
        chunk = await node.log(name, launch, -lines * BYTES_PER_LINE if lines else 0, CHUNK_BYTES)
        if lines:
            begins_inside = chunk.offset > 0
            text, chunk = await _rest(node, name, chunk)
            printer.add(chunk.launch_id, last_lines(text, lines, begins_inside=begins_inside))
        else:
            printer.add(chunk.launch_id, chunk.text)
            async for piece in _to_end(node, name, chunk):
                printer.add(piece.launch_id, piece.text)
                chunk = piece
        while follow and not (chunk.ended and launch is not None):
            await asyncio.sleep(LOOK_S)
            async for piece in _to_end(node, name, chunk):
                printer.add(piece.launch_id, piece.text)
                chunk = piece
            if chunk.ended and launch is None and (later := await _next_launch(node, name, chunk.launch_id)):
                chunk = await node.log(name, later, 0, CHUNK_BYTES)
                printer.add(chunk.launch_id, chunk.text)
        printer.end()

    with_node(run)


def last_lines(text: str, lines: int, *, begins_inside: bool) -> str:
    """The last lines of a text; its first is left out where the text may begin inside of it."""
    if begins_inside:
        text = text.partition("\n")[2] or text
    whole = text.removesuffix("\n").split("\n")
    kept = "\n".join(whole[-lines:])
    return kept + "\n" if text.endswith("\n") else kept


class LinePrinter:
    """Prints pieces of logs as they are, or line by line as JSON; the pieces may end inside of a line."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._launch: int | None = None
        self._begun = ""

    def add(self, launch: int, text: str) -> None:
        """Print a piece."""
        if launch != self._launch:
            self.end()
            self._launch = launch
        if self._as_json:
            *whole, self._begun = (self._begun + text).split("\n")
            for line in whole:
                self._print(line)
        elif text:
            sys.stdout.write(text)
            sys.stdout.flush()

    def end(self) -> None:
        """Print the line that has no end."""
        if self._begun:
            self._print(self._begun)
            self._begun = ""

    def _print(self, line: str) -> None:
        click.echo(msgspec.json.encode({"launch": self._launch, "text": line}).decode())


async def _to_end(node: NodeApi, name: str, chunk: LogChunk) -> AsyncIterator[LogChunk]:
    """What comes after a piece of a launch's log, until nothing does at the moment; at least one piece."""
    while True:
        chunk = await node.log(name, chunk.launch_id, chunk.next_offset, CHUNK_BYTES)
        yield chunk
        if chunk.next_offset >= chunk.size_bytes or not chunk.text:
            return


async def _rest(node: NodeApi, name: str, chunk: LogChunk) -> tuple[str, LogChunk]:
    texts = [chunk.text]
    while chunk.next_offset < chunk.size_bytes and chunk.text:
        chunk = await node.log(name, chunk.launch_id, chunk.next_offset, CHUNK_BYTES)
        texts.append(chunk.text)
    return "".join(texts), chunk


async def _next_launch(node: NodeApi, name: str, after: int) -> int | None:
    """The launch that came after one, so that the log of a crash loop is shown whole."""
    later = [launch.id for launch in await node.launches(name, LAUNCHES) if launch.id > after]
    return min(later, default=None)
