"""One GPU read through NVML, value by value. Blocking: belongs in a thread of its own."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import msgspec

from engine.model import GpuReading
from engine.ports import Clock
from engine.telemetry.nvml_errors import FAILED_GPU, NOT_SUPPORTED, UNSUPPORTED, gpu_problem

_SYSFS = Path("/sys/bus/pci/devices")
_ALL_LINKS = 0xFFFFFFFF
"""`scopeId` that asks for the sum over a GPU's links."""
_NVLINK_TX = 138  # NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX: cumulative, KiB of payload
_NVLINK_RX = 139
_VALUE_FIELDS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Field of `nvmlValue_t` by `valueType`."""


class Call(NamedTuple):
    """An NVML call that has not returned yet."""

    name: str
    since_s: float
    """Monotonic."""


class _Counter(NamedTuple):
    total_bytes: int
    at_us: int


class _GpuFailed(Exception):
    """NVML says that the GPU itself is down."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class GpuProbe:
    """Reads one GPU. What it does not support is asked for once and is None from then on.

    `calling` may be read from another thread: it tells whether the GPU hangs, and where.
    """

    def __init__(self, nvml: ModuleType, index: int, clock: Clock, sysfs: Path = _SYSFS) -> None:
        """
        Args:
            nvml: `pynvml`, initialised.
            index: NVML's index, which is neither CUDA's nor stable over reboots.
            sysfs: where PCI devices are listed.
        """
        self.identity = GpuReading(index=index, uuid=f"unreadable-{index}", name="unknown GPU", at_s=0.0)
        """Name and place without values. The UUID is a stand-in until the GPU has told its own."""
        self.calling: Call | None = None
        self.clock = clock
        self._nvml = nvml
        self._index = index
        self._sysfs = sysfs
        self._handle: Any = None
        self._identified = False
        self._unsupported: set[str] = set()
        self._links: dict[int, _Counter] = {}
        self._answers = 0
        self._error: int | None = None

    def read(self) -> GpuReading:
        """All values now; takes 40 ms and more, since NVML counts PCIe bytes for 20 ms per direction."""
        at_s = self.clock.epoch()
        self._begin()
        try:
            if self._handle is None:
                self._identify()
            values = self._values()
        except _GpuFailed as failed:
            # A handle does not outlive its GPU; one that comes back is found by its UUID.
            self._handle = None
            self._links.clear()
            return msgspec.structs.replace(self.identity, at_s=at_s, problem=gpu_problem(failed.code))
        problem = None if self._answers else gpu_problem(self._error or NOT_SUPPORTED)
        return msgspec.structs.replace(self.identity, at_s=at_s, problem=problem, **values)

    def _begin(self) -> None:
        self._answers = 0
        self._error = None

    def _identify(self) -> None:
        if self._identified:
            self._handle = self._call("nvmlDeviceGetHandleByUUID", self.identity.uuid, fatal=True)
            return
        handle = self._call("nvmlDeviceGetHandleByIndex", self._index, fatal=True)
        uuid = self._call("nvmlDeviceGetUUID", handle, fatal=True)
        name = self._call("nvmlDeviceGetName", handle)
        pci = self._call("nvmlDeviceGetPciInfo", handle)
        self.identity = GpuReading(
            index=self._index,
            uuid=uuid,
            name=name or self.identity.name,
            at_s=0.0,
            numa_node=self._numa_node(pci.busId) if pci is not None else None,
        )
        self._handle = handle
        self._identified = True
        # Knowing its name is no reading.
        self._answers = 0

    def _values(self) -> dict[str, Any]:
        utilisation = self._value("nvmlDeviceGetUtilizationRates")
        memory = self._value("nvmlDeviceGetMemoryInfo", self._nvml.nvmlMemory_v2, key="memory v2")
        if memory is None:
            # Drivers before 510; counts what the driver reserves as used.
            memory = self._value("nvmlDeviceGetMemoryInfo", key="memory v1")
        temperature = self._value("nvmlDeviceGetTemperatureV", 0)
        if temperature is None:
            temperature = self._value("nvmlDeviceGetTemperature", 0)
        power_mw = self._value("nvmlDeviceGetPowerUsage")
        limit_mw = self._value("nvmlDeviceGetEnforcedPowerLimit")
        if limit_mw is None:
            limit_mw = self._value("nvmlDeviceGetPowerManagementLimit")
        nvlink_tx, nvlink_rx = self._nvlink_rates()
        return {
            "utilisation_ratio": utilisation.gpu / 100 if utilisation is not None else None,
            "memory_used_bytes": memory.used if memory is not None else None,
            "memory_total_bytes": memory.total if memory is not None else None,
            "temperature_c": float(temperature) if temperature is not None else None,
            "power_w": power_mw / 1e3 if power_mw is not None else None,
            "power_limit_w": limit_mw / 1e3 if limit_mw is not None else None,
            "pcie_tx_bytes_per_s": self._pcie_rate(0),
            "pcie_rx_bytes_per_s": self._pcie_rate(1),
            "nvlink_tx_bytes_per_s": nvlink_tx,
            "nvlink_rx_bytes_per_s": nvlink_rx,
        }

    def _pcie_rate(self, direction: int) -> float | None:
        """Bytes per second over the last 20 ms, from NVML's KB/s; 0 sent by the GPU, 1 received."""
        rate_kb = self._value("nvmlDeviceGetPcieThroughput", direction, key=f"pcie {direction}")
        return rate_kb * 1e3 if rate_kb is not None else None

    def _nvlink_rates(self) -> tuple[float | None, float | None]:
        """Bytes per second sent and received over all links since the read before."""
        fields = [(_NVLINK_TX, _ALL_LINKS), (_NVLINK_RX, _ALL_LINKS)]
        values = self._value("nvmlDeviceGetFieldValues", fields)
        if values is None:
            return None, None
        supported = [value for value in values if value.nvmlReturn not in UNSUPPORTED]
        if not supported:
            self._unsupported.add("nvmlDeviceGetFieldValues")
        rates = {value.fieldId: self._link_rate(value) for value in supported if value.nvmlReturn == 0}
        return rates.get(_NVLINK_TX), rates.get(_NVLINK_RX)

    def _link_rate(self, value: Any) -> float | None:
        total = int(getattr(value.value, _VALUE_FIELDS[value.valueType]))
        now = _Counter(total_bytes=total * 1024, at_us=value.timestamp)
        before = self._links.get(value.fieldId)
        self._links[value.fieldId] = now
        # A counter that fell has wrapped or was reset; a timestamp that stands still gives no interval.
        if before is None or now.at_us <= before.at_us or now.total_bytes < before.total_bytes:
            return None
        return (now.total_bytes - before.total_bytes) * 1e6 / (now.at_us - before.at_us)

    def _numa_node(self, bus_id: str) -> int | None:
        """From sysfs, which writes the PCI domain with four digits where NVML has eight."""
        domain, _, rest = bus_id.lower().partition(":")
        try:
            node = int((self._sysfs / f"{int(domain, 16):04x}:{rest}" / "numa_node").read_text())
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    def _value(self, name: str, *arguments: object, key: str | None = None) -> Any:
        """One value of the GPU, or None; `key` where one call serves for several values."""
        key = key or name
        if key in self._unsupported:
            return None
        return self._call(name, self._handle, *arguments, key=key)

    def _call(self, name: str, *arguments: object, key: str | None = None, fatal: bool = False) -> Any:
        self.calling = Call(name, self.clock.monotonic())
        try:
            answer = getattr(self._nvml, name)(*arguments)
        except self._nvml.NVMLError as error:
            code: int = error.value
            if fatal or code in FAILED_GPU:
                raise _GpuFailed(code) from error
            if code in UNSUPPORTED and key is not None:
                self._unsupported.add(key)
            self._error = code
            return None
        finally:
            self.calling = None
        self._answers += 1
        return answer
