"""What the store takes: a report, run as `python -m tests.bench.storage_writes [FOLDER]`.

Ticks of 8 GPUs and 8 engines are written one after the other, as once a second on a node; then events,
first one at a time, then by 16 callers at once, which share commits. Give a folder on the disk in
question: a temporary one may lie in memory, where a sync costs nothing.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from storage import batch, changes
from storage.database import prepare, writing
from storage.records import EngineSample, EventRecord, GpuSample
from storage.store import Store, open_store

GPUS = 8
ENGINES = 8
TICKS = 2_000
EVENTS = 500
CALLERS = 16
VALUES_PER_TICK = GPUS * 9 + ENGINES * 11


def gpu(at_s: float, number: int) -> GpuSample:
    uuid = f"GPU-00000000-0000-0000-0000-{number:012x}"
    rate = at_s * 1e6 + number
    return GpuSample(at_s, uuid, 0.875, 2**36 + number, 80 * 2**30, 61.0, 512.5, rate, rate, rate, rate)


def engine(at_s: float, number: int) -> EngineSample:
    return EngineSample(
        at_s, f"qwen/{number}", "ready", 12, 11, 1, 0.625, 812.5, 3_000.0, 2.5, 0.31, 0.021, 0.75
    )


def event(number: int) -> EventRecord:
    return EventRecord(float(number), "action.stop", "qwen/0", "ada stopped qwen/0", "ada", "info", 1000)


def percentiles(name: str, times_s: Sequence[float]) -> str:
    cuts = statistics.quantiles(times_s, n=100)
    return (
        f"{name:<22} p50 {cuts[49] * 1e3:6.2f} ms  p95 {cuts[94] * 1e3:6.2f} ms  p99 {cuts[98] * 1e3:6.2f} ms"
    )


async def samples(path: Path) -> None:
    prepare(path)
    times_s: list[float] = []
    async with writing(path) as connection:
        await connection.execute_fetchall("PRAGMA synchronous = NORMAL")  # as the writer does for samples
        for tick in range(TICKS):
            at_s = 1_700_000_000.0 + tick
            began = time.perf_counter()
            rows = [changes.gpu_sample(gpu(at_s, i)) for i in range(GPUS)]
            rows += [changes.engine_sample(engine(at_s, i)) for i in range(ENGINES)]
            await batch.write(connection, [(row,) for row in rows])
            times_s.append(time.perf_counter() - began)
    size = path.stat().st_size
    print(percentiles("commit of a tick", times_s))
    print(f"{'rows':<22} {TICKS * (GPUS + ENGINES) / sum(times_s):,.0f}/s")
    hourly_mb = size / TICKS * 3_600 / 1e6
    print(f"{'size':<22} {size / TICKS / VALUES_PER_TICK:.1f} B a value, {hourly_mb:.1f} MB an hour")


async def events(store: Store) -> None:
    alone_s: list[float] = []

    async def add(number: int, times_s: list[float]) -> None:
        began = time.perf_counter()
        assert (await store.add_event(event(number)))[1]
        times_s.append(time.perf_counter() - began)

    for number in range(EVENTS):
        await add(number, alone_s)
    print(percentiles("event, one caller", alone_s), f" {EVENTS / sum(alone_s):,.0f}/s")
    together_s: list[float] = []

    async def caller() -> None:
        for number in range(EVENTS // CALLERS):
            await add(number, together_s)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    rate = len(together_s) / (time.perf_counter() - began)
    print(percentiles(f"event, {CALLERS} callers", together_s), f" {rate:,.0f}/s")


async def measure(folder: Path) -> None:
    print(f"in {folder}: {GPUS} GPUs and {ENGINES} engines a tick, {TICKS} ticks; events synced to disk")
    await samples(folder / "samples.db")
    async with open_store(folder / "events.db") as store:
        await events(store)


def main() -> None:
    """Measure and print."""
    where = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory(dir=where) as folder:
        asyncio.run(measure(Path(folder)))


if __name__ == "__main__":
    main()
