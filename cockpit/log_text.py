"""One line of an engine's log, made safe to draw, and how loudly it speaks.

Log text is written by programs that the operator does not control (an engine prints what its clients
send). Escape sequences, control characters and direction overrides could drive or deceive the terminal.
"""

from __future__ import annotations

import re

from engine.events import Severity

TAB = "    "

_ESCAPES = re.compile(
    r"\x1b[PX^_\]][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # strings: DCS, SOS, PM, APC, OSC up to BEL or ST
    r"|[\x90\x98\x9d-\x9f][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # the same, opened by one C1 character
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor movement
    r"|\x1b[ -/]*[0-~]?"  # all other sequences
)
# C0, DEL and C1; zero-width and direction controls, which reorder or hide what follows them; lone surrogates.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")

# vLLM writes `INFO 11-02 10:11:12 [file.py:1] …`, with `(EngineCore pid=7) ` before it in child processes;
# uvicorn writes `ERROR:    …`; `logging` and Rust crates write the level within the first words.
_LEVEL = re.compile(
    r"^(?:\([^)]{0,60}\)\s*)?\S{0,40}?\s{0,4}(?:\S{1,40}\s+){0,2}?\[?(CRITICAL|FATAL|ERROR|WARN(?:ING)?)\b"
)
_PANIC = re.compile(
    r"^(?:\([^)]{0,60}\)\s*)?(?:Traceback \(most recent call last\)|\w+(?:\.\w+)*(?:Error|Exception): )"
)


def clean_line(raw: str) -> str:
    """The line as a terminal would leave it, without anything that moves, colours or hides.

    A progress bar redraws itself after carriage returns: only its last state stays.
    """
    if raw.isascii() and raw.isprintable():
        return raw
    text = raw.rstrip("\r\n")
    if "\r" in text:
        text = next((part for part in reversed(text.split("\r")) if part.strip()), "")
    return _CONTROLS.sub("", _ESCAPES.sub("", text).replace("\t", TAB))


def line_severity(text: str) -> Severity:
    """How loudly a cleaned line asks for attention."""
    level = _LEVEL.match(text)
    if level is not None:
        return Severity.WARNING if level[1].startswith("WARN") else Severity.ERROR
    return Severity.ERROR if _PANIC.match(text) else Severity.INFO
