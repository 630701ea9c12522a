"""From a file's bytes to `ConfigFile`; what does not fit is named by line and key."""

from __future__ import annotations

import difflib
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from cockpit.settings_model import SECTIONS, ConfigError, ConfigFile
from cockpit.toml_lines import KeyPath, line_of
from engine.model import DeploymentSpec, SimulatedEngine


def text_of(path: Path) -> str:
    """The file's text.

    Raises:
        ConfigError: it is missing, unreadable, or not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")  # editors on Windows write a mark first
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file", "`cockpit config example` prints one to start from"
        ) from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder, not a config file", "name the TOML file in it") from None
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror}", "check its owner and permissions"
        ) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text", "save the file as UTF-8") from error


def toml(path: Path, text: str) -> dict[str, Any]:
    """The text as TOML.

    Raises:
        ConfigError: broken TOML, by line and column.
    """
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ConfigError(f"{path}: broken TOML: nested too deeply", "") from error
    except tomllib.TOMLDecodeError as error:
        what, _, where = str(error).rpartition(" (at ")
        match = re.fullmatch(r"line (\d+), column (\d+)\)", where)
        line, column = match.groups() if match else (str(text.count("\n") + 1), "")
        at = f"{path}:{line}" + (f":{column}" if column else "")
        raise ConfigError(f"{at}: broken TOML: {what or error}", "") from error


_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_STEP = re.compile(r"\.([A-Za-z0-9_]+)|\[(\d+)\]|(\[\.\.\.\])")
_TYPES = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "",
    "datetime": "a date",
    "date": "a date",
    "time": "a time",
}


def convert(raw: dict[str, Any], path: Path | None, text: str) -> ConfigFile:
    """The document as structs.

    Raises:
        ConfigError: an unknown or missing key, or a value of another type.
    """
    try:
        return msgspec.convert(raw, ConfigFile)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        at = _path(where.rstrip("`"), raw)
        raise _structure_error(what, at, path, text) from error


def _path(where: str, raw: Any) -> KeyPath:
    """msgspec's path as keys; `[...]` stands for a table's key, found again by trying each value."""
    steps: list[str | int] = []
    value = raw
    for name, index, anonymous in _STEP.findall(where):
        if anonymous:
            table = steps[-1] if steps else ""
            kind = DeploymentSpec.__annotations__.get(str(table))
            key = next((k for k, v in value.items() if not _fits(str(table), v)), None) if kind else None
            if key is None:
                return tuple(steps)
        else:
            key = int(index) if index else name
        steps.append(key)
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return tuple(steps)
    return tuple(steps)


def _fits(table: str, value: object) -> bool:
    """Whether one value of `args` or `env` is of its type."""
    spec = {"name": "x", "model": "x", table: {"key": value}}
    try:
        msgspec.convert(spec, DeploymentSpec)
    except msgspec.ValidationError:
        return False
    return True


def _structure_error(what: str, at: KeyPath, path: Path | None, text: str) -> ConfigError:
    if unknown := _UNKNOWN.match(what):
        key = unknown.group(1)
        here = (*at, key)
        return ConfigError(
            f"{place(path, text, here)}: unknown key `{dotted(here)}`", _nearest(key, _known_keys(at))
        )
    if missing := _MISSING.match(what):
        return ConfigError(
            f"{place(path, text, at)}: {dotted(at)} has no `{missing.group(1)}`", "it is required"
        )
    message = re.sub(r"`([a-z| ]+)`", lambda match: in_words(match.group(1)), what)
    message = message[:1].lower() + message[1:]
    hint = ""
    if what.startswith("Invalid enum value"):
        message = message.replace("invalid enum value", "no such choice:")
        hint = 'known are "vllm" and "simulated"' if at[-1:] == ("backend",) else ""
    return ConfigError(f"{place(path, text, at)}: `{dotted(at)}`: {message}", hint)


def in_words(types: str) -> str:
    """`int | null` as an operator would say it."""
    return " or ".join(dict.fromkeys(word for t in types.split(" | ") if (word := _TYPES.get(t, t))))


def _known_keys(at: KeyPath) -> list[str]:
    """Keys of the struct at a path."""
    struct: type[msgspec.Struct] = ConfigFile
    for step in at:
        if isinstance(step, int):
            struct = DeploymentSpec
        elif step in SECTIONS:
            struct = SECTIONS[step]
        elif step == "simulated":
            struct = SimulatedEngine
    return list(struct.__struct_encode_fields__)


def _nearest(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key.replace("-", "_").lower(), known, n=1, cutoff=0.5)
    return f"did you mean `{close[0]}`?" if close else f"known are {', '.join(known)}"


def dotted(path: KeyPath) -> str:
    """`engine[0].port`: indexes from 0, as TOML tools and JSON schema checkers count."""
    words = ""
    for step in path:
        words += f"[{step}]" if isinstance(step, int) else f".{step}"
    return words.lstrip(".")


def place(path: Path | None, text: str, at: KeyPath) -> str:
    """`file:line` of a key, as far as it has one."""
    line = line_of(text, at)
    return f"{path}:{line}" if line else str(path or "config")
