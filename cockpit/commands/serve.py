"""`cockpit serve`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from cockpit.commands.session import BAD_INPUT, fail


@click.command()
@click.option("-c", "--config", "config", type=click.Path(path_type=Path), help="Config file to run.")
@click.option("--sim", "profile", metavar="PROFILE", help="Run a simulated machine, such as h100x8.")
@click.option("--listen", metavar="HOST:PORT", help="Gateway address, over the config's.")
@click.option(
    "--auto", is_flag=True, help="With nothing to resume: this machine's GPUs, or a simulated machine."
)
@click.option("--report-fd", type=int, hidden=True)
def command(
    config: Path | None, profile: str | None, listen: str | None, auto: bool, report_fd: int | None
) -> None:
    """Run the node in the foreground, as under systemd; `cockpit up` does so in the background."""
    from cockpit.runtime import StartRefusedError, run_node
    from cockpit.startup import Start

    def report(message: dict[str, object]) -> None:
        if report_fd is not None:
            os.write(report_fd, json.dumps(message).encode() + b"\n")
            os.close(report_fd)

    try:
        run_node(
            Start(config=config, profile=profile, listen=listen, auto=auto), lambda: report({"ok": True})
        )
    except StartRefusedError as error:
        report({"ok": False, "message": error.message, "hint": error.hint})
        fail(error.message, error.hint, BAD_INPUT)
