"""GPUs joined with the engine on each, as rows of the fleet's table. Pure.

| columns | dropped |
|---|---|
| GPU, engine, state | never |
| run, wait | last |
| KV, SM, TTFT95, memory, temperature | below 80 cells |
| tokens per second, power, SM trend, ITL95, memory bar, KV trend | from about 120 down to 80 cells |
| NVLink and PCIe, sent and received | first |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cockpit import charts
from cockpit import format as fmt
from cockpit.columns import Column, TableRow
from cockpit.fleet_history import FleetHistory
from cockpit.glyphs import Glyphs
from cockpit.spans import STATE_ROLES, Line, Role, heat
from engine.model import EngineState, EngineView, Frame, GpuReading

SM_TREND, MEMORY_BAR, KV_TREND = 8, 6, 6

COLUMNS = (
    Column("gpu", "GPU", width=5, align="left", gap=1),
    Column("engine", "engine", width=10, align="left", gap=1, grow=14, by_content=True),
    Column("state", "state", width=21, least=14, align="left", grow=6),
    Column("sm", "SM", "%", width=3, drop=14),
    Column("sm_trend", "", width=SM_TREND, drop=22, gap=1),
    Column("memory", "mem", "GiB", width=4, drop=16),
    Column("memory_bar", "", width=MEMORY_BAR, drop=24, gap=1),
    Column("kv", "KV", "%", width=3, drop=13),
    Column("kv_trend", "", width=KV_TREND, drop=25, gap=1),
    Column("running", "run", width=3, drop=11),
    Column("waiting", "wait", width=4, drop=12, gap=1),
    Column("tokens", "tok/s", width=5, drop=20),
    Column("ttft", "TTFT95", "ms", width=6, drop=15),
    Column("itl", "ITL95", "ms", width=5, drop=23),
    Column("nvlink_tx", "NVLink", "tx GB/s", width=7, drop=30),
    Column("nvlink_rx", "", "rx", width=5, drop=30, gap=1),
    Column("pcie_tx", "PCIe", "tx GB/s", width=7, drop=31),
    Column("pcie_rx", "", "rx", width=5, drop=31, gap=1),
    Column("power", "power", "W", width=5, drop=21, gap=1),
    Column("temperature", "temp", "°C", width=4, drop=17, gap=1),
)

HOT_C, WARM_C = 83.0, 76.0
"""Colours of the temperature: near where data-centre cards slow down (about 85 °C), and ten under it."""

SHORT_CAUSES = {
    "crash": "crash",
    "signal": "signal",
    "out_of_memory": "memory",
    "bad_argument": "argument",
    "port_taken": "port",
    "start_timeout": "timeout",
    "missing_file": "file",
    "unresponsive": "hung",
}


@dataclass(frozen=True, slots=True)
class Place:
    """One row before it is drawn: an engine on a GPU, or one without the other."""

    key: str
    engine: EngineView | None
    gpu: GpuReading | None
    gpu_index: int | None
    """None on CPU."""
    first: bool = True
    """The row that carries the engine's own values."""
    last: bool = True
    """The last row of the engine's GPUs."""


def places(frame: Frame) -> tuple[Place, ...]:
    """Every GPU and every engine, in the order of GPUs; those without a GPU at the end."""
    readings = {gpu.uuid: gpu for gpu in frame.gpus}
    taken = {uuid for engine in frame.engines for uuid in engine.gpu_uuids}
    found = [place for engine in frame.engines for place in _engine_places(engine, readings)]
    found += [Place(f"gpu:{gpu.uuid}", None, gpu, gpu.index) for gpu in frame.gpus if gpu.uuid not in taken]
    firsts = {engine.name: min(_indexes(engine, readings), default=None) for engine in frame.engines}

    def order(place: Place) -> tuple[int, float, str, int]:
        group = place.gpu_index if place.engine is None else firsts[place.engine.name]
        name = place.engine.name if place.engine is not None else ""
        return (group is None, group or 0, name, place.gpu_index or 0)

    return tuple(sorted(found, key=order))


def _indexes(engine: EngineView, readings: dict[str, GpuReading]) -> list[int]:
    """Where the engine's GPUs stand; as the engine knows them while GPUs cannot be read."""
    known = [readings[uuid].index for uuid in engine.gpu_uuids if uuid in readings]
    return sorted(known) if len(known) == len(engine.gpu_uuids) else sorted(engine.gpu_indexes)


def _engine_places(engine: EngineView, readings: dict[str, GpuReading]) -> Iterator[Place]:
    by_index = {readings[uuid].index: readings[uuid] for uuid in engine.gpu_uuids if uuid in readings}
    indexes = _indexes(engine, readings)
    if not indexes:
        yield Place(engine.name, engine, None, None)
    for number, index in enumerate(indexes):
        key = engine.name if not number else f"{engine.name}#{index}"
        yield Place(
            key, engine, by_index.get(index), index, first=not number, last=number == len(indexes) - 1
        )


def fleet_rows(frame: Frame, history: FleetHistory, glyphs: Glyphs) -> tuple[TableRow, ...]:
    """Rows for `COLUMNS`."""
    return tuple(TableRow(place.key, _cells(place, frame, history, glyphs)) for place in places(frame))


def _cells(place: Place, frame: Frame, history: FleetHistory, glyphs: Glyphs) -> dict[str, Line]:
    cells = {"gpu": _gpu_cell(place, glyphs), "state": _state_cell(place, frame.at_s, glyphs)}
    if place.gpu_index is not None:
        cells |= _gpu_cells(place.gpu, history, glyphs)
    if place.engine is None:
        cells["engine"] = ((fmt.UNKNOWN, "muted"),)
    elif place.first:
        cells["engine"] = ((place.engine.name, "strong"),)
        cells |= _engine_cells(place.engine, history, glyphs)
    return cells


def _gpu_cell(place: Place, glyphs: Glyphs) -> Line:
    if place.gpu_index is None:
        return (("cpu", "muted"),)
    bracket = " "
    if not (place.first and place.last):
        bracket = (
            glyphs.group_first if place.first else glyphs.group_last if place.last else glyphs.group_middle
        )
    problem = place.gpu is not None and place.gpu.problem is not None
    mark: Line = ((glyphs.warning, "warning"),) if problem else ()
    return ((f"{place.gpu_index:<2} ", "text"), (bracket, "muted"), *mark)


def _state_cell(place: Place, now_s: float, glyphs: Glyphs) -> Line:
    engine = place.engine
    if engine is None:
        return ((f"{glyphs.free} free", "state-stopped"),)
    if place.first:
        return ((f"{glyphs.states[engine.state]} {state_words(engine, now_s)}", STATE_ROLES[engine.state]),)
    if place.gpu is not None and place.gpu.problem is not None:
        return ((f"{glyphs.warning} {place.gpu.problem}", "state-degraded"),)
    return ()


def state_words(engine: EngineView, now_s: float) -> str:
    """The state with what matters in it: how far a start is, when the next try is due, why it failed."""
    if engine.state is EngineState.STARTING and engine.progress:
        return engine.progress
    if engine.state is EngineState.BACKOFF and engine.retry_at_s is not None:
        return f"backoff {fmt.duration(engine.retry_at_s - now_s)}"
    if engine.state is EngineState.FAILED and engine.last_exit is not None:
        short = SHORT_CAUSES.get(engine.last_exit.kind)
        return f"failed: {short}" if short else "failed"
    return engine.state.value


def _gpu_cells(gpu: GpuReading | None, history: FleetHistory, glyphs: Glyphs) -> dict[str, Line]:
    if gpu is None:
        return dict.fromkeys(("sm", "memory", "power", "temperature"), ((fmt.UNKNOWN, "muted"),))
    memory = (
        gpu.memory_used_bytes / gpu.memory_total_bytes
        if gpu.memory_used_bytes is not None and gpu.memory_total_bytes
        else None
    )
    trend = charts.bars(history.utilisation(gpu.uuid, SM_TREND), SM_TREND, glyphs.bars)
    return {
        "sm": _number(fmt.percent(gpu.utilisation_ratio)),
        "sm_trend": ((trend, "muted"),),
        "memory": _number(fmt.gib(gpu.memory_used_bytes)),
        "memory_bar": ((charts.gauge(memory, MEMORY_BAR, glyphs.bars), "muted"),),
        "nvlink_tx": _number(fmt.gigabytes_per_s(gpu.nvlink_tx_bytes_per_s)),
        "nvlink_rx": _number(fmt.gigabytes_per_s(gpu.nvlink_rx_bytes_per_s)),
        "pcie_tx": _number(fmt.gigabytes_per_s(gpu.pcie_tx_bytes_per_s)),
        "pcie_rx": _number(fmt.gigabytes_per_s(gpu.pcie_rx_bytes_per_s)),
        "power": _number(fmt.whole(gpu.power_w)),
        "temperature": _number(fmt.whole(gpu.temperature_c), _temperature_role(gpu.temperature_c)),
    }


def _engine_cells(engine: EngineView, history: FleetHistory, glyphs: Glyphs) -> dict[str, Line]:
    reading = engine.reading
    trend = charts.bars(history.kv_used(engine.name, KV_TREND), KV_TREND, glyphs.bars)
    return {
        "kv": _number(fmt.percent(engine.kv_used_ratio), heat(engine.kv_used_ratio)),
        "kv_trend": ((trend, "muted"),),
        "running": _number(fmt.count(engine.running)),
        "waiting": _number(fmt.count(engine.waiting), "warning" if engine.waiting else "text"),
        "tokens": _number(fmt.rate(None if reading is None else reading.generation_tokens_per_s)),
        "ttft": _number(fmt.milliseconds(None if reading is None else reading.ttft_p95_s)),
        "itl": _number(fmt.milliseconds(None if reading is None else reading.itl_p95_s)),
    }


def _number(text: str, role: Role = "text") -> Line:
    """Unknown and zero step back behind what is there."""
    return ((text, "muted" if text in (fmt.UNKNOWN, "0", "0.0") else role),)


def _temperature_role(temperature_c: float | None) -> Role:
    if temperature_c is None:
        return "muted"
    return "heat-4" if temperature_c >= HOT_C else "heat-3" if temperature_c >= WARM_C else "text"
