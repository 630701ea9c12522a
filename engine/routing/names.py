"""The names under which clients may ask for a model."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engine.routing.replicas import Replica


class ModelName(msgspec.Struct, frozen=True):
    """One entry of `/v1/models`."""

    id: str
    """The deployment's name."""
    model: str
    """The underlying model: a Hugging Face id or a folder."""


class ModelNames(msgspec.Struct, frozen=True):
    """Which names mean which deployment, in one snapshot of the replicas."""

    listing: tuple[ModelName, ...]
    """Every deployment once, in the order of the replicas."""
    aliases: dict[str, str]
    """Underlying model's name to the one deployment that has it."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The deployments' names."""
        return tuple(entry.id for entry in self.listing)

    def deployment(self, asked: str) -> str | None:
        """The deployment meant by `asked`, or None. A deployment's own name wins over an alias."""
        if any(entry.id == asked for entry in self.listing):
            return asked
        return self.aliases.get(asked)

    def entry(self, asked: str) -> ModelName | None:
        """The listing's entry that `asked` means, or None."""
        name = self.deployment(asked)
        return next((entry for entry in self.listing if entry.id == name), None)


def model_names(replicas: Sequence[Replica]) -> ModelNames:
    """Collect the names; a model that two deployments share is no alias of either."""
    models = {replica.deployment: replica.model for replica in replicas}
    owners: dict[str, list[str]] = {}
    for deployment, model in models.items():
        owners.setdefault(model, []).append(deployment)
    return ModelNames(
        listing=tuple(ModelName(id=deployment, model=model) for deployment, model in models.items()),
        aliases={model: named[0] for model, named in owners.items() if len(named) == 1},
    )
