"""The machine around the GPUs, from /proc through psutil. Each read takes well under a millisecond."""

from __future__ import annotations

import psutil  # type: ignore[import-untyped]

from engine.model import HostView


class HostReader:
    """Reads the host; processor use is that since the read before, so unknown at the first."""

    def __init__(self) -> None:
        self._previous: tuple[float, float] | None = None

    def read(self) -> HostView:
        """The host now. Does not block."""
        memory = psutil.virtual_memory()
        return HostView(
            cpu_used_ratio=self._cpu_used_ratio(),
            # What could not be had without swapping, page cache left out: what `free` calls used + shared.
            memory_used_bytes=memory.total - memory.available,
            memory_total_bytes=memory.total,
            load_1m=psutil.getloadavg()[0],
        )

    def _cpu_used_ratio(self) -> float | None:
        times: dict[str, float] = psutil.cpu_times()._asdict()
        # The kernel counts guests within user and nice already.
        total_s = sum(times.values()) - times.get("guest", 0.0) - times.get("guest_nice", 0.0)
        idle_s = times["idle"] + times.get("iowait", 0.0)
        previous, self._previous = self._previous, (total_s, idle_s)
        if previous is None:
            return None
        passed_s = total_s - previous[0]
        if passed_s <= 0.0:
            return None
        return min(1.0, max(0.0, 1.0 - (idle_s - previous[1]) / passed_s))
