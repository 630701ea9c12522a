from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose sockets have paths that Linux allows, whatever the test is called."""
    with tempfile.TemporaryDirectory(prefix="cp-") as folder:
        yield Path(folder)
