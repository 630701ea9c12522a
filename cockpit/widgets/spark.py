"""A series over the last minutes, with its axis and the value of now."""

from __future__ import annotations

from collections.abc import Callable

from cockpit import charts
from cockpit.fleet_history import KEPT_FRAMES, Series
from cockpit.format import UNKNOWN, right
from cockpit.spans import Line
from cockpit.widgets.painted import PaintedLines

AXIS_CELLS = 7


class Trend(PaintedLines):
    """A braille line on an axis from 0 to a round number; title and present value above it."""

    DEFAULT_CSS = """
    Trend { height: 1fr; }
    """

    def __init__(
        self,
        title: str,
        unit: str,
        write: Callable[[float | None], str],
        *,
        id: str | None = None,  # noqa: A002 - as every widget calls it
    ) -> None:
        """Args:
        write: the value as digits.
        """
        super().__init__(id=id)
        self._title = title
        self._unit = unit
        self._write = write
        self._series: Series = ()

    def show_series(self, series: Series) -> None:
        """Draw the last five minutes of it."""
        self._series = series
        width, height = self.size
        if height < 2 or width <= AXIS_CELLS + 4:
            self.show(())
            return
        rows, columns = height - 1, width - AXIS_CELLS - 2
        points = charts.buckets(series, columns * 2, KEPT_FRAMES)
        top = charts.nice_top(max((point for point in points if point is not None), default=0.0))
        now = next(iter(series[-1:]), None)
        value = self._write(now)
        lines: list[Line] = [
            (
                (f" {self._title} ", "muted"),
                (value, "strong" if value != UNKNOWN else "muted"),
                (f" {self._unit}, 5 min", "muted"),
            )
        ]
        for number, drawn in enumerate(charts.braille(points, rows, top)):
            label = self._write(top) if not number else "0" if number == rows - 1 else ""
            axis = "┤" if label else "│"
            lines.append(((f"{right(label, AXIS_CELLS - 1)} {axis}", "muted"), (drawn, "trend")))
        self.show(lines)

    def on_resize(self) -> None:
        super().on_resize()
        self.show_series(self._series)
