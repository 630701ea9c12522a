"""`cockpit events`."""

from __future__ import annotations

import time

import click

from cockpit.client import NodeClient
from cockpit.commands.output import print_json
from cockpit.commands.session import with_node
from engine.api.schema import EventLine
from engine.events import Event

MAX_LIMIT = 10_000
"""The API's."""


@click.command()
@click.option(
    "-n", "--limit", type=click.IntRange(1, MAX_LIMIT), default=50, show_default=True, help="How many."
)
@click.option("--target", help="Only those of an engine, or of a deployment with its engines.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(limit: int, target: str | None, follow: bool, as_json: bool) -> None:
    """Show what happened, newest last."""

    def show(event: Event) -> None:
        if as_json:
            print_json(event)
        else:
            click.echo(_line(event))

    async def run(node: NodeClient) -> None:
        past = await node.events(limit, None, target)
        for event in reversed(past):
            show(event)
        if not follow:
            return
        newest = past[0].id if past else 0
        async for line in node.stream(newest):
            if isinstance(line, EventLine) and _is_of(line.event, target):
                show(line.event)

    with_node(run)


def _is_of(event: Event, target: str | None) -> bool:
    """As the API filters: a deployment's history is that of its engines too."""
    return target is None or event.target == target or event.target.startswith(f"{target}/")


def _line(event: Event) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.at_s))
    reason = f" ({event.reason})" if event.reason else ""
    outcome = f" → {event.outcome}" if event.outcome else ""
    return f"{when}  {event.actor.name:<10} {event.target:<14} {event.message}{reason}{outcome}"
