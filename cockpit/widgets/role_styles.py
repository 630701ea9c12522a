"""What a role looks like in a theme: from its variables to a Rich style."""

from __future__ import annotations

from collections.abc import Mapping

from rich.style import Style
from textual.color import Color

VARIABLES = {"muted": "text-muted", "warning": "text-warning", "error": "text-error"}
"""Roles whose variable has another name; the rest have their own, such as `$state-ready`."""
BOLD = frozenset({"strong", "sim"})
PLAIN = frozenset({"text", "strong"})
"""Drawn in the colour of the text around them."""


def role_style(role: str, variables: Mapping[str, str]) -> Style:
    """The style of a span's role, to be laid over the widget's own."""
    bold = True if role in BOLD else None
    if role in PLAIN:
        return Style(bold=bold)
    value = variables[VARIABLES.get(role, role)]
    if value.startswith("auto"):  # Textual's own themes: a contrast to whatever lies below
        return Style(bold=bold, dim=role == "muted" or None)
    return Style(color=Color.parse(value).rich_color, bold=bold)


def cursor_style(name: str, variables: Mapping[str, str]) -> Style:
    """Under the line that is chosen; the 16-colour theme has no shade to spare and reverses."""
    value = variables[name]
    if value.startswith("ansi"):
        return Style(reverse=True)
    return Style(bgcolor=Color.parse(value).rich_color)
