"""Simulated machines by name: GPUs, deployments and the gentle load on them.

`kv_blocks` follows from `kv_bytes` and the KV bytes that a token of the real model takes in bfloat16
(`2 * layers * kv_heads * head_dim * 2`): 147 456 for Qwen3-8B, 98 304 for Qwen3-30B-A3B, 57 344 for
Qwen2.5-Coder-7B, 40 960 for SmolLM2-360M. The decode times are of the order of single H100s and L40Ss,
rounded; they were not measured on such GPUs.
"""

from __future__ import annotations

from difflib import get_close_matches

import msgspec

from engine.errors import SpecError
from engine.model import DeploymentSpec, SimulatedEngine
from engine.simulator.hardware import H100X8, L40SX2, SimulatedGpu


class Profile(msgspec.Struct, frozen=True):
    """One simulated machine."""

    name: str
    gpus: tuple[SimulatedGpu, ...]
    deployments: tuple[DeploymentSpec, ...]


_GIB = 2**30

_H100X8 = Profile(
    name="h100x8",
    gpus=H100X8,
    deployments=(
        DeploymentSpec(
            name="qwen",
            model="Qwen/Qwen3-8B",
            backend="simulated",
            gpus=[0, 1, 2, 3],
            start_timeout_s=120.0,
            simulated=SimulatedEngine(
                prefill_tokens_per_s=24_000.0,
                decode_base_s=0.015,
                decode_per_seq_s=0.0004,
                kv_blocks=10_922,
                max_num_seqs=64,
                max_model_len=32_768,
                startup_s=3.0,
                weights_bytes=16 * _GIB,
                kv_bytes=24 * _GIB,
                load_rps=1.2,
            ),
        ),
        DeploymentSpec(
            name="moe",
            model="Qwen/Qwen3-30B-A3B",
            backend="simulated",
            gpus=[[4, 5]],
            start_timeout_s=120.0,
            simulated=SimulatedEngine(
                prefill_tokens_per_s=16_000.0,
                decode_base_s=0.020,
                decode_per_seq_s=0.0007,
                kv_blocks=27_306,
                max_num_seqs=48,
                max_model_len=32_768,
                startup_s=5.0,
                weights_bytes=57 * _GIB,
                kv_bytes=40 * _GIB,
                load_rps=0.4,
            ),
        ),
        DeploymentSpec(
            name="coder",
            model="Qwen/Qwen2.5-Coder-7B-Instruct",
            backend="simulated",
            gpus=[6],
            start_timeout_s=120.0,
            simulated=SimulatedEngine(
                prefill_tokens_per_s=26_000.0,
                decode_base_s=0.014,
                decode_per_seq_s=0.0004,
                kv_blocks=23_405,
                max_num_seqs=32,
                max_model_len=32_768,
                startup_s=2.5,
                weights_bytes=15 * _GIB,
                kv_bytes=20 * _GIB,
                load_rps=0.3,
            ),
        ),
        DeploymentSpec(
            name="tiny",
            model="HuggingFaceTB/SmolLM2-360M-Instruct",
            backend="simulated",
            gpus=[7],
            start_timeout_s=120.0,
            simulated=SimulatedEngine(
                prefill_tokens_per_s=90_000.0,
                decode_base_s=0.006,
                decode_per_seq_s=0.0001,
                kv_blocks=6_553,
                max_num_seqs=128,
                max_model_len=8_192,
                startup_s=1.5,
                weights_bytes=_GIB,
                kv_bytes=4 * _GIB,
                load_rps=0.2,
            ),
        ),
    ),
)

_L40SX2 = Profile(
    name="l40sx2",
    gpus=L40SX2,
    deployments=(
        DeploymentSpec(
            name="qwen",
            model="Qwen/Qwen3-8B",
            backend="simulated",
            gpus=[0, 1],
            start_timeout_s=60.0,
            simulated=SimulatedEngine(
                prefill_tokens_per_s=9_000.0,
                decode_base_s=0.020,
                decode_per_seq_s=0.0009,
                kv_blocks=9_102,
                max_num_seqs=32,
                max_model_len=16_384,
                startup_s=0.5,
                weights_bytes=16 * _GIB,
                kv_bytes=20 * _GIB,
            ),
        ),
    ),
)

PROFILES = {known.name: known for known in (_H100X8, _L40SX2)}
"""Every profile by its name."""


def profile(name: str) -> Profile:
    """Look one up.

    Raises:
        SpecError: no such profile; names those that exist and the nearest.
    """
    if found := PROFILES.get(name):
        return found
    nearest = get_close_matches(name.lower(), PROFILES, n=1, cutoff=0.5)
    suggestion = f"did you mean {nearest[0]}? " if nearest else ""
    raise SpecError(f"no simulated machine {name!r}", f"{suggestion}known: {', '.join(PROFILES)}")
