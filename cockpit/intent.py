"""From a command and what is remembered to what this node shall run; checked before anything is touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from cockpit.paths import Paths
from cockpit.settings import Config, GatewayConfig, NodeConfig, StorageConfig, load
from cockpit.startup import SIMULATED, NothingToRunError, Source, Start, choose, is_simulated
from engine.errors import EngineError, SpecError
from engine.model import DeploymentSpec
from engine.simulator.profiles import profile as find_profile

ORIGIN = "node.origin"
SECTIONS = "node.sections"


class IntentError(EngineError):
    """Nothing to run."""


class Sections(msgspec.Struct, frozen=True):
    """The config's sections as the last start had them, for a start that resumes."""

    node: NodeConfig
    gateway: GatewayConfig
    storage: StorageConfig
    listen_is_configured: bool
    simulated: bool = False
    """Whether the machine was; what resumes without deployments cannot tell otherwise."""


class Memory(Protocol):
    """What was remembered of the last run."""

    async def setting(self, key: str) -> str | None: ...
    async def deployments(self) -> tuple[DeploymentSpec, ...]: ...


@dataclass(frozen=True, slots=True)
class Intent:
    """What to run."""

    source: Source
    origin: str
    """`sim:PROFILE`, a config's path, or empty."""
    profile: str | None
    simulated: bool
    sections: Sections
    deployments: tuple[DeploymentSpec, ...]

    @property
    def replaces(self) -> bool:
        """Whether what was deployed before is to be forgotten."""
        return self.source in (Source.FILE, Source.PROFILE)

    @property
    def listen(self) -> tuple[str, int]:
        """Address for the gateway: a simulated node takes a free port unless one is configured."""
        gateway = self.sections.gateway
        free = self.simulated and not self.sections.listen_is_configured
        return gateway.host, 0 if free else gateway.port


async def read_intent(
    start: Start, where: Paths, memory: Memory, environment: Mapping[str, str], *, has_gpus: bool
) -> Intent:
    """Decide and read.

    Raises:
        ConfigError: the config is wrong.
        SpecError: an unknown profile, or simulated and real engines together.
        IntentError: nothing to run.
    """
    default = where.config_file if where.config_file.is_file() else None
    origin = await memory.setting(ORIGIN)
    try:
        choice = choose(start, origin=origin, default_config=default, has_gpus=has_gpus)
    except NothingToRunError as error:
        raise IntentError(
            "nothing has run in this state folder yet", "`cockpit up -c FILE`, or `cockpit up --sim h100x8`"
        ) from error
    flags = {"gateway.listen": start.listen} if start.listen else {}
    file = choice.config if choice.source is Source.FILE else None
    config = load(file, environment, flags)
    sections = Sections(config.node, config.gateway, config.storage, config.listen_is_configured)
    match choice.source:
        case Source.FILE:
            deployments = config.engine
            new_origin = str(choice.config)
        case Source.PROFILE:
            assert choice.profile is not None
            deployments = find_profile(choice.profile).deployments
            new_origin = SIMULATED + choice.profile
        case Source.RESUME:
            deployments = await memory.deployments()
            new_origin = origin or ""
            sections = await _resumed(memory, sections, config)
        case Source.EMPTY:
            deployments, new_origin = (), ""
    _refuse_mixture(deployments)
    simulated = is_simulated(choice.profile, deployments)
    if choice.source is Source.RESUME and not deployments:
        simulated = simulated or sections.simulated
    return Intent(
        source=choice.source,
        origin=new_origin,
        profile=choice.profile,
        simulated=simulated,
        sections=msgspec.structs.replace(sections, simulated=simulated),
        deployments=deployments,
    )


async def _resumed(memory: Memory, given: Sections, config: Config) -> Sections:
    """The remembered sections, under what flags and environment say now."""
    raw = await memory.setting(SECTIONS)
    if raw is None:
        return given
    try:
        last = msgspec.json.decode(raw, type=Sections)
    except msgspec.DecodeError:
        return given
    for key in config.configured:
        section, _, name = key.partition(".")
        value = getattr(getattr(given, section), name)
        changed = msgspec.structs.replace(getattr(last, section), **{name: value})
        last = msgspec.structs.replace(last, **{section: changed})
    if given.listen_is_configured:
        last = msgspec.structs.replace(last, listen_is_configured=True)
    return last


def _refuse_mixture(deployments: tuple[DeploymentSpec, ...]) -> None:
    kinds = {spec.backend for spec in deployments}
    if len(kinds) > 1:
        names = ", ".join(spec.name for spec in deployments if spec.backend == "simulated")
        raise SpecError(
            f"simulated and real engines cannot share a node: {names} would be simulated",
            "run them in another state folder (COCKPIT_HOME)",
        )
