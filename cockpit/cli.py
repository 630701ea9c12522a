"""The command line. Each command lives in a module of its own and is imported when asked for,
so that `cockpit --version` and `cockpit status` stay quick.

Exit status: 0 done; 1 it failed or an engine did; 2 bad input or usage; 3 no node is running.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import click

from cockpit import __version__

COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("cockpit.commands.up", "Start the node and its engines in the background."),
    "down": ("cockpit.commands.down", "Stop every engine and the node."),
    "status": ("cockpit.commands.status", "Show the node, its GPUs and engines."),
    "engines": ("cockpit.commands.engines", "List the engines."),
    "engine": ("cockpit.commands.engine", "Start, stop or restart engines."),
    "logs": ("cockpit.commands.logs", "Show an engine's log."),
    "chat": ("cockpit.commands.chat", "Ask a model from the terminal."),
    "events": ("cockpit.commands.events", "Show what happened, newest last."),
    "config": ("cockpit.commands.config", "Check the config, print its schema or an example."),
    "doctor": ("cockpit.commands.doctor", "Examine this machine and say what is missing."),
    "serve": ("cockpit.commands.serve", "Run the node in the foreground."),
}
"""Name, module with a `command`, and the line that help shows."""


class _Commands(click.Group):
    """Imports a command when it is called; help needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="cockpit", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """The cockpit of one GPU machine. Without a command it opens the interface."""
    if ctx.invoked_subcommand is None:
        importlib.import_module("cockpit.commands.open").run()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line; for tests and `python -m`."""
    cli.main(args=None if arguments is None else list(arguments), prog_name="cockpit")
