"""`cockpit engine start|stop|restart`."""

from __future__ import annotations

from typing import Literal

import click

from cockpit.client import NodeClient
from cockpit.commands.output import print_json
from cockpit.commands.session import FAILED, narrate, with_node
from engine.api.schema import ActionReply, EngineAction
from engine.model import EngineState

Verb = Literal["start", "stop", "restart"]
AIMS: dict[Verb, EngineState] = {
    "start": EngineState.READY,
    "stop": EngineState.STOPPED,
    "restart": EngineState.READY,
}


@click.group()
def command() -> None:
    """Start, stop, restart or remove engines.

    NAME is an engine (qwen/0), a deployment (qwen), or a GPU (gpu0, or its UUID).
    """


def _verb(verb: Verb, line: str) -> None:
    @command.command(verb, help=line)
    @click.argument("name")
    @click.option("--reason", help="Kept with the event.")
    @click.option("--wait", is_flag=True, help="Return when it is done; exit status 1 when it failed.")
    @click.option("--json", "as_json", is_flag=True, help="Print the reply as one JSON object.")
    def run(name: str, reason: str | None, wait: bool, as_json: bool) -> None:
        async def act(node: NodeClient) -> tuple[ActionReply, bool]:
            reply = await node.act(EngineAction(action=verb, target=name, reason=reason, wait=wait))
            if not wait:
                return reply, True
            states = {engine.name: engine.state for engine in (await node.status()).engines}
            return reply, all(states.get(engine) is AIMS[verb] for engine in reply.engines)

        reply, reached = with_node(act)
        if as_json:
            print_json(reply)
        kept = "" if reply.durable else " (the database cannot be written: kept in memory only)"
        narrate(f"{verb}: {', '.join(reply.engines)}{kept}")
        if not reached:
            narrate("not every engine came so far; see `cockpit engines`")
            raise SystemExit(FAILED)


_verb("start", "Start engines; failures of the past are forgotten.")
_verb("stop", "Drain and stop engines until started again.")
_verb("restart", "Drain, stop and start engines.")


@command.command()
@click.argument("deployment")
@click.option("--json", "as_json", is_flag=True, help="Print the reply as one JSON object.")
def remove(deployment: str, as_json: bool) -> None:
    """Drain, stop and forget a DEPLOYMENT; its GPUs are free then. Its logs and events stay."""
    reply = with_node(lambda node: node.remove(deployment))
    if as_json:
        print_json(reply)
    narrate(f"remove: {', '.join(reply.engines)}")
