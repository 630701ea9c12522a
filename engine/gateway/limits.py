"""Bounds of the gateway, in one struct so that the configuration and tests can set them."""

from __future__ import annotations

import msgspec


class GatewayLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much and how long."""

    body_bytes: int = 32 * 2**20
    """Largest request body; a chat with a few images is some MiB."""
    body_idle_s: float = 60.0
    """Longest pause of a client within its request body."""
    connect_s: float = 5.0
    """Longest wait for a connection to an engine; a local accept takes microseconds."""
    silence_s: float = 600.0
    """Longest wait for the next byte of an engine. Long, because a queued or long prompt gives no byte
    until its first token; finite, because a hung engine must not hold requests for ever."""
    client_stall_s: float = 600.0
    """Longest time that a client may leave its answer unread while the engine is held back for it."""
    client_idle_s: float = 75.0
    """How long an idle client connection is kept."""
    linger_s: float = 2.0
    """How long the rest of a refused body is read and dropped, so that the client sees the refusal
    instead of a reset."""
    answer_buffer_bytes: int = 2**20
    """Up to here an answer that is no stream is collected before its first byte goes out, so that an
    engine that breaks within it gives a clean 502 instead of a cut connection."""
