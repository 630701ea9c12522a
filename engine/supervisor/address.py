"""Where an engine listens."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import socket
from pathlib import Path

from engine.errors import LaunchError
from engine.model import Endpoint, ReplicaSpec

SOCKET_PATH_LIMIT_BYTES = 107
"""`sun_path` holds 108 bytes with its terminating zero (unix(7))."""
NAME_LIMIT = 16
"""Characters of a socket's name: run folders are chosen so that this much still fits."""
LOOPBACK = "127.0.0.1"


class PortTakenError(LaunchError):
    """The port of an engine that must listen on TCP has another holder; it may let go of it."""


def socket_name(engine: str) -> str:
    """A short file name, the same at every launch: `qwen-0`, or a cropped name with a digest."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", engine)
    if len(plain) <= NAME_LIMIT:
        return plain
    return f"{plain[:7]}-{hashlib.sha256(engine.encode()).hexdigest()[:8]}"


def claim(replica: ReplicaSpec, sockets_dir: Path) -> Endpoint:
    """The address for a launch, made free: a stale socket is removed, a taken port refused.

    vLLM does not unlink a stale socket and fails after 15 s of imports.

    Raises:
        LaunchError: the path is too long, the folder is not writable, or the port cannot be had.
        PortTakenError: somebody listens there.
    """
    if replica.deployment.port is not None:
        return _claim_port(replica, replica.deployment.port + replica.index)
    path = sockets_dir / f"{socket_name(replica.name)}.sock"
    if len(os.fsencode(path)) > SOCKET_PATH_LIMIT_BYTES:
        raise LaunchError(
            f"socket path {path} is longer than the {SOCKET_PATH_LIMIT_BYTES} bytes that Linux allows",
            "set COCKPIT_HOME to a shorter folder",
        )
    try:
        sockets_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        sockets_dir.chmod(0o700)  # mkdir's mode does not touch a folder that exists
        path.unlink(missing_ok=True)
    except OSError as error:
        raise LaunchError(
            f"{sockets_dir} cannot be prepared: {error.strerror}", "free or unlock it"
        ) from error
    return Endpoint(uds=str(path))


def release(endpoint: Endpoint | None) -> None:
    """Remove what a gone engine left of its address."""
    if endpoint is not None and endpoint.uds:
        with contextlib.suppress(OSError):  # the next launch says so if it matters
            Path(endpoint.uds).unlink(missing_ok=True)


def _claim_port(replica: ReplicaSpec, port: int) -> Endpoint:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OverflowError as error:
            raise LaunchError(
                f"engine {replica.name}: there is no port {port}", "choose a lower `port`"
            ) from error
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise LaunchError(
                    f"engine {replica.name}: port {port} cannot be had: {error.strerror}",
                    "choose another `port`",
                ) from error
            raise PortTakenError(
                f"engine {replica.name}: port {port} is in use",
                f"choose another `port`, or end its holder (`ss -lptn 'sport = :{port}'`)",
            ) from error
    return Endpoint(host=LOOPBACK, port=port)
