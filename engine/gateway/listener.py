"""Binding the port that clients reach."""

from __future__ import annotations

import asyncio
import errno
import socket

from engine.errors import GatewayError
from engine.gateway.port_holder import port_holder

MAX_PORT = 65_535


async def bind(host: str, port: int) -> socket.socket:
    """Bind a TCP socket; port 0 takes a free one.

    Raises:
        GatewayError: names host and port, why it cannot be had, and what to do.
    """
    where = f"{host}:{port}"
    if not 0 <= port <= MAX_PORT:
        # The resolver would take it modulo 65536.
        raise GatewayError(
            f"the gateway cannot listen on {where}: there is no such port",
            f"set [gateway] listen to a port up to {MAX_PORT}",
        )
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        raise GatewayError(
            f"the gateway cannot listen on {where}: {error}",
            "set [gateway] listen to an address of this machine",
        ) from error
    family, kind, protocol, _, address = found[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        # A second listener is noticed here only, where the first one set SO_REUSEADDR as well.
        bound.listen()
    except OSError as error:
        bound.close()
        raise await _cannot_bind(where, port, error) from error
    bound.setblocking(False)
    return bound


async def _cannot_bind(where: str, port: int, error: OSError) -> GatewayError:
    if error.errno == errno.EADDRINUSE:
        holder = await asyncio.to_thread(port_holder, port)
        by = f" by {holder.name} (pid {holder.pid})" if holder else ""
        return GatewayError(
            f"the gateway cannot listen on {where}: the port is taken{by}",
            "stop what holds it, or set [gateway] listen to a free port",
        )
    if error.errno == errno.EACCES:
        return GatewayError(
            f"the gateway cannot listen on {where}: ports below 1024 need root",
            "set [gateway] listen to a port from 1024 on",
        )
    return GatewayError(
        f"the gateway cannot listen on {where}: {error.strerror or error}",
        "set [gateway] listen to an address of this machine",
    )
