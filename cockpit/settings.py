"""The configuration: TOML into strict structs, every mistake named by file, line and key.

A value comes from, first found first taken: a command-line flag, the environment
(`COCKPIT_SECTION_KEY`, such as `COCKPIT_GATEWAY_LISTEN`), the file, the default. An empty variable
counts as unset. `COCKPIT_HOME` and `COCKPIT_PYTHON` are no keys: they say where the folders are and
which interpreter has vLLM.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from cockpit.deployment_rules import deployment_problems, resolved
from cockpit.settings_environment import from_environment, with_value
from cockpit.settings_file import convert, dotted, place, text_of, toml
from cockpit.settings_model import (
    DEFAULT_LISTEN,
    SECTIONS,
    Config,
    ConfigError,
    ConfigFile,
    GatewayConfig,
    NodeConfig,
    StorageConfig,
)
from cockpit.settings_rules import Problem, general_problems, port_of
from engine.model import DeploymentSpec

__all__ = [
    "DEFAULT_LISTEN",
    "Config",
    "ConfigError",
    "ConfigFile",
    "GatewayConfig",
    "NodeConfig",
    "StorageConfig",
    "check",
    "check_deployments",
    "load",
]


def load(path: Path | None, environment: Mapping[str, str], flags: Mapping[str, str] | None = None) -> Config:
    """Read the config.

    Args:
        path: the file; None means that there is none.
        environment: `os.environ`, or a test's.
        flags: values from the command line by dotted key, such as `{"gateway.listen": "…"}`.

    Raises:
        ConfigError: the first thing wrong. Nothing has been touched.
    """
    config, errors = _read(path, environment, flags or {})
    for error in errors:
        raise error
    return config


def check(path: Path, environment: Mapping[str, str]) -> tuple[ConfigError, ...]:
    """Everything wrong with a file; empty when it can be run. A file that cannot be parsed is one error."""
    try:
        _, errors = _read(path, environment, {})
        return tuple(errors)
    except ConfigError as error:
        return (error,)


def check_deployments(
    deployments: Sequence[DeploymentSpec],
    *,
    folder: Path,
    gateway_port: int | None,
    environment: Mapping[str, str],
) -> tuple[DeploymentSpec, ...]:
    """The same rules for deployments that come from elsewhere, such as the launch form.

    Args:
        deployments: all that shall run together, the new ones last.
        folder: what relative paths in `python` and `model` are relative to.
        gateway_port: the port that no engine may take, where it is known.
        environment: whose PATH finds a bare `python`.

    Returns:
        The deployments with absolute paths.

    Raises:
        ConfigError: the first thing wrong, named by deployment and key.
    """
    ready = tuple(resolved(spec, folder) for spec in deployments)
    for problem in deployment_problems(ready, gateway_port=gateway_port, search_path=environment.get("PATH")):
        _, index, *keys = problem.path
        name = ready[int(index)].name
        raise ConfigError(f"engine {name}: `{dotted(tuple(keys))}`: {problem.message}", problem.hint)
    return ready


def _read(
    path: Path | None, environment: Mapping[str, str], flags: Mapping[str, str]
) -> tuple[Config, Iterator[ConfigError]]:
    """The config and, lazily, what its values break."""
    text = text_of(path) if path else ""
    raw = toml(path, text) if path else {}
    file = convert(raw, path, text)
    in_file = {f"{section}.{key}" for section in SECTIONS for key in raw.get(section, {})}
    given = from_environment(environment)
    given |= {key: (value, f"flag for {key}") for key, value in flags.items()}
    for key, (value, origin) in given.items():
        section, _, name = key.partition(".")
        changed = with_value(getattr(file, section), section, name, value, origin)
        file = msgspec.structs.replace(file, **{section: changed})
    folder = path.absolute().parent if path else Path.cwd()
    config = Config(
        node=file.node,
        gateway=file.gateway,
        storage=file.storage,
        engine=tuple(resolved(spec, folder) for spec in file.engine),
        path=path,
        configured=frozenset(in_file | given.keys()),
    )
    problems = itertools.chain(
        general_problems(
            listen=config.gateway.listen,
            node_name=config.node.name,
            socket_group=config.node.socket_group,
            max_body_mib=config.gateway.max_body_mib,
            keep_samples_hours=config.storage.keep_samples_hours,
        ),
        deployment_problems(
            config.engine,
            gateway_port=port_of(config.gateway.listen),
            search_path=environment.get("PATH"),
        ),
    )
    origins = {key: origin for key, (_, origin) in given.items()}
    return config, (_located(problem, path, text, origins) for problem in problems)


def _located(problem: Problem, path: Path | None, text: str, origins: Mapping[str, str]) -> ConfigError:
    key = dotted(problem.path)
    where = origins.get(key) or place(path, text, problem.path)
    return ConfigError(f"{where}: `{key}`: {problem.message}", problem.hint)
