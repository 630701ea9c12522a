"""The environment that an engine starts with: the node's own, less what would mislead its interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

MISLEADING = frozenset(
    {
        "PYTHONHOME",
        "PYTHONPATH",  # of the cockpit's environment, not of the engine's
        "VIRTUAL_ENV",
        "PYTHONSTARTUP",
        "CUDA_VISIBLE_DEVICES",  # devices are given by UUID; a mask would shift or hide them
        "VLLM_USE_RUST_FRONTEND",  # bypasses the Python routes that the cockpit relies on
        "VLLM_API_KEY",
        "VLLM_PORT",
    }
)
"""Variables of the node that an engine must not inherit."""


def engine_environment(
    inherited: Mapping[str, str], python: str, own: Mapping[str, str], api_key: str
) -> dict[str, str]:
    """The inherited variables, the deployment's own, and the key that guards the engine."""
    env = {k: v for k, v in inherited.items() if k not in MISLEADING and not k.startswith("COCKPIT_")}
    # Build tools that kernels are compiled with (ninja) live beside the interpreter.
    env["PATH"] = f"{Path(python).parent}:{env.get('PATH', '/usr/local/bin:/usr/bin:/bin')}"
    env["PYTHONUNBUFFERED"] = "1"
    return env | dict(own) | {"VLLM_API_KEY": api_key}
