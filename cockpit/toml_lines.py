"""On which line of a TOML text a key stands, so that an error can name it.

`tomllib` keeps no positions. This scanner does, for text that `tomllib` has accepted: it reads table
headers and keys, and steps over values. Keys inside inline tables and arrays have no line of their
own: the line of the nearest enclosing key stands for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

KeyPath = tuple[str | int, ...]
"""A way into the document, such as `("engine", 0, "port")`."""

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEY = re.compile(rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*")
_PART_ONLY = re.compile(_PART)
_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}'
    r"|'''(?:[^']|'(?!''))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_VALUE_PIECE = re.compile(r"[^\"'\[\]{}#\n]+")


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """Line, counted from 1, of the key at `path` or of its nearest enclosing key or table."""
    wanted = tuple(path)
    best: tuple[int, int] | None = None
    for found, line in _keys(text):
        # A shorter path encloses the wanted key; a longer one (a table header below it) belongs to it.
        shared = min(len(found), len(wanted))
        if found[:shared] == wanted[:shared] and (best is None or shared > best[0]):
            best = (shared, line)
    return best[1] if best else None


def _keys(text: str) -> Iterator[tuple[KeyPath, int]]:
    """Every table header and key with its path and line."""
    arrays: dict[KeyPath, int] = {}
    table: KeyPath = ()
    position = 0
    while position < len(text):
        if text[position] in " \t\r\n":
            position += 1
        elif text[position] == "#":
            position = _line_end(text, position)
        elif text[position] == "[":
            line = text.count("\n", 0, position) + 1
            is_array = text.startswith("[[", position)
            key = _KEY.search(text, position)
            if key is None:
                return
            table = _resolve(_parts(key.group()), arrays, new_element=is_array)
            yield table, line
            position = _line_end(text, key.end())
        else:
            key = _KEY.match(text, position)
            equals = text.find("=", key.end()) if key else -1
            if key is None or equals < 0:
                return
            yield table + _parts(key.group()), text.count("\n", 0, position) + 1
            position = _value_end(text, equals + 1)


def _resolve(parts: tuple[str, ...], arrays: dict[KeyPath, int], *, new_element: bool) -> KeyPath:
    """The path of a header: under an array of tables it means the newest element."""
    path: KeyPath = ()
    for depth, part in enumerate(parts):
        path = (*path, part)
        if new_element and depth == len(parts) - 1:
            arrays[path] = arrays.get(path, -1) + 1
        if path in arrays:
            path = (*path, arrays[path])
    return path


def _parts(key: str) -> tuple[str, ...]:
    """The names of a dotted key; escapes inside quoted names are left as written."""
    return tuple(
        part[1:-1] if part[0] in "\"'" else part
        for part in (match.group() for match in _PART_ONLY.finditer(key))
    )


def _value_end(text: str, position: int) -> int:
    """Where the value that begins at `position` ends: a line end outside strings and brackets."""
    depth = 0
    while position < len(text):
        char = text[position]
        if char in "\"'":
            string = _STRING.match(text, position)
            position = string.end() if string else position + 1
        elif char == "#":
            position = _line_end(text, position)
        elif char == "\n":
            if depth == 0:
                return position
            position += 1
        elif char in "[{":
            depth, position = depth + 1, position + 1
        elif char in "]}":
            depth, position = depth - 1, position + 1
        else:
            piece = _VALUE_PIECE.match(text, position)
            position = piece.end() if piece else position + 1
    return position


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end
