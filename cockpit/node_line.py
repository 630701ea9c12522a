"""The node in one line: who, how much traffic, how quick, what time. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cockpit import format as fmt
from cockpit.fleet_history import total_tokens_per_s
from cockpit.glyphs import Glyphs
from cockpit.spans import Line, apart, line_cells
from engine.model import Frame, GpuReading


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece that leaves when the line is too long, highest `drop` first."""

    line: Line
    drop: int


def node_line(frame: Frame | None, now_s: float, width: int, waiting: str = "") -> Line:
    """Name, SIM, GPUs and gateway at the left; traffic and clock at the right.

    Args:
        waiting: what to say before the first frame came.
    """
    clock = _Part(((fmt.clock(now_s), "muted"),), 0)
    if frame is None:
        return apart(((f" {waiting}", "muted"),), (*clock.line, (" ", "text")), width)
    gateway = frame.gateway
    left = [_Part(((frame.node.name, "strong"),), 0)]
    if frame.simulated:
        left.append(_Part((("SIM", "sim"),), 0))
    left.append(_Part(((gpus_summary(frame.gpus), "text"),), 2))
    if gateway.listen is not None:
        left.append(_Part(((f"http://{gateway.listen}/v1", "muted"),), 5))
    right = [
        _Part(_figure(fmt.right(fmt.rate(gateway.requests_per_s), 4), "req/s"), 3),
        _Part(_figure(fmt.right(fmt.rate(total_tokens_per_s(frame)), 5), "tok/s"), 1),
        _Part((("TTFT95 ", "muted"), *_figure(fmt.right(fmt.milliseconds(gateway.ttft_p95_s), 4), "ms")), 2),
        clock,
    ]
    while True:
        for gap in (3, 2):
            before, after = _joined(left, gap), _joined(right, gap)
            line = apart(((" ", "text"), *before), (*after, (" ", "text")), width)
            if line_cells(before) + line_cells(after) + gap + 2 <= width:
                return line
        droppable = [part for part in (*left, *right) if part.drop]
        if not droppable:
            return line
        worst = max(droppable, key=lambda part: part.drop)
        (left if worst in left else right).remove(worst)


def gpus_summary(gpus: Sequence[GpuReading]) -> str:
    """`8 × H100 80GB`, or the number alone where they differ."""
    if not gpus:
        return "no GPU"
    names = Counter(_short(gpu.name) for gpu in gpus)
    if len(names) > 1:
        return f"{len(gpus)} GPUs of {len(names)} kinds"
    return f"{len(gpus)} × {next(iter(names))}"


def _short(name: str) -> str:
    """The maker and the kind of memory say nothing that tells two cards of a machine apart."""
    return " ".join(word for word in name.split() if word != "NVIDIA" and not word.startswith("HBM"))


def notice(frame: Frame | None, glyphs: Glyphs) -> str:
    """What an operator should know while nothing is wrong: simulated, or nothing deployed; else empty."""
    if frame is None:
        return ""
    if frame.simulated:
        whole = (frame.node.config or "").startswith("sim:")
        what = "simulated node" if whole else "simulated engines"
        return f"{what} {glyphs.dot} real engines: make run-vllm-cpu, or cockpit up -c FILE"
    if not frame.engines:
        return "nothing runs here yet: n launches a model"
    return ""


def _figure(value: str, unit: str) -> Line:
    return ((value, "text"), (f" {unit}", "muted"))


def _joined(parts: Sequence[_Part], gap: int) -> Line:
    joined: Line = ()
    for number, part in enumerate(parts):
        joined = (*joined, *(((" " * gap, "text"),) if number else ()), *part.line)
    return joined
