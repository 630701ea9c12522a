from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pynvml
import pytest

from tests.engine.telemetry.fake_nvml import FakeNvml
from tests.engine.telemetry.metrics_server import MetricsServer


@pytest.fixture
async def metrics_server(tmp_path: Path) -> AsyncIterator[MetricsServer]:
    server = MetricsServer(tmp_path / "e.sock")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Eight GPUs behind the real bindings."""
    fake = FakeNvml()
    monkeypatch.setattr(pynvml, "nvmlLib", fake)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    return fake
