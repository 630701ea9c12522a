"""libnvidia-ml.so.1 in Python: what `pynvml.nvmlLib` is set to, so that its real wrappers are used.

Every function can be given an error code, for the library or for one GPU, be missing, or hang.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pynvml

SUCCESS = 0


@dataclass
class FakeGpu:
    """One GPU's values in NVML's own units."""

    index: int
    uuid: str
    bus_id: str
    name: str = "NVIDIA H100 80GB HBM3"
    utilisation_percent: int = 40
    memory_total: int = 80 * 2**30
    memory_used: int = 30 * 2**30
    memory_reserved: int = 2**29
    temperature: int = 51
    power_mw: int = 312_500
    power_limit_mw: int = 700_000
    pcie_tx_kb: int = 2_000
    pcie_rx_kb: int = 5_000
    nvlink_tx_kib: int = 0
    nvlink_rx_kib: int = 0
    nvlink_at_us: int = 1_000_000
    nvlink_return: int = SUCCESS
    errors: dict[str, int] = field(default_factory=dict)
    """Function → code that it returns."""
    hang: dict[str, threading.Event] = field(default_factory=dict)
    """Function → what it waits for."""
    lost: bool = False


class FakeNvml:
    """A machine of `count` linked GPUs on two NUMA nodes."""

    def __init__(self, count: int = 8) -> None:
        self.gpus = [
            FakeGpu(
                index=i,
                uuid=f"GPU-{i:08x}-0000-4000-8000-00000000000{i}",
                bus_id=f"00000000:{i + 1:02X}:00.0",
            )
            for i in range(count)
        ]
        self.init_return = SUCCESS
        self.init_hang: threading.Event | None = None
        self.missing: set[str] = set()
        """Functions that this driver does not have."""
        self.calls: list[tuple[str, int | None]] = []
        """Function and GPU index, in order of calling."""
        self.open = 0

    def called(self, name: str, index: int | None = None) -> int:
        """How often a function was called."""
        return sum(call == (name, index) for call in list(self.calls))

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("nvml") or name in self.missing:
            raise AttributeError(name)
        answer: Callable[..., int] = getattr(self, "_" + name)
        if not name.startswith("nvmlDeviceGet") or name in _WITHOUT_GPU:

            def call(*arguments: Any) -> int:
                self.calls.append((name, None))
                return answer(*arguments)

            return call

        def call_gpu(handle: Any, *arguments: Any) -> int:
            gpu = self.gpus[_index_of(handle)]
            self.calls.append((name, gpu.index))
            if (gate := gpu.hang.get(name)) is not None:
                gate.wait()
            if gpu.lost:
                return int(pynvml.NVML_ERROR_GPU_IS_LOST)
            return gpu.errors.get(name) or answer(gpu, *arguments)

        return call_gpu

    def _nvmlInitWithFlags(self, flags: int) -> int:
        if self.init_hang is not None:
            self.init_hang.wait()
        if self.init_return == SUCCESS:
            self.open += 1
        return self.init_return

    def _nvmlShutdown(self) -> int:
        self.open -= 1
        return SUCCESS

    def _nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.gpus)
        return SUCCESS

    def _nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        return self._give(self.gpus[index.value], handle, "nvmlDeviceGetHandleByIndex_v2")

    def _nvmlDeviceGetHandleByUUID(self, uuid: Any, handle: Any) -> int:
        text = uuid.value.decode() if hasattr(uuid, "value") else uuid.decode()
        found = next(gpu for gpu in self.gpus if gpu.uuid == text)
        return self._give(found, handle, "nvmlDeviceGetHandleByUUID")

    def _give(self, gpu: FakeGpu, handle: Any, name: str) -> int:
        if (gate := gpu.hang.get(name)) is not None:
            gate.wait()
        if gpu.lost:
            return int(pynvml.NVML_ERROR_GPU_IS_LOST)
        if name in gpu.errors:
            return gpu.errors[name]
        ctypes.cast(handle, ctypes.POINTER(ctypes.c_void_p))[0] = gpu.index + 1
        return SUCCESS

    def _nvmlDeviceGetUUID(self, gpu: FakeGpu, buffer: Any, size: Any) -> int:
        buffer.value = gpu.uuid.encode()
        return SUCCESS

    def _nvmlDeviceGetName(self, gpu: FakeGpu, buffer: Any, size: Any) -> int:
        buffer.value = gpu.name.encode(errors="surrogateescape")
        return SUCCESS

    def _nvmlDeviceGetPciInfo_v3(self, gpu: FakeGpu, info: Any) -> int:
        info._obj.busId = gpu.bus_id.encode()
        return SUCCESS

    def _nvmlDeviceGetUtilizationRates(self, gpu: FakeGpu, rates: Any) -> int:
        rates._obj.gpu = gpu.utilisation_percent
        return SUCCESS

    def _nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu, memory: Any) -> int:
        memory._obj.total = gpu.memory_total
        memory._obj.used = gpu.memory_used + gpu.memory_reserved
        return SUCCESS

    def _nvmlDeviceGetMemoryInfo_v2(self, gpu: FakeGpu, memory: Any) -> int:
        if memory._obj.version != pynvml.nvmlMemory_v2:
            return int(pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
        memory._obj.total = gpu.memory_total
        memory._obj.used = gpu.memory_used
        memory._obj.reserved = gpu.memory_reserved
        return SUCCESS

    def _nvmlDeviceGetTemperatureV(self, gpu: FakeGpu, temperature: Any) -> int:
        temperature._obj.temperature = gpu.temperature
        return SUCCESS

    def _nvmlDeviceGetTemperature(self, gpu: FakeGpu, sensor: Any, temperature: Any) -> int:
        temperature._obj.value = gpu.temperature
        return SUCCESS

    def _nvmlDeviceGetPowerUsage(self, gpu: FakeGpu, power: Any) -> int:
        power._obj.value = gpu.power_mw
        return SUCCESS

    def _nvmlDeviceGetEnforcedPowerLimit(self, gpu: FakeGpu, limit: Any) -> int:
        limit._obj.value = gpu.power_limit_mw
        return SUCCESS

    def _nvmlDeviceGetPowerManagementLimit(self, gpu: FakeGpu, limit: Any) -> int:
        limit._obj.value = gpu.power_limit_mw
        return SUCCESS

    def _nvmlDeviceGetPcieThroughput(self, gpu: FakeGpu, direction: Any, rate: Any) -> int:
        rate._obj.value = gpu.pcie_rx_kb if direction.value else gpu.pcie_tx_kb
        return SUCCESS

    def _nvmlDeviceGetFieldValues(self, gpu: FakeGpu, count: Any, values: Any) -> int:
        totals = {138: gpu.nvlink_tx_kib, 139: gpu.nvlink_rx_kib}
        for value in values._obj:
            known = value.fieldId in totals and value.scopeId == 0xFFFFFFFF
            value.nvmlReturn = gpu.nvlink_return if known else pynvml.NVML_ERROR_NOT_SUPPORTED
            value.valueType = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
            value.timestamp = gpu.nvlink_at_us
            value.value.ullVal = totals.get(value.fieldId, 0)
        return SUCCESS


_WITHOUT_GPU = {"nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByUUID"}


def _index_of(handle: Any) -> int:
    address = ctypes.cast(handle, ctypes.c_void_p).value
    assert address is not None
    return address - 1
