"""What a module may load: start-up time is kept by what is absent, not by a stop-watch.

Textual takes 130 ms to import and aiohttp 120 ms, of the 150 ms that `cockpit --version` may take.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIGHT = ("textual", "rich", "aiohttp", "aiosqlite", "psutil", "pynvml")


def loaded_by(module: str) -> set[str]:
    """Top-level packages in memory after importing one module in a fresh Python."""
    program = (
        f"import sys; import {module}; print('\\n'.join({{name.split('.')[0] for name in sys.modules}}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("cockpit.__main__", LIGHT),
        ("cockpit.cli", LIGHT),
        ("cockpit.client", LIGHT),
        ("cockpit.settings", LIGHT),
        ("cockpit.placement", LIGHT),
        ("cockpit.commands.status", LIGHT),
        ("cockpit.app", ("aiohttp", "aiosqlite", "psutil", "pynvml")),
        ("engine.model", (*LIGHT, "asyncio")),
        ("engine.api.schema", LIGHT),
        ("engine.routing.replicas", (*LIGHT, "asyncio")),
    ],
)
def test_a_module_loads_nothing_heavy(module: str, absent: tuple[str, ...]) -> None:
    assert loaded_by(module).isdisjoint(absent)


def test_the_check_sees_what_is_loaded() -> None:
    assert {"aiohttp", "asyncio"} <= loaded_by("aiohttp")
