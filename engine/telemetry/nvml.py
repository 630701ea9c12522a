"""NVIDIA GPUs through NVML, for the event loop: never blocks, never raises.

`nvml_threads` does the waiting, `nvml_gpu` the asking; here their latest is handed out, and what has not
come back in time is called stuck.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from engine.model import GpuReading
from engine.ports import Clock
from engine.telemetry.nvml_gpu import Call
from engine.telemetry.nvml_threads import GpuThread, NvmlThread

_LIBRARY = "libnvidia-ml.so.1"
_SYSFS = Path("/sys/bus/pci/devices")
_INTERVAL_S = 1.0
_DEADLINE_S = 3.0
"""NVML calls take microseconds to tens of milliseconds; a GPU in recovery may take a second."""
_FIRST_READ_S = 10.0
"""Without the persistence daemon the driver wakes each GPU at start, which takes seconds."""
_CLOSE_S = 1.0


def nvml_available(library: str = _LIBRARY) -> bool:
    """Whether NVML's library can be loaded, which takes a millisecond; says nothing of driver or GPUs."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


class NvmlGpus:
    """`engine.ports.GpuSource` of the machine's NVIDIA GPUs.

    Starts at the first `read`. What cannot be read is a `problem` of that GPU, or of the source when
    NVML itself cannot be opened; the rest goes on.
    """

    simulated = False

    def __init__(
        self,
        clock: Clock,
        *,
        interval_s: float = _INTERVAL_S,
        deadline_s: float = _DEADLINE_S,
        first_read_s: float = _FIRST_READ_S,
        sysfs: Path = _SYSFS,
    ) -> None:
        """
        Args:
            clock: asked from several threads.
            interval_s: pause between two readings of a GPU.
            deadline_s: a call that takes longer marks its GPU stuck.
            first_read_s: how long the first `read` waits for every GPU to have answered.
            sysfs: where PCI devices are listed, for their NUMA node.
        """
        self._clock = clock
        self._deadline_s = deadline_s
        self._first_read_s = first_read_s
        self._nvml = NvmlThread(clock, interval_s, sysfs)
        self._started = False

    async def read(self) -> tuple[GpuReading, ...]:
        """All GPUs in NVML's order, as last read by their threads; only the first call waits for them."""
        if not self._started:
            self._started = True
            self._nvml.start()
            await _until(self._settled, self._first_read_s)
        return tuple(reading for gpu in self._nvml.gpus if (reading := self._reading(gpu)) is not None)

    def problem(self) -> str | None:
        """Why there are no GPUs, or None."""
        overdue = self._overdue(self._nvml.opening)
        if overdue is not None:
            return f"the NVIDIA driver does not answer: {overdue}; see dmesg"
        return self._nvml.problem

    async def close(self) -> None:
        """Stop the threads, within a second; those that hang are left behind and end with the process."""
        self._nvml.stop.set()
        await _until(lambda: not self._nvml.is_alive(), _CLOSE_S)

    def _settled(self) -> bool:
        """Whether each GPU has answered or is stuck, or there is a reason why there are none."""
        gpus = self._nvml.gpus
        if gpus:
            return all(self._reading(gpu) is not None for gpu in gpus)
        return self.problem() is not None or not self._nvml.is_alive()

    def _reading(self, gpu: GpuThread) -> GpuReading | None:
        overdue = self._overdue(gpu.probe.calling)
        if overdue is None:
            return gpu.latest
        return replace(gpu.probe.identity, at_s=self._clock.epoch(), problem=f"stuck: {overdue}")

    def _overdue(self, call: Call | None) -> str | None:
        if call is None:
            return None
        taken_s = self._clock.monotonic() - call.since_s
        return f"{call.name} has not returned for {taken_s:.0f} s" if taken_s >= self._deadline_s else None


async def _until(condition: Callable[[], bool], timeout_s: float) -> None:
    """Wait for threads, at start and end only: a thread that hangs could not set an event either."""
    end_s = asyncio.get_running_loop().time() + timeout_s
    while not condition() and asyncio.get_running_loop().time() < end_s:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
