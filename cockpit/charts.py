"""Shapes of series in characters. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""Braille dots of the left and the right column of a cell, from the bottom up (Unicode 2800 block)."""
BRAILLE = 0x2800
DOTS_A_CELL = 4


def bars(ratios: Sequence[float | None], width: int, levels: str) -> str:
    """The last `width` shares as one row of bars, newest at the right; a gap where unknown."""
    shown = list(ratios)[-width:]
    text = "".join(_bar(ratio, levels) for ratio in shown)
    return " " * (width - len(shown)) + text


def _bar(ratio: float | None, levels: str) -> str:
    if ratio is None:
        return " "
    return levels[min(len(levels) - 1, int(max(0.0, ratio) * len(levels)))]


def gauge(ratio: float | None, width: int, levels: str) -> str:
    """A share as a bar that fills from the left."""
    if ratio is None:
        return " " * width
    full = min(width, round(max(0.0, ratio) * width))
    return levels[-3] * full + levels[0] * (width - full)


def buckets(series: Sequence[float | None], count: int, span: int) -> list[float | None]:
    """`span` values as the means of `count` stretches of equal length, the newest at the end.

    A series that is shorter than the span leaves the older stretches unknown.
    """
    missing: list[float | None] = [None] * max(0, span - len(series))
    values = missing + list(series)[-span:]
    means: list[float | None] = []
    for index in range(count):
        first, end = index * span // count, max((index + 1) * span // count, index * span // count + 1)
        known = [value for value in values[first:end] if value is not None]
        means.append(sum(known) / len(known) if known else None)
    return means


def braille(points: Sequence[float | None], rows: int, top: float) -> list[str]:
    """A line over two points a cell and four levels a row, from 0 to `top`; first row uppermost."""
    columns = (len(points) + 1) // 2
    grid = [[0] * columns for _ in range(rows)]
    levels = rows * DOTS_A_CELL
    before: int | None = None
    for index, point in enumerate(points):
        if point is None:
            before = None
            continue
        level = min(levels - 1, int(max(0.0, point) / top * levels)) if top > 0 else 0
        # A jump is drawn as a stroke, so that the line holds together.
        lowest, highest = (level, level) if before is None else (min(before, level), max(before, level))
        if before is not None and highest - lowest > 1:
            lowest, highest = (before + 1, level) if level > before else (level, before - 1)
        else:
            lowest = highest = level
        for dot in range(lowest, highest + 1):
            grid[rows - 1 - dot // DOTS_A_CELL][index // 2] |= _DOTS[index % 2][dot % DOTS_A_CELL]
        before = level
    return ["".join(chr(BRAILLE + cell) if cell else " " for cell in row) for row in grid]


_STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def nice_top(highest: float) -> float:
    """The axis' end: a round number at or above the highest value."""
    if highest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest))
    return next((step * power for step in _STEPS if step * power >= highest), 10.0 * power)
