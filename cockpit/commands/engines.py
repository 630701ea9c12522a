"""`cockpit engines`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from cockpit.client import NodeClient
from cockpit.commands.output import print_json, print_table
from cockpit.commands.session import with_node
from cockpit.format import percent
from engine.model import EngineView


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(as_json: bool) -> None:
    """List the engines."""
    engines = with_node(NodeClient.status).engines
    if as_json:
        for engine in engines:
            print_json(engine)
        return
    print_engines(engines)


def print_engines(engines: Sequence[EngineView]) -> None:
    """A line per engine."""
    if not engines:
        click.echo("no engines; deploy some with `cockpit up -c FILE` or from the interface")
        return
    print_table(
        ("ENGINE", "STATE", "GPU", "PID", "RUN", "WAIT", "KV %", "RESTARTS", "MODEL", "NOTE"),
        [
            (
                engine.name,
                engine.state.value,
                ",".join(map(str, engine.gpu_indexes)) or "cpu",
                None if engine.pid is None else str(engine.pid),
                None if engine.running is None else str(engine.running),
                None if engine.waiting is None else str(engine.waiting),
                percent(engine.kv_used_ratio),
                str(engine.restarts),
                engine.model,
                _note(engine),
            )
            for engine in engines
        ],
        frozenset({3, 4, 5, 6, 7}),
    )


def _note(engine: EngineView) -> str:
    if engine.progress:
        return engine.progress
    if engine.last_exit and engine.last_exit.kind != "requested" and engine.state.value != "ready":
        return engine.last_exit.summary
    return engine.open_to_local_users or ""
