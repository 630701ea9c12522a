"""How long our exposition parser takes on a vLLM page, beside prometheus_client's.

Run with `python -m tests.bench.exposition_parse`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from engine.telemetry.derive import WANTED
from engine.telemetry.exposition import parse

_PAGE = Path(__file__).parents[1] / "engine" / "telemetry" / "data" / "vllm_0_32_later.prom"
_ROUNDS = 20


def _median_ms(work: Callable[[], object]) -> float:
    times_s: list[float] = []
    for _ in range(_ROUNDS):
        start_s = time.perf_counter()
        work()
        times_s.append(time.perf_counter() - start_s)
    return statistics.median(times_s) * 1e3


def main() -> None:
    """Print both medians and their ratio."""
    text = _PAGE.read_text()
    ours_ms = _median_ms(lambda: parse(text, WANTED))
    theirs_ms = _median_ms(lambda: list(text_string_to_metric_families(text)))
    print(f"page               {len(text) / 1e3:6.1f} kB, {text.count(chr(10))} lines")
    print(f"ours               {ours_ms:6.2f} ms  ({len(parse(text, WANTED))} samples wanted)")
    print(f"prometheus_client  {theirs_ms:6.2f} ms")
    print(f"ratio              {theirs_ms / ours_ms:6.1f}")


if __name__ == "__main__":
    main()
