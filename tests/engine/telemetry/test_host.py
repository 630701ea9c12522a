from __future__ import annotations

from engine.telemetry.host import HostReader
from tests.support.wait_until import wait_until


def test_the_first_read_knows_memory_but_no_processor_use() -> None:
    view = HostReader().read()
    assert view.cpu_used_ratio is None
    assert view.memory_used_bytes is not None and view.memory_total_bytes is not None
    assert 0 < view.memory_used_bytes < view.memory_total_bytes
    assert view.load_1m is not None


async def test_processor_use_is_a_ratio_since_the_read_before() -> None:
    reader = HostReader()
    seen: list[float] = []

    def measured() -> bool:
        ratio = reader.read().cpu_used_ratio
        if ratio is not None:
            seen.append(ratio)
        return len(seen) >= 2

    await wait_until(measured)
    assert all(0.0 <= ratio <= 1.0 for ratio in seen)
