"""The gateway's own counters as Prometheus text, exposition format 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate

from engine.gateway.ledger import TTFT_BOUNDS_S, Ledger

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "cockpit_gateway"

Row = tuple[Mapping[str, str], float]


def exposition(ledger: Ledger, in_flight: Mapping[str, int], engines: Iterable[str]) -> str:
    """Write everything the ledger holds.

    Args:
        ledger: the counters.
        in_flight: open requests by engine.
        engines: all engines, so that an idle one is written as 0 rather than left out.
    """
    families = (
        _family(
            "requests_total",
            "counter",
            "Requests answered, by deployment, endpoint and outcome.",
            (
                ({"deployment": deployment, "endpoint": endpoint, "outcome": outcome}, count)
                for (deployment, endpoint, outcome), count in sorted(ledger.finished.items())
            ),
        ),
        _family(
            "in_flight",
            "gauge",
            "Requests open on the engine.",
            (({"engine": engine}, in_flight.get(engine, 0)) for engine in engines),
        ),
        _family(
            "retries_total",
            "counter",
            "Requests sent again, by cause.",
            (({"cause": cause}, count) for cause, count in sorted(ledger.retries.items())),
        ),
        _family(
            "received_bytes_total",
            "counter",
            "Bytes of request bodies.",
            (({"deployment": name}, count) for name, count in sorted(ledger.received_bytes.items())),
        ),
        _family(
            "sent_bytes_total",
            "counter",
            "Bytes of answer bodies.",
            (({"deployment": name}, count) for name, count in sorted(ledger.sent_bytes.items())),
        ),
        _ttft(ledger),
    )
    return "".join(line + "\n" for family in families for line in family)


def _family(name: str, kind: str, help_text: str, rows: Iterable[Row]) -> list[str]:
    full = f"{PREFIX}_{name}"
    lines = [f"# HELP {full} {help_text}", f"# TYPE {full} {kind}"]
    lines += [f"{full}{_labels(labels)} {value:.17g}" for labels, value in rows]
    return lines


def _ttft(ledger: Ledger) -> list[str]:
    full = f"{PREFIX}_time_to_first_byte_seconds"
    bounds = [*(f"{bound:g}" for bound in TTFT_BOUNDS_S), "+Inf"]
    total = sum(ledger.ttft_counts)
    return [
        f"# HELP {full} From a request's arrival to the first byte of its streamed answer.",
        f"# TYPE {full} histogram",
        *(
            f'{full}_bucket{{le="{bound}"}} {count}'
            for bound, count in zip(bounds, accumulate(ledger.ttft_counts), strict=True)
        ),
        f"{full}_sum {ledger.ttft_sum_s:.17g}",
        f"{full}_count {total}",
    ]


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
