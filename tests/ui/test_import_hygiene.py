"""What the first frame may load."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "aiohttp",
    "aiosqlite",
    "storage",
    "markdown_it",
    "textual.widgets._markdown",
    "textual.command_palette",
)
LATER = ("cockpit.screens.chat", "cockpit.screens.logs", "cockpit.screens.launch", "cockpit.screens.quit")


def loaded_by(statement: str) -> set[str]:
    """Modules in memory after a fresh Python ran this."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_the_application_and_the_fleet_load_nothing_that_is_not_on_the_first_frame() -> None:
    modules = loaded_by("import cockpit.app, cockpit.screens.fleet")
    assert [name for name in (*HEAVY, *LATER) if name in modules] == []


def test_formatting_loads_neither_textual_nor_rich() -> None:
    pure = ("format", "spans", "columns", "charts", "fleet_rows", "problems", "node_line", "engine_details")
    modules = loaded_by("import " + ", ".join(f"cockpit.{name}" for name in pure))
    assert not {name.partition(".")[0] for name in modules} & {"textual", "rich"}
