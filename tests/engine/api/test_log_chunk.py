"""Pieces of a log file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.api.log_chunk import read_chunk

LINES = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=12))


def _pieces(content: bytes, limit: int) -> list[str]:
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        offset = 0
        texts: list[str] = []
        while True:
            chunk = read_chunk(Path(file.name), 1, offset, limit, ended=False)
            assert chunk.offset == offset
            assert chunk.size_bytes == len(content)
            assert chunk.next_offset - chunk.offset <= limit
            if offset == len(content):
                assert chunk.text == ""
                return texts
            assert chunk.next_offset > offset  # a reader always comes on
            texts.append(chunk.text)
            offset = chunk.next_offset


@given(LINES, st.integers(1, 40))
def test_pieces_together_are_the_file_and_long_lines_alone_are_split(lines: list[str], limit: int) -> None:
    content = "\n".join(lines).encode()
    longest = max((len(line.encode()) + 1 for line in lines), default=0)
    pieces = _pieces(content, limit)
    if longest <= limit:
        assert "".join(pieces) == content.decode()
        assert all(piece.endswith("\n") for piece in pieces[:-1])


@given(st.binary(max_size=80), st.integers(1, 20))
def test_any_bytes_are_read_to_their_end(content: bytes, limit: int) -> None:
    ascii_only = bytes(byte & 0x7F for byte in content)
    assert "".join(_pieces(ascii_only, limit)) == ascii_only.decode()
    _pieces(content, limit)


@pytest.mark.parametrize(
    ("offset", "limit", "start", "text"),
    [
        (-3, 100, 5, "ee\n"),
        (-100, 100, 0, "a\nbb\nee\n"),
        (8, 10, 8, ""),
        (10**30, 10, 8, ""),
        (-(10**30), 3, 0, "a\n"),
        (2, 2, 2, "bb"),
    ],
)
def test_offsets_from_either_side(tmp_path: Path, offset: int, limit: int, start: int, text: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a\nbb\nee\n")
    chunk = read_chunk(path, 9, offset, limit, ended=True)
    assert (chunk.launch_id, chunk.offset, chunk.text, chunk.ended) == (9, start, text, True)


def test_a_file_that_is_gone_is_the_callers_to_explain(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="log"):
        read_chunk(tmp_path / "log", 1, 0, 1, ended=True)
