from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pynvml
import pytest

from engine.model import GpuReading
from engine.ports import GpuSource
from engine.telemetry.nvml import NvmlGpus, nvml_available
from tests.engine.telemetry.fake_nvml import FakeNvml
from tests.support.fake_clock import FakeClock
from tests.support.wait_until import wait_until


class Latest:
    """What a source gave last, for `wait_until`."""

    def __init__(self, gpus: NvmlGpus) -> None:
        self._gpus = gpus
        self.readings: tuple[GpuReading, ...] = ()

    async def until(self, condition: Callable[[tuple[GpuReading, ...]], bool]) -> tuple[GpuReading, ...]:
        async with asyncio.timeout(5.0):
            while not condition(self.readings):
                self.readings = await self._gpus.read()
                await asyncio.sleep(0.005)
        return self.readings


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def gpus(nvml: FakeNvml, clock: FakeClock, tmp_path: Path) -> AsyncIterator[NvmlGpus]:
    source = NvmlGpus(clock, interval_s=0.005, deadline_s=3.0, first_read_s=0.5, sysfs=tmp_path)
    yield source
    await source.close()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Holds calls back until the test ends."""
    event = threading.Event()
    yield event
    event.set()


async def test_the_first_read_has_all_gpus(nvml: FakeNvml, gpus: NvmlGpus) -> None:
    source: GpuSource = gpus
    readings = await source.read()
    assert [reading.uuid for reading in readings] == [gpu.uuid for gpu in nvml.gpus]
    assert [reading.index for reading in readings] == list(range(8))
    assert not any(reading.problem or reading.simulated for reading in readings)
    assert (source.problem(), source.simulated) == (None, False)


async def test_readings_are_renewed(nvml: FakeNvml, gpus: NvmlGpus) -> None:
    await gpus.read()
    nvml.gpus[5].utilisation_percent = 97
    await Latest(gpus).until(lambda now: bool(now) and now[5].utilisation_ratio == 0.97)


async def test_a_gpu_lost_midway_is_that_gpus_problem_alone(nvml: FakeNvml, gpus: NvmlGpus) -> None:
    await gpus.read()
    nvml.gpus[3].lost = True
    readings = await Latest(gpus).until(lambda now: bool(now) and now[3].problem is not None)
    assert [reading.index for reading in readings if reading.problem] == [3]
    assert readings[3].uuid == nvml.gpus[3].uuid
    nvml.gpus[4].power_mw = 1_000
    await Latest(gpus).until(lambda now: bool(now) and now[4].power_w == 1.0)


async def test_a_call_that_hangs_marks_its_gpu_stuck_and_the_rest_go_on(
    nvml: FakeNvml, gpus: NvmlGpus, clock: FakeClock, gate: threading.Event
) -> None:
    await gpus.read()
    nvml.gpus[1].hang["nvmlDeviceGetPowerUsage"] = gate
    asked = nvml.called("nvmlDeviceGetPowerUsage", 1)
    await wait_until(lambda: nvml.called("nvmlDeviceGetPowerUsage", 1) > asked)
    assert (await gpus.read())[1].problem is None, "within its deadline it is only slow"

    await clock.advance(4.0)
    readings = await Latest(gpus).until(
        lambda now: bool(now) and [reading.index for reading in now if reading.problem] == [1]
    )
    stuck = readings[1]
    assert stuck.problem == "stuck: nvmlDeviceGetPowerUsage has not returned for 4 s"
    assert (stuck.uuid, stuck.power_w, stuck.at_s) == (nvml.gpus[1].uuid, None, clock.epoch())

    nvml.gpus[0].temperature = 77
    await Latest(gpus).until(lambda now: bool(now) and now[0].temperature_c == 77.0)
    gate.set()
    await Latest(gpus).until(lambda now: bool(now) and now[1].problem is None)


async def test_closing_does_not_wait_for_a_hung_call_nor_close_nvml_under_it(
    nvml: FakeNvml, gpus: NvmlGpus, gate: threading.Event
) -> None:
    await gpus.read()
    nvml.gpus[1].hang["nvmlDeviceGetPowerUsage"] = gate
    asked = nvml.called("nvmlDeviceGetPowerUsage", 1)
    await wait_until(lambda: nvml.called("nvmlDeviceGetPowerUsage", 1) > asked)
    async with asyncio.timeout(3.0):
        await gpus.close()
    assert nvml.open == 1


async def test_closing_ends_the_threads_and_closes_nvml(nvml: FakeNvml, gpus: NvmlGpus) -> None:
    await gpus.read()
    await gpus.close()
    assert nvml.open == 0
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("nvml")]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "different versions"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "not loaded"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "no permission"),
        (pynvml.NVML_ERROR_UNKNOWN, "error 999"),
    ],
)
async def test_nvml_that_cannot_be_opened_is_told_in_words(
    nvml: FakeNvml, gpus: NvmlGpus, code: int, words: str
) -> None:
    nvml.init_return = code
    assert await gpus.read() == ()
    assert words in str(gpus.problem())


async def test_a_machine_without_the_library_is_told(
    nvml: FakeNvml, gpus: NvmlGpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", missing)
    assert await gpus.read() == ()
    assert "libnvidia-ml.so.1 is not there" in str(gpus.problem())


async def test_a_driver_without_gpus_is_told_and_closed(nvml: FakeNvml, gpus: NvmlGpus) -> None:
    nvml.gpus.clear()
    assert await gpus.read() == ()
    assert gpus.problem() == "the NVIDIA driver is there but sees no GPU"
    assert nvml.open == 0


async def test_opening_that_hangs_is_told(
    nvml: FakeNvml, gpus: NvmlGpus, clock: FakeClock, gate: threading.Event
) -> None:
    nvml.init_hang = gate
    assert await gpus.read() == ()
    assert gpus.problem() is None
    await clock.advance(5.0)
    assert "nvmlInit has not returned for 5 s" in str(gpus.problem())


async def test_closing_before_any_read_is_fine(gpus: NvmlGpus) -> None:
    await gpus.close()


async def test_answers_that_make_no_sense_are_that_gpus_problem(nvml: FakeNvml, gpus: NvmlGpus) -> None:
    nvml.gpus[6].bus_id = "no bus"
    nvml.gpus[7].name = "\udcff"  # a byte that is not UTF-8
    readings = await gpus.read()
    assert (readings[6].numa_node, readings[6].problem) == (None, None)
    assert "cannot be used: UnicodeDecodeError" in str(readings[7].problem)
    assert not any(reading.problem for reading in readings[:7])


def test_whether_nvml_is_there_is_whether_its_library_loads() -> None:
    assert nvml_available("libc.so.6")
    assert not nvml_available("libnothing-of-this-name.so.1")


def test_the_bindings_are_not_imported_before_the_first_read() -> None:
    code = "import sys, engine.telemetry.nvml, engine.telemetry.sampler; sys.exit('pynvml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode == 0
