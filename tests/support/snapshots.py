"""Screens as text, compared with what is kept beside the test.

The text is what the compositor would send, cell by cell, so that a reviewer reads the screen itself in
the diff. `pytest --snapshot-update` writes it anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.app import App


def screen_lines(app: App[Any]) -> list[str]:
    """What stands on the terminal, line by line."""
    return ["".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()]


def screen_text(app: App[Any]) -> str:
    """What stands on the terminal, blanks at the line ends left out."""
    return "\n".join(line.rstrip() for line in screen_lines(app)) + "\n"


class Snapshots:
    """Compares with files in a folder."""

    def __init__(self, folder: Path, update: bool) -> None:
        self._folder = folder
        self._update = update

    def check(self, name: str, text: str) -> None:
        """Fail where the text differs from the kept one."""
        path = self._folder / f"{name}.txt"
        if self._update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"{path.name} is not there: run pytest --snapshot-update and look at it"
        assert text == path.read_text(encoding="utf-8"), f"{name} differs; --snapshot-update takes it over"


@pytest.fixture
def snapshots(request: pytest.FixtureRequest) -> Snapshots:
    """Kept in `snapshots/` beside the test."""
    return Snapshots(request.path.parent / "snapshots", bool(request.config.getoption("--snapshot-update")))
