"""What a config file holds, and the error for everything that can be wrong with one."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec

from engine.model import DeploymentSpec

DEFAULT_LISTEN = "127.0.0.1:8000"


class ConfigError(Exception):
    """Bad input from a config file, the environment or a flag: one line, and a remedy."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        """Names file, line and key, and says what is wrong."""
        self.hint = hint
        """What to do next, or empty."""

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class NodeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The node process."""

    name: str = msgspec.field(default_factory=socket.gethostname)
    """What the machine is called on screens; default: the host name."""
    socket_group: str | None = None
    """Unix group that may use the node's API besides its owner; default: nobody else may."""


class GatewayConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The OpenAI-compatible endpoint."""

    listen: str = DEFAULT_LISTEN
    """`host:port` to bind; port 0 takes a free one. A simulated node takes a free port unless this is set."""
    max_body_mib: int = 32
    """Largest request body, MiB; a larger one is answered with 413."""

    @property
    def host(self) -> str:
        """The host of `listen`, without brackets."""
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The port of `listen`."""
        return int(self.listen.rpartition(":")[2])


class StorageConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The state database."""

    keep_samples_hours: float = 24.0
    """How long samples of GPUs and engines are kept, hours; events and conversations are kept always."""


class ConfigFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A whole config file."""

    node: NodeConfig = msgspec.field(default_factory=NodeConfig)
    gateway: GatewayConfig = msgspec.field(default_factory=GatewayConfig)
    storage: StorageConfig = msgspec.field(default_factory=StorageConfig)
    engine: tuple[DeploymentSpec, ...] = ()
    """The deployments, one `[[engine]]` each."""


class Config(msgspec.Struct, frozen=True):
    """What holds for this start: file, environment and flags put together and checked."""

    node: NodeConfig
    gateway: GatewayConfig
    storage: StorageConfig
    engine: tuple[DeploymentSpec, ...]
    """Paths in `python` and `model` are absolute."""
    path: Path | None = None
    """The file read, or None."""
    configured: frozenset[str] = frozenset()
    """Keys of `[node]`, `[gateway]`, `[storage]` that somebody set, such as `gateway.listen`."""

    @property
    def listen_is_configured(self) -> bool:
        """False when the gateway's address is only the default."""
        return "gateway.listen" in self.configured


SECTIONS: dict[str, type[msgspec.Struct]] = {
    "node": NodeConfig,
    "gateway": GatewayConfig,
    "storage": StorageConfig,
}
