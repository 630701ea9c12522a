"""Values from the environment and from flags, laid over those of the file."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

import msgspec

from cockpit.settings_file import in_words
from cockpit.settings_model import SECTIONS, ConfigError

NOT_KEYS = frozenset({"COCKPIT_HOME", "COCKPIT_PYTHON"})
"""Variables of the cockpit that set no key."""


def from_environment(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Keys set by variables: `section.key` to (value, variable)."""
    known = {
        f"COCKPIT_{section}_{key}".upper(): f"{section}.{key}"
        for section, struct in SECTIONS.items()
        for key in struct.__struct_encode_fields__
    }
    found: dict[str, tuple[str, str]] = {}
    for variable, value in environment.items():
        if not variable.startswith("COCKPIT_") or variable in NOT_KEYS:
            continue
        if variable in known:
            if value:
                found[known[variable]] = (value, variable)
            continue
        section = variable.split("_")[1].lower()
        close = difflib.get_close_matches(variable, known, n=1, cutoff=0.85)
        if section == "engine":
            raise ConfigError(
                f"{variable} sets no key: engines are set in the config file", "unset the variable"
            )
        # Other programs may use the prefix; only a section of ours or a near miss is taken for a mistake.
        if section in SECTIONS or close:
            names = [name for name in known if name.split("_")[1].lower() == section] or list(known)
            nearest = difflib.get_close_matches(variable, names, n=1, cutoff=0.5)
            raise ConfigError(
                f"{variable} sets no known key",
                f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(names)}",
            )
    return found


def with_value(section: msgspec.Struct, name: str, key: str, value: str, origin: str) -> msgspec.Struct:
    """The section with one key set from text."""
    struct = type(section)
    try:
        # Not strict: "32" from the environment is a number where one is wanted.
        part = msgspec.convert({key: value}, struct, strict=False)
    except msgspec.ValidationError as error:
        what = str(error).partition(" - at ")[0]
        wanted = re.search(r"`([a-z| ]+)`", what)
        words = in_words(wanted.group(1)) if wanted else "something else"
        raise ConfigError(f"{origin}: {value!r} is not {words}, which `{name}.{key}` needs", "") from error
    return msgspec.structs.replace(section, **{key: getattr(part, key)})
