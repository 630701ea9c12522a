"""Prometheus text exposition, as much as an engine needs, laid out as prometheus_client writes it.

prometheus_client itself would add 10 MB and 60 ms to each of eight processes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

Labels = Mapping[str, str]


class Scalar:
    """A gauge or counter with one series per label set."""

    def __init__(
        self,
        name: str,
        documentation: str,
        kind: Literal["gauge", "counter"],
        label_sets: Sequence[Labels],
        created_s: float = 0.0,
    ) -> None:
        exposed = f"{name}_total" if kind == "counter" else name
        self.values = [0.0] * len(label_sets)
        """One per label set, in their order."""
        self._head = _head(exposed, documentation, kind)
        self._series = [f"{exposed}{_braces(labels)} " for labels in label_sets]
        self._tail = ""
        if kind == "counter":
            self._tail = _created(name, documentation, label_sets, created_s)

    def set(self, value: float, series: int = 0) -> None:
        """A gauge's value."""
        self.values[series] = value

    def add(self, amount: float, series: int = 0) -> None:
        """A counter's growth."""
        self.values[series] += amount

    def render(self) -> Iterable[str]:
        """Text blocks."""
        yield self._head
        for series, value in zip(self._series, self.values, strict=True):
            yield f"{series}{float(value)}\n"
        yield self._tail


class Histogram:
    """A histogram with fixed upper bounds."""

    def __init__(
        self, name: str, documentation: str, bounds: Sequence[float], labels: Labels, created_s: float = 0.0
    ) -> None:
        self._bounds = [float(bound) for bound in bounds]
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._head = _head(name, documentation, "histogram")
        edges = [*map(str, self._bounds), "+Inf"]
        self._buckets = [f"{name}_bucket{_braces({**labels, 'le': edge})} " for edge in edges]
        self._totals = (f"{name}_count{_braces(labels)} ", f"{name}_sum{_braces(labels)} ")
        self._tail = _created(name, documentation, [labels], created_s)

    def observe(self, value: float) -> None:
        """Count one value; a bound belongs to the bucket below it."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def render(self) -> Iterable[str]:
        """Text blocks."""
        yield self._head
        below = 0
        for bucket, count in zip(self._buckets, self._counts, strict=True):
            below += count
            yield f"{bucket}{below}.0\n"
        yield f"{self._totals[0]}{below}.0\n"
        yield f"{self._totals[1]}{self._sum}\n"
        yield self._tail


def _head(name: str, documentation: str, kind: str) -> str:
    return f"# HELP {name} {documentation}\n# TYPE {name} {kind}\n"


def _created(name: str, documentation: str, label_sets: Sequence[Labels], at_s: float) -> str:
    lines = "".join(f"{name}_created{_braces(labels)} {at_s}\n" for labels in label_sets)
    return _head(f"{name}_created", documentation, "gauge") + lines


def _braces(labels: Labels) -> str:
    inner = ",".join(f'{key}="{_escape(labels[key])}"' for key in sorted(labels))
    return f"{{{inner}}}" if inner else ""


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
