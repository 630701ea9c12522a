"""Numbers, times and names as the operator reads them. Pure; knows neither Textual nor Rich.

What is unknown is `–`. Units stand in column headers, so most functions return the digits alone.
"""

from __future__ import annotations

import time
import unicodedata

UNKNOWN = "–"
GIB = 2**30


def percent(ratio: float | None) -> str:
    """0.583 as `58`."""
    return UNKNOWN if ratio is None else f"{ratio * 100:.0f}"


def count(value: int | None) -> str:
    """12345 as `12345`."""
    return UNKNOWN if value is None else str(value)


def whole(value: float | None) -> str:
    """84.2 as `84`."""
    return UNKNOWN if value is None else f"{value:.0f}"


def gib(size_bytes: float | None) -> str:
    """Bytes in GiB: `0.4`, `61.2`, `141`."""
    if size_bytes is None:
        return UNKNOWN
    value = size_bytes / GIB
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def size(size_bytes: int | None) -> str:
    """Bytes with their unit: `512 B`, `61.2 GiB`."""
    if size_bytes is None:
        return UNKNOWN
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.95 else f"{value:.1f} {unit}"


def rate(value: float | None) -> str:
    """Three significant digits: `0`, `0.42`, `12.4`, `512`, `3.41k`, `1.2M`."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return "0"
    for limit, divisor, suffix in ((999.5, 1, ""), (999_500, 1_000, "k"), (float("inf"), 1_000_000, "M")):
        if value < limit:
            return _three_digits(value / divisor) + suffix
    raise AssertionError("infinity is above every rate")


def _three_digits(value: float) -> str:
    for limit, places in ((9.995, 2), (99.95, 1)):
        if value < limit:
            return f"{value:.{places}f}"
    return f"{value:.0f}"


def gigabytes_per_s(bytes_per_s: float | None) -> str:
    """Bytes per second in GB/s, as links are sold: `41.2`, `212`."""
    if bytes_per_s is None:
        return UNKNOWN
    value = bytes_per_s / 1e9
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def milliseconds(seconds: float | None) -> str:
    """0.1714 as `171`; 12.4 as `12400`."""
    return UNKNOWN if seconds is None else f"{seconds * 1000:.0f}"


def duration(seconds: float | None) -> str:
    """The two largest units that matter: `12 s`, `3 min`, `2 h 14 min`, `5 d 3 h`."""
    if seconds is None:
        return UNKNOWN
    whole_s = max(0, round(seconds))
    if whole_s < 60:
        return f"{whole_s} s"
    minutes, hours, days = whole_s // 60, whole_s // 3_600, whole_s // 86_400
    if not hours:
        return f"{minutes} min"
    if not days:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"


def age(at_s: float | None, now_s: float) -> str:
    """How long ago; a clock that runs a little ahead is now."""
    return UNKNOWN if at_s is None else duration(now_s - at_s)


def clock(at_s: float | None) -> str:
    """Time of day here: `14:02:11`."""
    return UNKNOWN if at_s is None else time.strftime("%H:%M:%S", time.localtime(at_s))


def day_and_clock(at_s: float | None) -> str:
    """`2026-01-01 14:02:11` here."""
    return UNKNOWN if at_s is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))


def plural(number: int, noun: str) -> str:
    """`1 request`, `3 requests`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def cells(text: str) -> int:
    """Terminal cells that a text takes: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_cell(character) for character in text)


def fit(text: str, width: int) -> str:
    """Cut to `width` cells with an ellipsis, or padded at the right."""
    taken = cells(text)
    if taken <= width:
        return text + " " * (width - taken)
    if width <= 0:
        return ""
    kept, used = [], 0
    for character in text:
        cell = _cell(character)
        if used + cell > width - 1:
            break
        kept.append(character)
        used += cell
    return "".join(kept) + "…" + " " * (width - 1 - used)


def right(text: str, width: int) -> str:
    """Padded at the left; what is too long is cut as by `fit`."""
    taken = cells(text)
    return " " * (width - taken) + text if taken <= width else fit(text, width)


def _cell(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
