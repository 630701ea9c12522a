"""Where the cockpit keeps its files.

| what | default | under `COCKPIT_HOME` |
|---|---|---|
| config | `~/.config/vllm-cockpit/cockpit.toml` | `config/cockpit.toml` |
| state: database, logs, lock | `~/.local/state/vllm-cockpit` | `state` |
| user themes | `~/.config/vllm-cockpit/themes` | `config/themes` |
| sockets | `run` in the state folder, or a short private folder in /tmp where that path is too long | same |

A Unix socket path holds at most 107 bytes on Linux, so a deep state folder cannot keep its sockets inside.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

APP = "vllm-cockpit"
SOCKET_PATH_LIMIT_BYTES = 107
"""`sun_path` is 108 bytes with its terminating zero (unix(7))."""
LONGEST_SOCKET_NAME_BYTES = len("/engines/") + 16 + len(".sock")
"""What the longest socket name adds to the run folder."""


@dataclass(frozen=True, slots=True)
class Paths:
    """The folders of one cockpit."""

    config_dir: Path
    state_dir: Path
    run_dir: Path
    """Sockets; 0700, or reachable by the group that `[node] socket_group` names."""

    @property
    def config_file(self) -> Path:
        """The config that is read when none is named."""
        return self.config_dir / "cockpit.toml"

    @property
    def themes_dir(self) -> Path:
        """The user's own themes."""
        return self.config_dir / "themes"

    @property
    def database(self) -> Path:
        """The SQLite file."""
        return self.state_dir / "cockpit.db"

    @property
    def lock(self) -> Path:
        """Locked by the one node of this state folder."""
        return self.state_dir / "node.lock"

    @property
    def node_log(self) -> Path:
        """What the node itself has to say."""
        return self.state_dir / "node.log"

    @property
    def logs_dir(self) -> Path:
        """One file per launch of an engine."""
        return self.state_dir / "logs"

    @property
    def api_socket(self) -> Path:
        """The node's API."""
        return self.run_dir / "api.sock"

    @property
    def engine_sockets_dir(self) -> Path:
        """0700: nobody reaches an engine around the gateway."""
        return self.run_dir / "engines"


def find(environment: Mapping[str, str] | None = None) -> Paths:
    """The folders for this user and environment; creates nothing."""
    env = os.environ if environment is None else environment
    home = env.get("COCKPIT_HOME")
    if home:
        root = Path(home).expanduser().absolute()
        config_dir, state_dir = root / "config", root / "state"
    else:
        config_dir = Path(platformdirs.user_config_dir(APP, appauthor=False))
        state_dir = Path(platformdirs.user_state_dir(APP, appauthor=False))
    return Paths(config_dir, state_dir, run_folder(state_dir))


def run_folder(state_dir: Path) -> Path:
    """The folder for sockets of this state folder: the same answer for every process that asks.

    The short one is in /tmp, whatever TMPDIR and XDG_RUNTIME_DIR say: they differ between a login, cron and
    systemd, and the system removes the latter at logout, which the node outlives.
    """
    inside = state_dir / "run"
    if len(os.fsencode(inside)) + LONGEST_SOCKET_NAME_BYTES <= SOCKET_PATH_LIMIT_BYTES:
        return inside
    digest = hashlib.sha256(os.fsencode(state_dir)).hexdigest()[:12]
    return Path("/tmp") / f"cockpit-{os.getuid()}-{digest}"
