"""`cockpit config check|schema|example`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from cockpit import paths
from cockpit.commands.session import BAD_INPUT, narrate


@click.group()
def command() -> None:
    """Check the config, print its schema or an example."""


@command.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object; `errors` is empty when all is well.")
def check(file: Path | None, as_json: bool) -> None:
    """Say all that is wrong with a config.

    FILE is the user's config unless given. Exit status 2 when something is wrong.
    """
    from cockpit.settings import check as check_file

    file = file or paths.find().config_file
    errors = check_file(file.absolute(), os.environ)
    if as_json:
        found = [{"message": error.message, "hint": error.hint} for error in errors]
        click.echo(json.dumps({"file": str(file), "errors": found}))
    for error in errors:
        narrate(f"cockpit: {error}")
    if errors:
        raise SystemExit(BAD_INPUT)
    narrate(f"{file}: fine")


@command.command()
def schema() -> None:
    """Print the JSON schema of the config."""
    from cockpit.settings_text import schema as config_schema

    click.echo(json.dumps(config_schema(), indent=2))


@command.command()
def example() -> None:
    """Print a commented config with every key."""
    from cockpit.settings_text import example as config_example

    click.echo(config_example(), nl=False)
