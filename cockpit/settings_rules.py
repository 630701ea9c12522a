"""What `[node]`, `[gateway]` and `[storage]` may say that is well formed and still cannot run."""

from __future__ import annotations

import grp
import ipaddress
import math
import re
from collections.abc import Iterator

import msgspec

from cockpit.toml_lines import KeyPath

HOST_NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9-]+)*")
LAST_PORT = 65_535


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong, and where."""

    path: KeyPath
    message: str
    hint: str = ""


def general_problems(
    *,
    listen: str,
    node_name: str,
    socket_group: str | None,
    max_body_mib: int,
    keep_samples_hours: float,
) -> Iterator[Problem]:
    """What is wrong outside `[[engine]]`."""
    if not node_name.strip() or not node_name.isprintable() or len(node_name) > 63:
        yield Problem(("node", "name"), f"{node_name!r} is no name", "use 1 to 63 printable characters")
    if socket_group is not None and not _group_exists(socket_group):
        yield Problem(
            ("node", "socket_group"), f"there is no group {socket_group!r} here", "`getent group` lists them"
        )
    if port_of(listen) is None:
        yield Problem(
            ("gateway", "listen"),
            f"{listen!r} is no address with a port from 0 to {LAST_PORT}",
            'write it as "127.0.0.1:8000" or "[::1]:8000"',
        )
    if max_body_mib < 1:
        yield Problem(("gateway", "max_body_mib"), f"must be at least 1, not {max_body_mib}")
    if not (keep_samples_hours > 0 and math.isfinite(keep_samples_hours)):
        yield Problem(("storage", "keep_samples_hours"), f"must be more than 0, not {keep_samples_hours:g}")


def port_of(listen: str) -> int | None:
    """The port of `host:port`, or None when it is no such address."""
    host, _, port = listen.rpartition(":")
    if not re.fullmatch(r"\d{1,5}", port, re.ASCII) or int(port) > LAST_PORT:
        return None
    if host.startswith("[") and host.endswith("]"):
        return int(port) if _is_ip(host[1:-1], 6) else None
    if re.fullmatch(r"[\d.]+", host):
        return int(port) if _is_ip(host, 4) else None
    return int(port) if HOST_NAME.fullmatch(host) else None


def _is_ip(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version
    except ValueError:
        return False


def _group_exists(name: str) -> bool:
    try:
        grp.getgrnam(name)
    except KeyError:
        return False
    return True
