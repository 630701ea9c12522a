"""The threads that talk to NVML: one that opens it, one per GPU that reads it.

Threads of our own, not an executor: the interpreter waits for an executor's threads at exit, and a call
into a broken driver may never return.
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import ModuleType

from msgspec.structs import replace

from engine.model import GpuReading
from engine.ports import Clock
from engine.telemetry.nvml_errors import source_problem
from engine.telemetry.nvml_gpu import Call, GpuProbe

_RETRY_S = 30.0
"""How often to try again to open NVML: a driver may be loaded while the node runs."""
_JOIN_S = 0.5
"""How long the end waits for each reading in progress; one takes 60 ms."""


class GpuThread(threading.Thread):
    """Reads one GPU again and again until told to stop."""

    def __init__(self, probe: GpuProbe, interval_s: float, stop: threading.Event) -> None:
        super().__init__(name=f"nvml-{probe.identity.index}", daemon=True)
        self.probe = probe
        self.latest: GpuReading | None = None
        """The last whole reading; replaced, never changed."""
        self._interval_s = interval_s
        self._stop_asked = stop

    def run(self) -> None:
        """Read until stopped; whatever NVML's answers break in us is this GPU's problem alone."""
        while not self._stop_asked.is_set():
            try:
                self.latest = self.probe.read()
            except Exception as error:
                problem = f"NVML's answers cannot be used: {type(error).__name__}: {error}"
                self.latest = replace(self.probe.identity, at_s=self.probe.clock.epoch(), problem=problem)
            self._stop_asked.wait(self._interval_s)


class NvmlThread(threading.Thread):
    """Opens NVML, again every 30 s while it cannot be opened; owns the GPUs' threads; closes NVML."""

    def __init__(self, clock: Clock, interval_s: float, sysfs: Path) -> None:
        super().__init__(name="nvml", daemon=True)
        self.stop = threading.Event()
        self.gpus: tuple[GpuThread, ...] = ()
        """In NVML's order, once it is open."""
        self.problem: str | None = None
        """Why it is not open."""
        self.opening: Call | None = None
        """Set while it is being opened."""
        self._clock = clock
        self._interval_s = interval_s
        self._sysfs = sysfs

    def run(self) -> None:
        """Open, wait for the end, close."""
        try:
            # Takes 29 ms, which a node without NVIDIA GPUs need not spend.
            import pynvml

            while not self.stop.is_set() and not self._open(pynvml):
                self.stop.wait(_RETRY_S)
        except (ImportError, AttributeError) as error:
            self.problem = f"the Python module pynvml is not that of nvidia-ml-py: {error}"
            return
        self.stop.wait()
        for gpu in self.gpus:
            gpu.join(_JOIN_S)
        # Closing NVML under a call in progress crashes the process.
        if self.gpus and not any(gpu.is_alive() for gpu in self.gpus):
            _shut_down(pynvml)

    def _open(self, nvml: ModuleType) -> bool:
        self.opening = Call("nvmlInit", self._clock.monotonic())
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            self.problem = source_problem(error.value)
            return False
        finally:
            self.opening = None
        try:
            count: int = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            self.problem, count = source_problem(error.value), 0
        else:
            self.problem = None if count else "the NVIDIA driver is there but sees no GPU"
        if count == 0:
            _shut_down(nvml)
            return False
        probes = [GpuProbe(nvml, index, self._clock, self._sysfs) for index in range(count)]
        self.gpus = tuple(GpuThread(probe, self._interval_s, self.stop) for probe in probes)
        for gpu in self.gpus:
            gpu.start()
        return True


def _shut_down(nvml: ModuleType) -> None:
    try:
        nvml.nvmlShutdown()
    except nvml.NVMLError:
        # Nothing is left to be done about it, and the process goes on or ends all the same.
        return
