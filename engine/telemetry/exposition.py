"""Prometheus' text format, read for the names that are wanted and no others.

A vLLM page has some 700 lines of which 60 matter, so every line is first told by its name alone; only
a wanted one is taken apart. `tests/bench/exposition_parse.py` prints the cost beside
prometheus_client's parser, which is also the oracle of the tests.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/. Timestamps and exemplars are
passed over. Quoted metric names (`{"name"}`, for names outside the classic alphabet) are never wanted.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

_BLANK = " \t\r"
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"([^"\\]*(?:\\.[^"\\]*)*)"[ \t]*(,|(?=\}))')
_END = re.compile(r"[ \t]*\}")
_ESCAPE = re.compile(r'\\([\\n"])')
_NUMBER = re.compile(r"[+-]?(?:[0-9.]+(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE)


class ExpositionError(ValueError):
    """A line of a wanted name that cannot be read: the page is cut short or not Prometheus' at all."""


class Sample(NamedTuple):
    """One line of the page."""

    name: str
    labels: dict[str, str]
    value: float
    """Of any kind: counters, gauges and buckets alike; may be NaN or infinite."""


def parse(text: str, wanted: Collection[str]) -> list[Sample]:
    """The samples whose full name (`_bucket`, `_total` included) is in `wanted`, in the page's order.

    Args:
        wanted: names; a set or frozenset, since each line is looked up in it.

    Raises:
        ExpositionError: a wanted line is malformed; names the line. Others are not looked at.
    """
    samples: list[Sample] = []
    for number, line in enumerate(text.split("\n"), start=1):
        brace = line.find("{")
        head = line[:brace] if brace >= 0 else line.lstrip(_BLANK).partition(" ")[0].partition("\t")[0]
        name = head if head in wanted else head.strip(_BLANK)
        if name in wanted:
            samples.append(_sample(name, line, brace, number))
        elif brace > 0 and (" " in name or "\t" in name) and (name := name.split(None, 1)[0]) in wanted:
            # No labels: the first brace is that of an exemplar.
            samples.append(_sample(name, line, -1, number))
    return samples


def _sample(name: str, line: str, brace: int, number: int) -> Sample:
    labels: dict[str, str] = {}
    if brace >= 0:
        at = brace + 1
        while (end := _END.match(line, at)) is None:
            label = _LABEL.match(line, at)
            if label is None:
                raise ExpositionError(f"line {number} ({name}): the labels cannot be read")
            labels[label[1]] = _unescape(label[2])
            at = label.end()
        rest = line[end.end() :]
    else:
        rest = line.lstrip(_BLANK)[len(name) :]
    value = rest.split(None, 1)[0] if rest.strip(_BLANK) else ""
    if _NUMBER.fullmatch(value) is None:
        raise ExpositionError(f"line {number} ({name}): {value[:40]!r} is no number")
    try:
        return Sample(name, labels, float(value))
    except ValueError:  # such as "1.2.3", which the pattern lets pass
        raise ExpositionError(f"line {number} ({name}): {value[:40]!r} is no number") from None


def _unescape(value: str) -> str:
    if "\\" not in value:
        return value
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], value)
