"""What it takes to launch one engine."""

from __future__ import annotations

from typing import Protocol

import msgspec

from engine.model import Endpoint, ReplicaSpec


class LaunchPlan(msgspec.Struct, frozen=True):
    """A command, ready to run. Secrets stand in `env`, never in `argv`: everybody can read a command line."""

    argv: tuple[str, ...]
    env: dict[str, str]
    """The whole environment of the process."""
    endpoint: Endpoint
    served_name: str
    """Model name that the engine answers to."""
    model_name: str
    """The underlying model, as other names for it at the gateway."""
    version: str | None = None
    """vLLM's version, where an interpreter was asked."""


class Backend(Protocol):
    """A kind of engine."""

    def check(self, replica: ReplicaSpec) -> None:
        """Refuse what could not be launched, before anything is touched.

        Raises:
            SpecError: names the key and the remedy.
        """
        ...

    def plan(self, replica: ReplicaSpec, endpoint: Endpoint, api_key: str) -> LaunchPlan:
        """The command for one launch."""
        ...
