"""vLLM's arguments from the config's `args` table, checked against what the cockpit sets itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from engine.errors import SpecError
from engine.model import ArgValue

RESERVED = {
    "model": "it is the deployment's `model`",
    "served-model-name": "it is the deployment's `name`",
    "host": "engines listen on a private Unix socket",
    "port": "engines listen on a private Unix socket; use the deployment's `port` where TCP is unavoidable",
    "uds": "the cockpit chooses the socket",
    "api-key": "every engine gets a random key by environment",
    "device-ids": "devices come from the deployment's `gpus`",
    "api-server-count": "metrics and live control need exactly one API server",
    "grpc": "the gateway speaks HTTP to it",
    "grpc-port": "it would open a port around the gateway",
    "config": "write the keys of that file into `args`, where they can be checked",
    "root-path": "the gateway expects the routes at the root",
    "ssl-keyfile": "engines listen on a private Unix socket",
    "ssl-certfile": "engines listen on a private Unix socket",
    "disable-log-stats": "it would remove every metric",
    "data-parallel-supervisor-port": "the cockpit chooses it",
}
"""Arguments that the cockpit sets or forbids, and why."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*(\.[A-Za-z0-9_.-]+)?")
"""An argument, or a key within one that takes JSON (`hf-overrides.rope_theta`); `=` would hide a second."""


def normalise(args: Mapping[str, ArgValue], where: str) -> dict[str, ArgValue]:
    """Arguments by their dashed names.

    Raises:
        SpecError: a key that the cockpit sets itself (or an abbreviation of one, which argparse
            would accept), one written twice, with dashes and with underscores, one that is no
            argument's name, or a list that cannot be said.
    """
    found: dict[str, ArgValue] = {}
    for key, value in args.items():
        # Keys within JSON keep their underscores: there they are names of fields.
        argument, dot, within = key.lstrip("-").partition(".")
        name = argument.replace("_", "-") + dot + within
        if not _NAME.fullmatch(name):
            raise SpecError(f"{where}.args.{key} is no argument's name", "write it as vLLM's --help does")
        positive = argument.replace("_", "-").removeprefix("no-")
        for reserved, why in RESERVED.items():
            if reserved.startswith(positive):
                raise SpecError(
                    f"{where}.args.{key} is set by the cockpit: {why}", f"remove `{key}` from args"
                )
        if name in found:
            raise SpecError(f"{where}.args has {name} twice, with dashes and underscores", "keep one of them")
        if isinstance(value, list) and any(str(word).startswith("-") for word in value):
            raise SpecError(
                f"{where}.args.{key} has a word that begins with a dash, which vLLM takes for an argument",
                f"remove it from `{key}`",
            )
        found[name] = value
    return found


def flags(args: Mapping[str, ArgValue]) -> list[str]:
    """Command-line words for arguments as `normalise` gives them.

    `true` is a bare flag, `false` its `--no-` form, a table JSON, a list several words. What is set
    within a JSON argument (`a.b`) has its value in the same word: vLLM takes the next word otherwise.
    """
    words: list[str] = []
    for name, value in args.items():
        match value:
            case bool() | list() | dict() if "." in name:
                words.append(f"--{name}={msgspec.json.encode(value).decode()}")
            case True:
                words.append(f"--{name}")
            case False:
                words.append(f"--no-{name}")
            case dict():
                words += [f"--{name}", msgspec.json.encode(value).decode()]
            case list():
                words += [f"--{name}", *map(str, value)]
            case _:
                # One word, so that a value that begins with a dash is not taken for an option.
                words.append(f"--{name}={value}")
    return words
