from __future__ import annotations

from pathlib import Path

import pynvml
import pytest

from engine.model import GpuReading
from engine.telemetry.nvml_gpu import GpuProbe
from tests.engine.telemetry.fake_nvml import FakeNvml
from tests.support.fake_clock import FakeClock

VALUES = (
    "utilisation_ratio",
    "memory_used_bytes",
    "memory_total_bytes",
    "temperature_c",
    "power_w",
    "power_limit_w",
    "pcie_tx_bytes_per_s",
    "pcie_rx_bytes_per_s",
    "nvlink_tx_bytes_per_s",
    "nvlink_rx_bytes_per_s",
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def probe(nvml: FakeNvml, clock: FakeClock, tmp_path: Path) -> GpuProbe:
    node = tmp_path / "0000:03:00.0"
    node.mkdir()
    (node / "numa_node").write_text("1\n")
    return GpuProbe(pynvml, 2, clock, sysfs=tmp_path)


def values(reading: GpuReading) -> dict[str, object]:
    return {name: getattr(reading, name) for name in VALUES}


def test_values_come_in_the_units_of_their_names(nvml: FakeNvml, probe: GpuProbe, clock: FakeClock) -> None:
    gpu = nvml.gpus[2]
    probe.read()
    gpu.nvlink_tx_kib, gpu.nvlink_rx_kib, gpu.nvlink_at_us = 4_096, 2_048, 3_000_000
    assert probe.read() == GpuReading(
        index=2,
        uuid=gpu.uuid,
        name="NVIDIA H100 80GB HBM3",
        at_s=clock.epoch(),
        numa_node=1,
        utilisation_ratio=0.4,
        memory_used_bytes=30 * 2**30,
        memory_total_bytes=80 * 2**30,
        temperature_c=51.0,
        power_w=312.5,
        power_limit_w=700.0,
        nvlink_tx_bytes_per_s=4_096 * 1024 / 2,
        nvlink_rx_bytes_per_s=2_048 * 1024 / 2,
        pcie_tx_bytes_per_s=2_000_000.0,
        pcie_rx_bytes_per_s=5_000_000.0,
    )


def test_the_first_reading_has_no_link_rate(probe: GpuProbe) -> None:
    assert probe.read().nvlink_tx_bytes_per_s is None


@pytest.mark.parametrize(
    ("kib", "at_us"),
    [(5_000, 1_000_000), (5_000, 900_000), (10, 2_000_000)],
    ids=["still", "back", "wrapped"],
)
def test_link_counters_that_do_not_advance_give_no_rate(
    nvml: FakeNvml, probe: GpuProbe, kib: int, at_us: int
) -> None:
    gpu = nvml.gpus[2]
    gpu.nvlink_tx_kib = gpu.nvlink_rx_kib = 1_000
    probe.read()
    gpu.nvlink_tx_kib, gpu.nvlink_at_us = kib, at_us
    assert probe.read().nvlink_tx_bytes_per_s is None
    gpu.nvlink_tx_kib, gpu.nvlink_at_us = kib + 1_000, at_us + 1_000_000
    assert probe.read().nvlink_tx_bytes_per_s == 1_000 * 1024


@pytest.mark.parametrize(
    ("function", "lacking"),
    [
        ("nvmlDeviceGetUtilizationRates", {"utilisation_ratio"}),
        ("nvmlDeviceGetPowerUsage", {"power_w"}),
        ("nvmlDeviceGetPcieThroughput", {"pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s"}),
        ("nvmlDeviceGetFieldValues", {"nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s"}),
    ],
)
@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND])
def test_what_is_not_supported_is_unknown_and_not_asked_for_again(
    nvml: FakeNvml, probe: GpuProbe, function: str, lacking: set[str], code: int
) -> None:
    nvml.gpus[2].errors[function] = code
    probe.read()
    asked = nvml.called(function, 2)
    nvml.gpus[2].nvlink_at_us += 1_000_000
    reading = probe.read()
    assert {name for name, value in values(reading).items() if value is None} == lacking
    assert reading.problem is None
    assert nvml.called(function, 2) == asked


def test_links_reported_as_unsupported_in_the_values_are_not_asked_for_again(
    nvml: FakeNvml, probe: GpuProbe
) -> None:
    nvml.gpus[2].nvlink_return = pynvml.NVML_ERROR_NOT_SUPPORTED
    probe.read()
    probe.read()
    assert nvml.called("nvmlDeviceGetFieldValues", 2) == 1


def test_an_old_driver_is_read_through_the_older_calls(nvml: FakeNvml, probe: GpuProbe) -> None:
    nvml.missing = {
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetEnforcedPowerLimit",
    }
    reading = probe.read()
    assert reading.memory_used_bytes == 30 * 2**30 + 2**29, "the older call counts what is reserved"
    assert (reading.temperature_c, reading.power_limit_w) == (51.0, 700.0)
    assert reading.problem is None


def test_a_passing_error_costs_one_value_once(nvml: FakeNvml, probe: GpuProbe) -> None:
    nvml.gpus[2].errors["nvmlDeviceGetPowerUsage"] = pynvml.NVML_ERROR_UNKNOWN
    assert probe.read().power_w is None
    nvml.gpus[2].errors.clear()
    assert probe.read().power_w == 312.5


def test_a_lost_gpu_keeps_its_name_and_comes_back(nvml: FakeNvml, probe: GpuProbe) -> None:
    before = probe.read()
    nvml.gpus[2].lost = True
    for _ in range(2):
        lost = probe.read()
        assert (lost.uuid, lost.name, lost.numa_node) == (before.uuid, before.name, 1)
        assert lost.problem is not None and "lost" in lost.problem
        assert set(values(lost).values()) == {None}
    nvml.gpus[2].lost = False
    back = probe.read()
    assert (back.uuid, back.problem, back.power_w) == (before.uuid, None, 312.5)


def test_a_gpu_that_may_not_be_opened_says_so(nvml: FakeNvml, probe: GpuProbe) -> None:
    nvml.gpus[2].errors["nvmlDeviceGetHandleByIndex_v2"] = pynvml.NVML_ERROR_NO_PERMISSION
    reading = probe.read()
    assert reading.index == 2
    assert reading.problem is not None and "permission" in reading.problem
    del nvml.gpus[2].errors["nvmlDeviceGetHandleByIndex_v2"]
    assert probe.read().uuid == nvml.gpus[2].uuid


@pytest.mark.parametrize(
    ("code", "words"),
    [(pynvml.NVML_ERROR_NO_PERMISSION, "permission"), (pynvml.NVML_ERROR_NOT_SUPPORTED, "no readings")],
)
def test_a_gpu_that_answers_nothing_keeps_saying_why(
    nvml: FakeNvml, probe: GpuProbe, code: int, words: str
) -> None:
    gpu = nvml.gpus[2]
    for call in (
        "UtilizationRates",
        "MemoryInfo",
        "MemoryInfo_v2",
        "Temperature",
        "TemperatureV",
        "PowerUsage",
        "EnforcedPowerLimit",
        "PowerManagementLimit",
        "PcieThroughput",
        "FieldValues",
    ):
        gpu.errors[f"nvmlDeviceGet{call}"] = code
    for _ in range(2):
        reading = probe.read()
        assert words in str(reading.problem)
        assert set(values(reading).values()) == {None}


@pytest.mark.parametrize("content", ["-1\n", "", None])
def test_a_numa_node_that_the_system_does_not_know_is_unknown(
    probe: GpuProbe, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "0000:03:00.0" / "numa_node"
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    assert probe.read().numa_node is None
