"""The choice of an engine: the ready replica of the asked model with the fewest open requests.

Ties go to the replica that was chosen longest ago, so that an idle fleet is used evenly instead of
from the front of the list. A refusal is a value that says why, since each reason has its own status
and message at the gateway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from engine.routing.names import ModelNames
from engine.routing.replicas import Replica

RETRY_SOON_S = 5
"""Retry hint while a replica is on its way up or passes through a stop: such states last seconds to a
minute, and a client that asks every few seconds costs nothing."""
RETRY_LATE_S = 30
"""Retry hint when every replica waits for an operator."""
PASSING_STATES = frozenset({"starting", "backoff", "draining", "stopping"})
"""States that end without anybody's help."""


class Ask(msgspec.Struct, frozen=True):
    """What a request wants of the fleet."""

    model: str
    pinned: str | None = None
    """The one replica that must answer, or None."""
    tried: frozenset[str] = frozenset()
    """Replicas that could not be reached for this request."""


class Chosen(msgspec.Struct, frozen=True):
    """Send it here."""

    replica: Replica


class UnknownModel(msgspec.Struct, frozen=True):
    """No deployment has that name."""

    model: str
    known: tuple[str, ...]


class UnknownPin(msgspec.Struct, frozen=True):
    """The pinned replica does not exist, or is one of another model."""

    pinned: str
    model: str
    known: tuple[str, ...]
    """Replicas of the asked model."""


class NoneReady(msgspec.Struct, frozen=True):
    """The model is known, but nothing that could answer is ready now."""

    model: str
    states: tuple[tuple[str, str], ...]
    """Each replica that could answer, with its state."""
    retry_after_s: int


Decision = Chosen | UnknownModel | UnknownPin | NoneReady


def choose(
    ask: Ask,
    replicas: Sequence[Replica],
    names: ModelNames,
    in_flight: Mapping[str, int],
    last_chosen: Mapping[str, int],
) -> Decision:
    """Pick a replica.

    Args:
        ask: the request.
        replicas: the snapshot to choose from.
        names: the names of that same snapshot.
        in_flight: open requests by replica; absent means none.
        last_chosen: rising number of each replica's last choice; absent means never.
    """
    deployment = names.deployment(ask.model)
    if deployment is None:
        return UnknownModel(model=ask.model, known=names.ids)
    candidates = [replica for replica in replicas if replica.deployment == deployment]
    if ask.pinned is not None:
        pinned = [replica for replica in candidates if replica.name == ask.pinned]
        if not pinned:
            return UnknownPin(
                pinned=ask.pinned, model=ask.model, known=tuple(replica.name for replica in candidates)
            )
        candidates = pinned
    ready = [replica for replica in candidates if replica.accepts and replica.name not in ask.tried]
    if not ready:
        return NoneReady(
            model=ask.model,
            states=tuple((replica.name, replica.state) for replica in candidates),
            retry_after_s=_retry_after_s(candidates),
        )
    return Chosen(
        min(
            ready,
            key=lambda replica: (in_flight.get(replica.name, 0), last_chosen.get(replica.name, -1)),
        )
    )


def _retry_after_s(candidates: Sequence[Replica]) -> int:
    passing = any(replica.accepts or replica.state in PASSING_STATES for replica in candidates)
    return RETRY_SOON_S if passing else RETRY_LATE_S
