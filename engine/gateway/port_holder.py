"""Who listens on a TCP port, as far as /proc tells."""

from __future__ import annotations

from pathlib import Path

import msgspec

LISTEN = "0A"
"""TCP_LISTEN in the `st` column of /proc/net/tcp (proc_pid_net(5))."""


class PortHolder(msgspec.Struct, frozen=True):
    """A process that listens."""

    pid: int
    name: str


def port_holder(port: int, proc: Path = Path("/proc")) -> PortHolder | None:
    """The process that listens on the port, or None: it belongs to another user, or is gone."""
    inodes = _listening_inodes(port, proc)
    if not inodes:
        return None
    for folder in proc.iterdir():
        if folder.name.isdigit() and _holds(folder, inodes):
            try:
                name = (folder / "comm").read_text().strip()
            except OSError:
                name = "?"
            return PortHolder(pid=int(folder.name), name=name)
    return None


def _listening_inodes(port: int, proc: Path) -> frozenset[str]:
    inodes = set()
    for table in ("net/tcp", "net/tcp6"):
        try:
            rows = (proc / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            columns = row.split()
            if columns[3] == LISTEN and int(columns[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{columns[9]}]")
    return frozenset(inodes)


def _holds(folder: Path, inodes: frozenset[str]) -> bool:
    try:
        descriptors = list((folder / "fd").iterdir())
    except OSError:
        return False
    for descriptor in descriptors:
        try:
            target = str(descriptor.readlink())
        except OSError:
            continue
        if target in inodes:
            return True
    return False
