"""All about one engine or one GPU, as lines. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit import format as fmt
from cockpit.fleet_rows import state_words
from cockpit.glyphs import Glyphs
from cockpit.log_text import clean_line
from cockpit.spans import STATE_ROLES, Line, Role, Span
from engine.model import EngineView, ExitCause, Frame, GpuReading

LABEL_CELLS = 12


def engine_details(engine: EngineView, frame: Frame, now_s: float, glyphs: Glyphs) -> tuple[Line, ...]:
    """What it is, where it runs, what it does, how it last ended."""
    mark: Line = (("  SIM", "sim"),) if engine.simulated else ()
    state: Line = (
        (f"{glyphs.states[engine.state]} {state_words(engine, frame.at_s)}", STATE_ROLES[engine.state]),
        (f"  for {fmt.age(engine.since_s, now_s)}" if engine.since_s is not None else "", "muted"),
        *mark,
    )
    return (*_facts(engine, state), *_gpu_part(engine, frame), *_exit_part(engine.last_exit))


def _facts(engine: EngineView, state: Line) -> Iterator[Line]:
    reading = engine.reading
    yield _field("state", *state)
    yield _field("model", (engine.model, "text"))
    backend = f"{engine.backend} {engine.vllm_version}" if engine.vllm_version else engine.backend
    yield _field("backend", (backend, "text"), (f"  deployment {engine.deployment}", "muted"))
    yield _field("process", *_process(engine))
    yield _field("endpoint", (engine.endpoint or fmt.UNKNOWN, "text"))
    yield _field("open", *_open(engine))
    yield _field("restarts", (f"{engine.restarts}", "text"), ("  that nobody asked for", "muted"))
    yield ()
    window = "" if reading is None or reading.max_num_seqs is None else f"  of {reading.max_num_seqs} at once"
    yield _field(
        "requests",
        (f"{fmt.count(engine.running)} running, {fmt.count(engine.waiting)} waiting", "text"),
        (f"{window}  {engine.in_flight} at the gateway", "muted"),
    )
    blocks = "" if reading is None or reading.kv_blocks is None else f"  of {reading.kv_blocks:,} blocks"
    hits = fmt.UNKNOWN if reading is None else fmt.percent(reading.prefix_hit_ratio)
    yield _field(
        "KV cache",
        (f"{fmt.percent(engine.kv_used_ratio)} %", "text"),
        (f"{blocks}  prefix hits {hits} %", "muted"),
    )
    if reading is not None:
        yield _field(
            "tokens/s",
            (f"{fmt.rate(reading.generation_tokens_per_s)} out", "text"),
            (f"  {fmt.rate(reading.prompt_tokens_per_s)} in", "text"),
        )
        yield _field(
            "p95",
            (f"TTFT {fmt.milliseconds(reading.ttft_p95_s)} ms", "text"),
            (f"  ITL {fmt.milliseconds(reading.itl_p95_s)} ms", "text"),
        )


def _process(engine: EngineView) -> Iterator[Span]:
    if engine.pid is None:
        yield ("none", "muted")
        return
    yield (f"pid {engine.pid}  session {fmt.count(engine.session_id)}", "text")
    if engine.launch_id is not None:
        yield (f"  launch {engine.launch_id}", "muted")


def _open(engine: EngineView) -> Iterator[Span]:
    if engine.open_to_local_users is not None:
        yield (engine.open_to_local_users, "warning")
    elif engine.endpoint is not None:
        yield ("nothing: a private socket, reached through the gateway only", "muted")
    else:
        yield (fmt.UNKNOWN, "muted")


def _gpu_part(engine: EngineView, frame: Frame) -> Iterator[Line]:
    on = [gpu for gpu in frame.gpus if gpu.uuid in engine.gpu_uuids]
    if not engine.gpu_uuids:
        yield _field("GPUs", ("none: on CPU", "muted"))
    for gpu in on:
        yield gpu_line(gpu)
    for uuid in engine.gpu_uuids:
        if uuid not in {gpu.uuid for gpu in on}:
            yield _field("GPU", (f"{uuid} cannot be read", "warning"))


def gpu_line(gpu: GpuReading) -> Line:
    """One GPU with what it does."""
    memory = f"{fmt.gib(gpu.memory_used_bytes)} of {fmt.gib(gpu.memory_total_bytes)} GiB"
    return _field(
        f"GPU {gpu.index}",
        (f"SM {fmt.percent(gpu.utilisation_ratio)} %  {memory}  {fmt.whole(gpu.temperature_c)} °C", "text"),
        (f"  {gpu.problem}" if gpu.problem else "", "warning"),
    )


def gpu_details(gpu: GpuReading) -> tuple[Line, ...]:
    """A GPU without an engine."""
    numa = "" if gpu.numa_node is None else f"  NUMA node {gpu.numa_node}"
    mark: Line = (("  SIM", "sim"),) if gpu.simulated else ()
    limit = "" if gpu.power_limit_w is None else f" of {fmt.whole(gpu.power_limit_w)}"
    nvlink = f"{fmt.gigabytes_per_s(gpu.nvlink_tx_bytes_per_s)} out, "
    nvlink += f"{fmt.gigabytes_per_s(gpu.nvlink_rx_bytes_per_s)} in GB/s"
    pcie = f"{fmt.gigabytes_per_s(gpu.pcie_tx_bytes_per_s)} out, "
    pcie += f"{fmt.gigabytes_per_s(gpu.pcie_rx_bytes_per_s)} in GB/s"
    return (
        _field("name", (gpu.name, "text"), *mark),
        _field("UUID", (gpu.uuid, "text"), (numa, "muted")),
        gpu_line(gpu),
        _field("power", (f"{fmt.whole(gpu.power_w)}{limit} W", "text")),
        _field("NVLink", (nvlink, "text")),
        _field("PCIe", (pcie, "text")),
        (),
        _field("engine", ("none: n launches one", "muted")),
    )


def _exit_part(cause: ExitCause | None) -> Iterator[Line]:
    if cause is None:
        return
    role: Role = "text" if cause.kind == "requested" else "error"
    how = cause.signal or (f"code {cause.exit_code}" if cause.exit_code is not None else "")
    yield ()
    yield _field("last exit", (clean_line(cause.summary), role), (f"  {how}" if how else "", "muted"))
    if cause.hint:
        yield _field("", (clean_line(cause.hint), "text"))
    for line in cause.last_error_lines:
        yield _field("", (clean_line(line), "muted"))


def _field(label: str, *value: Span) -> Line:
    return ((f"{label:<{LABEL_CELLS}}", "muted"), *value)
