"""What a node is to run when it starts."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from engine.model import DeploymentSpec


@dataclass(frozen=True, slots=True)
class Start:
    """What the command asked for."""

    config: Path | None = None
    profile: str | None = None
    listen: str | None = None
    auto: bool = False
    """With nothing to resume: take what the machine has, rather than refuse."""


class Source(enum.Enum):
    """Where the deployments come from."""

    FILE = "file"
    PROFILE = "profile"
    RESUME = "resume"
    EMPTY = "empty"
    """Real GPUs, nothing deployed: the interface offers a form."""


class NothingToRunError(Exception):
    """No file, no profile, and nothing ran here before."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What to run."""

    source: Source
    config: Path | None = None
    profile: str | None = None


DEFAULT_PROFILE = "h100x8"
SIMULATED = "sim:"
"""Prefix of an origin that names a profile."""


def choose(start: Start, *, origin: str | None, default_config: Path | None, has_gpus: bool) -> Choice:
    """Decide what to run.

    Args:
        origin: what the state folder ran last: `sim:PROFILE`, a config's path, `""` for a node
            without either, or None when nothing ran yet.
        default_config: the user's config file, if it exists.
        has_gpus: whether NVML can be loaded.

    Raises:
        NothingToRunError: nothing to resume and nothing asked for.
    """
    if start.profile is not None:
        return Choice(Source.PROFILE, profile=start.profile)
    if start.config is not None:
        return Choice(Source.FILE, config=start.config)
    if origin is not None:
        profile = origin.removeprefix(SIMULATED) if origin.startswith(SIMULATED) else None
        return Choice(Source.RESUME, config=Path(origin) if origin and not profile else None, profile=profile)
    if default_config is not None:
        return Choice(Source.FILE, config=default_config)
    if not start.auto:
        raise NothingToRunError
    if has_gpus:
        return Choice(Source.EMPTY)
    return Choice(Source.PROFILE, profile=DEFAULT_PROFILE)


def is_simulated(profile: str | None, deployments: tuple[DeploymentSpec, ...]) -> bool:
    """Whether the node shows simulated GPUs: for a profile, and where every engine is simulated."""
    if profile is not None:
        return True
    return bool(deployments) and all(spec.backend == "simulated" for spec in deployments)
