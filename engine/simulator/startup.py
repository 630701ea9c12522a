"""The log lines of a start, spread over its duration as vLLM 0.32 spreads them on a GPU.

The text of each milestone is vLLM's, so that whoever reads an engine's log reads a simulated one too;
the first line says that it is simulated. Shares of the time are rounded from starts of 8B models with
compilation and graph capture.
"""

from __future__ import annotations

import msgspec

from engine.model import SimulatedEngine


class Milestone(msgspec.Struct, frozen=True):
    """One line, due at a share of the start's duration."""

    share: float
    process: str
    source: str
    message: str


def milestones(model: str, version: str, timing: SimulatedEngine, duration_s: float) -> tuple[Milestone, ...]:
    """All lines of a start before the server listens."""
    tokens = timing.kv_blocks * timing.block_tokens
    weights_gib, kv_gib = timing.weights_bytes / 2**30, timing.kv_bytes / 2**30
    return (
        Milestone(
            0.0, "APIServer", "simulator:1", f"Simulated engine: no model is loaded, {model} is imitated"
        ),
        Milestone(
            0.05,
            "EngineCore",
            "core.py:133",
            f"Initializing a V1 LLM engine (v{version}) with config: model='{model}', simulated=True, "
            f"max_seq_len={timing.max_model_len}",
        ),
        Milestone(0.15, "Worker", "gpu_model_runner.py:5040", f"Starting to load model {model}..."),
        Milestone(
            0.45, "Worker", "default_loader.py:502", f"Loading weights took {0.3 * duration_s:.2f} seconds"
        ),
        Milestone(
            0.47,
            "Worker",
            "gpu_model_runner.py:5150",
            f"Model loading took {weights_gib:.2f} GiB memory and {0.32 * duration_s:.6f} seconds",
        ),
        Milestone(0.65, "Worker", "gpu_worker.py:760", f"Available KV cache memory: {kv_gib:.2f} GiB"),
        Milestone(
            0.66,
            "EngineCore",
            "kv_cache_utils.py:2327",
            f"GPU KV cache size: {tokens:,} tokens, Maximum concurrency for {timing.max_model_len:,} tokens "
            f"per request: {tokens / timing.max_model_len:.2f}x",
        ),
        Milestone(
            0.93,
            "Worker",
            "gpu_model_runner.py:6582",
            f"Graph capturing finished in {0.25 * duration_s:.0f} secs, took 0.60 GiB",
        ),
        Milestone(
            0.95,
            "EngineCore",
            "core.py:402",
            "init engine (profile, create kv cache, warmup model) took "
            f"{0.5 * duration_s:.2f} s (compilation: {0.15 * duration_s:.2f} s)",
        ),
    )


OUT_OF_MEMORY = (
    "EngineCore failed to start.",
    "Traceback (most recent call last):",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. (simulated fault oom-at-start)",
)
"""What the engine core logs when weights do not fit."""

CORE_FAILED = (
    "Traceback (most recent call last):",
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
)
"""What the API server prints after that, without prefix."""

CRASH = (
    "EngineCore encountered a fatal error.",
    "Traceback (most recent call last):",
    "RuntimeError: simulated fault crash-after",
)
"""What the engine core logs when it dies while serving."""
