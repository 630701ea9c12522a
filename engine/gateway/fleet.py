"""The gateway's view of the engines: the newest snapshot, its names, and what is open on each."""

from __future__ import annotations

from engine.gateway.in_flight import InFlight
from engine.routing.least_in_flight import Ask, Chosen, Decision, choose
from engine.routing.names import ModelNames, model_names
from engine.routing.replicas import Replica, ReplicaTable


class Fleet:
    """Answers from the snapshot of the moment; names are collected once for each snapshot."""

    def __init__(self, table: ReplicaTable) -> None:
        self.in_flight = InFlight()
        self._table = table
        self._named: tuple[Replica, ...] = ()
        self._names = model_names(())
        self._choices = 0
        self._last_chosen: dict[str, int] = {}

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """All replicas now."""
        return self._table()

    @property
    def names(self) -> ModelNames:
        """The models' names now."""
        replicas = self._table()
        if replicas is not self._named:
            self._named, self._names = replicas, model_names(replicas)
        return self._names

    def choose(self, ask: Ask) -> Decision:
        """Choose a replica; the caller counts the request on it before it awaits anything."""
        decision = choose(ask, self.replicas, self.names, self.in_flight.counts, self._last_chosen)
        if isinstance(decision, Chosen):
            self._choices += 1
            self._last_chosen[decision.replica.name] = self._choices
        return decision
