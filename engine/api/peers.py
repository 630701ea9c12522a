"""Who is at the other end of the socket, by the kernel's word."""

from __future__ import annotations

import os
import pwd
import socket
import struct
from asyncio import BaseTransport

from engine.events import Actor

_CREDENTIALS = struct.Struct("3i")
"""`struct ucred`: pid, uid, gid (unix(7))."""

UNKNOWN = Actor(name="unknown")


def peer(transport: BaseTransport | None) -> Actor:
    """The user of a Unix-socket connection; `UNKNOWN` where the kernel does not say."""
    found = transport.get_extra_info("socket") if transport is not None else None
    if found is None:
        return UNKNOWN
    try:
        # uvloop's stand-in object has no getsockopt; a duplicate of its descriptor does.
        with socket.socket(fileno=os.dup(found.fileno())) as real:
            raw = real.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return UNKNOWN
    _pid, uid, _gid = _CREDENTIALS.unpack(raw)
    return Actor(name=user_name(uid), uid=uid)


def user_name(uid: int) -> str:
    """The login of a uid, or `uid N` where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
