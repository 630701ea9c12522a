"""A stand-in for a tokenizer: pieces of up to eight characters, so that tokens are about words.

Cutting text and joining the pieces gives the text again, and a longer text starts with the pieces of
a shorter one that ends at a word, so that the turns of a conversation share their prefix.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

VOCABULARY = 151_936
"""Ids are below it; the size of Qwen's vocabulary."""

_PIECE = re.compile(r"\s?\S{1,8}|\s")


def pieces(text: str) -> list[str]:
    """Cut a text."""
    return _PIECE.findall(text)


def token_ids(cut: Sequence[str]) -> list[int]:
    """One id per piece; different pieces may share an id."""
    return [zlib.crc32(piece.encode("utf-8", "surrogatepass")) % VOCABULARY for piece in cut]


def chat_pieces(turns: Sequence[tuple[str, str]]) -> list[str]:
    """The prompt of a chat, (role, text) a turn, ending where the assistant is to go on."""
    cut: list[str] = []
    for role, text in turns:
        cut.append(f"<|{role}|>")
        cut.extend(pieces(text))
        cut.append("<|end|>")
    cut.append("<|assistant|>")
    return cut
