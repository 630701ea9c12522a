"""`cockpit status`."""

from __future__ import annotations

import click

from cockpit.client import NodeClient
from cockpit.commands.engines import print_engines
from cockpit.commands.output import print_json, print_table
from cockpit.commands.session import with_node
from cockpit.format import duration, gib, percent, whole


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object; unknown values are null.")
def command(as_json: bool) -> None:
    """Show the node, its GPUs and engines."""
    status = with_node(NodeClient.status)
    if as_json:
        print_json(status)
        return
    node = status.node
    mark = "  SIMULATED" if status.simulated else ""
    click.echo(f"{node.name}  pid {node.pid}  version {node.version}  up {duration(node.uptime_s)}{mark}")
    click.echo(f"gateway http://{status.gateway.listen}/v1  in flight {status.gateway.in_flight}")
    for problem in (node.gpu_problem, node.storage_problem):
        if problem:
            click.echo(f"problem: {problem}")
    if status.gpus:
        click.echo("")
        print_table(
            ("GPU", "NAME", "SM %", "MEM GiB", "OF", "°C", "W", "PROBLEM"),
            [
                (
                    str(gpu.index),
                    gpu.name,
                    percent(gpu.utilisation_ratio),
                    gib(gpu.memory_used_bytes),
                    gib(gpu.memory_total_bytes),
                    whole(gpu.temperature_c),
                    whole(gpu.power_w),
                    gpu.problem or "",
                )
                for gpu in status.gpus
            ],
            frozenset({0, 2, 3, 4, 5, 6}),
        )
    click.echo("")
    print_engines(status.engines)
