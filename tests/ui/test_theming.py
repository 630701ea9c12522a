"""Palettes: complete, readable, and a broken one never in the way."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from textual.color import Color

from cockpit.theming import COLORS, PREFERRED_ORDER, TOKENS, ThemeError, load_themes, read_theme
from tests.support.cockpit_app import cockpit, toasts
from tests.support.fake_node import FakeNode, calm_frame
from tests.support.wait_until import wait_until

SHIPPED = {theme.name: theme for theme in load_themes().themes}
TEXT = (
    "foreground", "muted", "accent", "success", "warning", "error",
    *(token for token in TOKENS if token not in ("cursor",)),
)  # fmt: skip
BACKGROUNDS = ("background", "surface", "panel", "cursor")
READABLE = 4.5
"""WCAG 2.2, success criterion 1.4.3, for text of normal size."""


def value(theme: str, name: str) -> Color:
    """A colour of a theme by the name that its file gives it."""
    chosen = SHIPPED[theme]
    named = {"muted": "text-muted"}.get(name, name)
    return Color.parse(chosen.variables.get(named) or getattr(chosen, name))


def luminance(color: Color) -> float:
    """WCAG's relative luminance."""
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in color.normalized
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Color, other: Color) -> float:
    """WCAG's contrast ratio."""
    lower, higher = sorted((luminance(one), luminance(other)))
    return (higher + 0.05) / (lower + 0.05)


def test_four_themes_are_shipped_in_the_order_in_which_they_are_offered() -> None:
    assert tuple(SHIPPED) == PREFERRED_ORDER
    assert load_themes().problems == ()


@pytest.mark.parametrize(
    ("theme", "text", "background"), [*product(("night", "paper", "high-contrast"), TEXT, BACKGROUNDS)]
)
def test_text_can_be_read_on_every_background(theme: str, text: str, background: str) -> None:
    ratio = contrast(value(theme, background), value(theme, text))
    assert ratio >= READABLE, f"{text} on {background}: {ratio:.2f}"


def test_ansi_uses_the_terminals_own_colours_only() -> None:
    theme = SHIPPED["ansi"]
    named = [theme.foreground, theme.background, theme.primary, *theme.variables.values()]
    assert [color for color in named if not (color or "").startswith("ansi_") and color != "reverse"] == []


def test_readme_names_every_token() -> None:
    readme = (Path(__file__).parents[2] / "themes" / "README.md").read_text()
    assert [name for name in (*COLORS, *TOKENS) if f"`{name}`" not in readme] == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("not toml", "Expected"),
        ('title = "x"', "colors"),
        ('title = "x"\nflavour = 1\n[colors]\n[tokens]\n', "flavour"),
        ('title = "x"\n[colors]\nbackground = "#000000"\n[tokens]\n', "lacks 'surface'"),
        ('title = "x"\n[colors]\nbackgrund = "#000000"\n[tokens]\n', "no key 'backgrund'"),
        ('title = "x"\n[colors]\nbackground = "puce-ish"\n[tokens]\n', "is no colour"),
    ],
)
def test_a_broken_palette_names_what_is_wrong(text: str, complaint: str) -> None:
    with pytest.raises(ThemeError, match=complaint):
        read_theme("mine", text)


async def test_a_broken_theme_of_the_users_is_left_out_with_a_notice(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("title = ")
    (tmp_path / "mine.toml").write_text(Path(__file__).parents[2].joinpath("themes/night.toml").read_text())
    async with cockpit(FakeNode(calm_frame()), themes_dir=tmp_path) as (app, _):
        assert "mine" in app.themes.titles
        assert "broken" not in app.themes.titles
        await wait_until(lambda: any("broken.toml is left out" in toast for toast in toasts(app)))


def test_a_folder_that_is_not_there_has_no_themes(tmp_path: Path) -> None:
    assert load_themes(tmp_path / "none").problems == ()
