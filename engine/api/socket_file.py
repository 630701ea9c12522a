"""Who may reach the node's socket: its folder's and its own mode and group."""

from __future__ import annotations

import grp
import os
import stat
from pathlib import Path

from engine.errors import LaunchError, SpecError


def own_folder(folder: Path) -> None:
    """Make the socket's folder private.

    Raises:
        LaunchError: somebody else made it, as anybody can in /tmp: the socket would be in their hands.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise LaunchError(
            f"the folder {folder} for the node's socket is not a folder of yours",
            "remove it, or set COCKPIT_HOME to a folder with a shorter path",
        )
    folder.chmod(0o700)


def give_to(group: str, path: Path) -> None:
    """Let a group use the socket: it may enter the folder, not list it.

    Raises:
        SpecError: there is no such group, or it is none of this user's.
    """
    try:
        gid = grp.getgrnam(group).gr_gid
        os.chown(path.parent, -1, gid)
        os.chown(path, -1, gid)
    except KeyError as error:
        raise SpecError(
            f"[node] socket_group: there is no group {group}", "create it, or remove the key"
        ) from error
    except PermissionError as error:
        raise SpecError(
            f"[node] socket_group: you are not a member of {group}", "join it, or remove the key"
        ) from error
    path.parent.chmod(0o710)
    path.chmod(0o660)
