"""Palettes: read from TOML, checked, and handed to Textual as themes.

A palette holds the colours that every Textual widget knows (`[colors]`) and the tokens that only the
cockpit draws with (`[tokens]`): states, heat, trend. `themes/README.md` says what each token is for.
A palette of the user's that cannot be read is left out with a notice; it never stops the cockpit.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import msgspec
from textual.color import Color, ColorParseError
from textual.theme import Theme

DEFAULT_THEME = "night"
PREFERRED_ORDER = ("night", "paper", "high-contrast", "ansi")
"""The order in which `T` walks; the user's own follow."""

COLORS = (
    "background",
    "surface",
    "panel",
    "foreground",
    "muted",
    "rule",
    "primary",
    "secondary",
    "accent",
    "success",
    "warning",
    "error",
)
TOKENS = (
    "state-ready",
    "state-starting",
    "state-draining",
    "state-degraded",
    "state-failed",
    "state-stopped",
    "state-held",
    "heat-0",
    "heat-1",
    "heat-2",
    "heat-3",
    "heat-4",
    "trend",
    "sim",
    "cursor",
)


class ThemeError(Exception):
    """A palette that cannot be used: which file, what is wrong."""


class Palette(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A theme file as written."""

    title: str
    colors: dict[str, str]
    tokens: dict[str, str]
    dark: bool = True
    ansi: bool = False
    """Uses the terminal's own 16 colours by name, and its background."""


@dataclass(frozen=True, slots=True)
class Themes:
    """What was found."""

    themes: tuple[Theme, ...]
    """Ours first, in the order in which they are offered."""
    titles: dict[str, str]
    """Theme name to what the operator reads."""
    problems: tuple[str, ...]
    """One sentence for each file that was left out."""


def load_themes(user_dir: Path | None = None) -> Themes:
    """Our palettes and the user's; one of the user's under the same name takes the place of ours."""
    found: dict[str, tuple[Theme, str]] = {}
    problems: list[str] = []
    for entry in sorted(_shipped().iterdir(), key=_order):
        if entry.name.endswith(".toml"):
            name = entry.name.removesuffix(".toml")
            found[name] = read_theme(name, entry.read_text(encoding="utf-8"))
    for path in _user_files(user_dir):
        try:
            found[path.stem] = read_theme(path.stem, path.read_text(encoding="utf-8"))
        except (ThemeError, OSError, UnicodeDecodeError) as error:
            problems.append(f"theme {path.name} is left out: {error}")
    themes = tuple(theme for theme, _ in found.values())
    return Themes(themes, {name: title for name, (_, title) in found.items()}, tuple(problems))


def read_theme(name: str, text: str) -> tuple[Theme, str]:
    """A palette's text as a Textual theme, with its title.

    Raises:
        ThemeError: not TOML, an unknown or missing key, or something that is no colour.
    """
    try:
        palette = msgspec.convert(tomllib.loads(text), Palette)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ThemeError(str(error)) from error
    _check("colors", palette.colors, COLORS)
    _check("tokens", palette.tokens, TOKENS)
    return _theme(name, palette), palette.title


def token_defaults() -> dict[str, str]:
    """A value for each token, so that styles can be read before a palette is chosen."""
    return {"rule": "#808080"} | dict.fromkeys(TOKENS, "#808080")


def _check(table: str, values: dict[str, str], known: tuple[str, ...]) -> None:
    for key in values:
        if key not in known:
            raise ThemeError(f"[{table}] has no key {key!r}")
    for key in known:
        if key not in values:
            raise ThemeError(f"[{table}] lacks {key!r}")
        try:
            Color.parse(values[key])
        except ColorParseError as error:
            raise ThemeError(f"[{table}] {key} = {values[key]!r} is no colour") from error


ANSI_VARIABLES = {
    "ansi-background": "ansi_black",
    "ansi-foreground": "ansi_white",
    "block-cursor-foreground": "ansi_bright_white",
    "block-cursor-blurred-foreground": "ansi_bright_white",
    "input-cursor-background": "ansi_default",
    "input-cursor-foreground": "ansi_default",
    "input-cursor-text-style": "reverse",
    "input-selection-background": "ansi_blue",
    "input-selection-foreground": "ansi_bright_white",
    "screen-selection-background": "ansi_blue",
    "screen-selection-foreground": "ansi_bright_white",
    "scrollbar-corner-color": "ansi_default",
    "scrollbar-background-hover": "ansi_default",
    "scrollbar-background-active": "ansi_default",
}
"""What Textual's widgets need of an ANSI theme and do not derive."""


def _theme(name: str, palette: Palette) -> Theme:
    color = palette.colors
    return Theme(
        name=name,
        primary=color["primary"],
        secondary=color["secondary"],
        accent=color["accent"],
        success=color["success"],
        warning=color["warning"],
        error=color["error"],
        foreground=color["foreground"],
        background=color["background"],
        surface=color["surface"],
        panel=color["panel"],
        dark=palette.dark,
        ansi=palette.ansi,
        variables=_variables(palette) | (ANSI_VARIABLES if palette.ansi else {}),
    )


def _variables(palette: Palette) -> dict[str, str]:
    """Our tokens, and Textual's own ones where a blend of it would fall under our contrast."""
    color, cursor = palette.colors, palette.tokens["cursor"]
    return palette.tokens | {
        "rule": color["rule"],
        "text-muted": color["muted"],
        "text-disabled": color["muted"],
        "foreground-muted": color["muted"],
        "text-accent": color["accent"],
        "text-primary": color["primary"],
        "text-secondary": color["secondary"],
        "text-success": color["success"],
        "text-warning": color["warning"],
        "text-error": color["error"],
        "border": color["accent"],
        "border-blurred": color["rule"],
        "block-cursor-background": cursor,
        "block-cursor-foreground": color["foreground"],
        "block-cursor-blurred-background": cursor,
        "block-cursor-blurred-foreground": color["foreground"],
        "block-hover-background": cursor,
        "footer-background": color["background"],
        "footer-foreground": color["muted"],
        "footer-key-foreground": color["accent"],
        "footer-description-foreground": color["muted"],
        "footer-item-background": color["background"],
        "scrollbar": color["rule"],
        "scrollbar-background": color["background"],
        "scrollbar-hover": color["muted"],
        "scrollbar-active": color["accent"],
    }


def _shipped() -> Traversable:
    """Inside the installed package; in a checkout they lie beside it."""
    installed = files("cockpit") / "_themes"
    return installed if installed.is_dir() else Path(__file__).resolve().parent.parent / "themes"


def _order(entry: Traversable) -> tuple[int, str]:
    name = entry.name.removesuffix(".toml")
    return (PREFERRED_ORDER.index(name) if name in PREFERRED_ORDER else len(PREFERRED_ORDER), name)


def _user_files(user_dir: Path | None) -> list[Path]:
    if user_dir is None:
        return []
    try:
        return sorted(path for path in user_dir.iterdir() if path.suffix == ".toml")
    except OSError:
        return []
