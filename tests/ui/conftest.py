"""Fixtures of the interface's tests."""

from __future__ import annotations

import time

import pytest

from tests.support.snapshots import snapshots

__all__ = ["snapshots"]


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks read UTC, wherever the test runs."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
