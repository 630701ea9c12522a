"""Data on stdout: JSON for programs, aligned text for people."""

from __future__ import annotations

from collections.abc import Sequence

import click
import msgspec

UNKNOWN = "–"


def print_json(value: msgspec.Struct) -> None:
    """One object on one line."""
    click.echo(msgspec.json.encode(value).decode())


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str | None]], right: frozenset[int]) -> None:
    """Columns as wide as their longest cell; those in `right` are aligned right; None is a dash."""
    cells = [list(headers)] + [[UNKNOWN if c is None else c for c in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headers))]
    for row in cells:
        padded = [
            c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo("  ".join(padded).rstrip())
