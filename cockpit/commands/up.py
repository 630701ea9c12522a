"""`cockpit up`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click

from cockpit import node_process, paths
from cockpit.client import NodeClient
from cockpit.commands.output import print_json
from cockpit.commands.session import BAD_INPUT, FAILED, fail, narrate, with_node
from cockpit.settings import ConfigError, load
from engine.api.schema import StatusReply
from engine.model import EngineState, EngineView

LOOK_S = 0.25
BROKEN = (EngineState.FAILED, EngineState.QUARANTINED, EngineState.BACKOFF)


@click.command()
@click.option("-c", "--config", "config", type=click.Path(path_type=Path), help="Config file to run.")
@click.option("--sim", "profile", metavar="PROFILE", help="Run a simulated machine, such as h100x8.")
@click.option("--listen", metavar="HOST:PORT", help="Gateway address, over the config's.")
@click.option("--wait", is_flag=True, help="Return when every engine is ready (0) or one has failed (1).")
@click.option("--json", "as_json", is_flag=True, help="Print the status as one JSON object.")
def command(config: Path | None, profile: str | None, listen: str | None, wait: bool, as_json: bool) -> None:
    """Start the node and its engines in the background.

    Without -c and --sim it resumes what this state folder ran last.
    """
    if config is not None and profile is not None:
        fail("-c and --sim exclude each other", "give one of them", BAD_INPUT)
    where = paths.find()
    arguments: list[str] = []
    if config is not None:
        config = config.absolute()
        try:
            load(config, os.environ)
        except ConfigError as error:
            fail(error.message, error.hint, BAD_INPUT)
        arguments = ["-c", str(config)]
    if profile is not None:
        arguments = ["--sim", profile]
    if listen is not None:
        arguments += ["--listen", listen]
    if node_process.running(where):
        _compare(str(config) if config else f"sim:{profile}" if profile else None, listen)
    else:
        try:
            node_process.start(where, arguments)
        except node_process.NodeStartError as error:
            fail(error.message, error.hint, BAD_INPUT)
    status = with_node(_until_settled if wait else NodeClient.status)
    _tell(status)
    if as_json:
        print_json(status)
    if wait and any(engine.state in BROKEN for engine in status.engines):
        raise SystemExit(FAILED)


def _compare(asked: str | None, listen: str | None) -> None:
    """A running node is fine when it runs what is asked for."""
    status = with_node(NodeClient.status)
    running = status.node
    if asked is not None and running.config != asked:
        fail(
            f"the node (pid {running.pid}) already runs {running.config or 'without a config'}",
            "`cockpit down` first, then up again",
            BAD_INPUT,
        )
    if listen is not None and not listen.endswith(":0") and listen != status.gateway.listen:
        fail(
            f"the gateway of the node (pid {running.pid}) already listens on {status.gateway.listen}",
            "`cockpit down` first, then up again",
            BAD_INPUT,
        )
    narrate(f"node {running.name} is already up (pid {running.pid})")


async def _until_settled(node: NodeClient) -> StatusReply:
    """Wait until every wanted engine is ready, or one has failed; engines stopped by hand stay stopped."""
    shown: dict[str, str] = {}
    while True:
        status = await node.status()
        for engine in status.engines:
            words = _words(engine)
            if shown.get(engine.name) != words:
                shown[engine.name] = words
                narrate(f"{engine.name:<16} {words}")
        states = [engine.state for engine in status.engines]
        if any(state in BROKEN for state in states):
            return status
        if all(state in (EngineState.READY, EngineState.STOPPED) for state in states):
            return status
        await asyncio.sleep(LOOK_S)


def _words(engine: EngineView) -> str:
    words = engine.state.value
    if engine.progress:
        words += f": {engine.progress}"
    if engine.state in BROKEN and engine.last_exit:
        words += f": {engine.last_exit.summary}" + (
            f" ({engine.last_exit.hint})" if engine.last_exit.hint else ""
        )
    return words


def _tell(status: StatusReply) -> None:
    mark = " (simulated)" if status.simulated else ""
    ready = sum(engine.state is EngineState.READY for engine in status.engines)
    narrate(
        f"node {status.node.name}{mark}: {ready} of {len(status.engines)} engines ready, "
        f"gateway on http://{status.gateway.listen}/v1"
    )
