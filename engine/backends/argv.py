"""vLLM's arguments from the config's `args` table, checked against what the cockpit sets itself."""

from __future__ import annotations

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
    "grpc-port": "it would open a port around the gateway",
    "config": "write the keys of that file into `args`, where they can be checked",
    "root-path": "the gateway expects the routes at the root",
    "ssl-keyfile": "engines listen on a private Unix socket",
    "ssl-certfile": "engines listen on a private Unix socket",
    "disable-log-stats": "it would remove every metric",
    "data-parallel-supervisor-port": "the cockpit chooses it",
}
"""Arguments that the cockpit sets or forbids, and why."""


def normalise(args: Mapping[str, ArgValue], where: str) -> dict[str, ArgValue]:
    """Arguments by their dashed names.

    Raises:
        SpecError: a key that the cockpit sets itself (or an abbreviation of one, which argparse
            would accept), or one written twice, with dashes and with underscores.
    """
    found: dict[str, ArgValue] = {}
    for key, value in args.items():
        name = key.lstrip("-").replace("_", "-")
        positive = name.removeprefix("no-")
        for reserved, why in RESERVED.items():
            if not positive:
                raise SpecError(f"{where}.args has an empty key", "name the argument without dashes")
            if reserved.startswith(positive):
                raise SpecError(
                    f"{where}.args.{key} is set by the cockpit: {why}", f"remove `{key}` from args"
                )
        if name in found:
            raise SpecError(f"{where}.args has {name} twice, with dashes and underscores", "keep one of them")
        found[name] = value
    return found


def flags(args: Mapping[str, ArgValue]) -> list[str]:
    """Command-line words: `true` a bare flag, `false` its `--no-` form, a table JSON, a list several words."""
    words: list[str] = []
    for name, value in args.items():
        match value:
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
