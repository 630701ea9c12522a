"""Options and fixtures of the whole suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Snapshots are written anew on demand only; a missing one fails."""
    parser.addoption(
        "--snapshot-update",
        action="store_true",
        help="write the screens' snapshots instead of comparing them",
    )
