from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.engine.telemetry.metrics_server import MetricsServer


@pytest.fixture
async def metrics_server(tmp_path: Path) -> AsyncIterator[MetricsServer]:
    server = MetricsServer(tmp_path / "e.sock")
    await server.start()
    yield server
    await server.stop()
