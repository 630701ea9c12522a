"""Binding the port that clients reach."""

from __future__ import annotations

import asyncio
import errno
import socket

from engine.errors import GatewayError
from engine.gateway.port_holder import port_holder


async def bind(host: str, port: int) -> socket.socket:
    """Bind a TCP socket; port 0 takes a free one.

    Raises:
        GatewayError: names host and port, why it cannot be had, and what to do.
    """
    where = f"{host}:{port}"
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError, OverflowError) as error:
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
    except (OSError, OverflowError) as error:
        bound.close()
        raise await _cannot_bind(where, port, error) from error
    bound.setblocking(False)
    return bound


async def _cannot_bind(where: str, port: int, error: OSError | OverflowError) -> GatewayError:
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EADDRINUSE:
        holder = await asyncio.to_thread(port_holder, port)
        by = f" by {holder.name} (pid {holder.pid})" if holder else ""
        return GatewayError(
            f"the gateway cannot listen on {where}: the port is taken{by}",
            "stop what holds it, or set [gateway] listen to a free port",
        )
    if number == errno.EACCES:
        return GatewayError(
            f"the gateway cannot listen on {where}: ports below 1024 need root",
            "set [gateway] listen to a port from 1024 on",
        )
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return GatewayError(
        f"the gateway cannot listen on {where}: {reason}",
        "set [gateway] listen to an address of this machine and a port up to 65535",
    )
