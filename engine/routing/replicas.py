"""The replicas that requests may go to, as the supervisor publishes them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from engine.model import Endpoint


class Replica(msgspec.Struct, frozen=True):
    """One engine as the gateway needs to know it."""

    name: str
    """`deployment/index`."""
    deployment: str
    model: str
    """The underlying model's name: an alias of the deployment while it is unambiguous."""
    served_name: str
    """Name the engine itself answers to; the gateway writes it into the body."""
    endpoint: Endpoint
    api_key: str
    accepts: bool
    """True while the engine is ready; a draining, starting or failed one is listed but gets nothing new."""
    state: str
    """The state in words, for error messages."""
    generation: int
    """Rises with every launch, so that a connection pool of a dead process is dropped."""


ReplicaTable = Callable[[], tuple[Replica, ...]]
"""The newest frozen snapshot of all replicas."""
