"""Log lines are safe to draw."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.log_text import clean_line, line_severity
from engine.events import Severity


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("plain text", "plain text"),
        ("\x1b[31mred\x1b[0m and \x1b[1;38;5;4mblue\x1b[m", "red and blue"),
        ("\x1b]0;owned title\x07after", "after"),
        ("\x1b]52;c;ZXZpbA==\x1b\\after", "after"),
        ("\x1bPq#0;2;0;0;0\x1b\\sixel", "sixel"),
        ("\x9b2Jcleared \x9d0;t\x9cend", "cleared end"),
        ("\x1b[2J\x1b[H\x1bcreset", "reset"),
        ("bell\x07 back\x08space nul\x00", "bell backspace nul"),
        ("a\tb", "a    b"),
        ("10%\r 50%\r100% done\r\n", "100% done"),
        ("user \u202egnp.exe\u202c \u2066x\u2069", "user gnp.exe x"),
        ("naïve 模型 🚀", "naïve 模型 🚀"),
        ("\x1b", ""),
    ],
)
def test_what_drives_a_terminal_is_gone(raw: str, clean: str) -> None:
    assert clean_line(raw) == clean


@given(st.text(alphabet=st.characters() | st.sampled_from("\x1b[];m\x07\x9b\x9d\r"), max_size=80))
def test_no_control_character_survives(raw: str) -> None:
    assert not [char for char in clean_line(raw) if unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"}]


@given(st.text(alphabet=st.characters(categories=["L", "N", "P"]), max_size=80))
def test_ordinary_text_is_untouched(text: str) -> None:
    assert clean_line(text) == text


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("INFO 11-02 10:11:12 [api_server.py:1] ERROR count is 0", Severity.INFO),
        ("ERROR 11-02 10:11:12 [core.py:5] engine died", Severity.ERROR),
        ("(EngineCore_DP0 pid=77) ERROR 11-02 10:11:12 [core.py:5] died", Severity.ERROR),
        ("(APIServer pid=7) WARNING 11-02 10:11:12 [x.py:5] slow", Severity.WARNING),
        ("ERROR:    Exception in ASGI application", Severity.ERROR),
        ("2026-01-02 10:11:12,345 WARNING root: slow", Severity.WARNING),
        ("[2026-01-02T10:11:12Z] [CRITICAL] gone", Severity.ERROR),
        ("Traceback (most recent call last):", Severity.ERROR),
        ("torch.OutOfMemoryError: CUDA out of memory", Severity.ERROR),
        ("the word error in prose", Severity.INFO),
        ("", Severity.INFO),
    ],
)
def test_severity_is_read_from_the_line_s_head(line: str, severity: Severity) -> None:
    assert line_severity(line) is severity
