"""The KV cache of a simulated engine: counted blocks with a prefix cache.

Follows vLLM's `BlockPool`: one block is the null block and never given out; full blocks are known
by the hash of their content and all before it; a block that nobody refers to stays cached until
its space is needed, least recently used first, the tail of a prompt before its head. A block whose
content is cached already (two sequences computed it at once) stays anonymous.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class BlockTable:
    """The blocks that one sequence holds."""

    cached: list[int] = field(default_factory=list)
    """Hashes of blocks it shares through the prefix cache."""
    anonymous: int = 0
    """Blocks of its own that are not in the cache."""
    hashed: int = 0
    """Leading full blocks whose content has been offered to the cache."""

    @property
    def size(self) -> int:
        """Blocks held."""
        return len(self.cached) + self.anonymous


class BlockPool:
    """Blocks of one engine. The caller asks `fits` before it takes."""

    def __init__(self, blocks: int) -> None:
        self.usable = blocks - 1
        """Blocks that sequences can hold; vLLM keeps one as the null block."""
        self._blank = self.usable
        self._evictable: dict[int, None] = {}
        self._references: dict[int, int] = {}
        self._anonymous = 0

    @property
    def free(self) -> int:
        """Blocks that can be given out, cached ones included."""
        return self._blank + len(self._evictable)

    @property
    def evictable(self) -> int:
        """Free blocks that still hold cached content."""
        return len(self._evictable)

    @property
    def referenced(self) -> int:
        """Blocks that sequences hold; a shared one counts once."""
        return len(self._references) + self._anonymous

    def cached_prefix(self, hashes: Sequence[int], limit: int) -> int:
        """How many leading blocks are cached, at most `limit`."""
        for found, content in enumerate(hashes[:limit]):
            if content not in self._references and content not in self._evictable:
                return found
        return min(limit, len(hashes))

    def fits(self, shared: Iterable[int], fresh: int) -> bool:
        """Whether cached blocks `shared` and `fresh` new ones can be taken together."""
        revived = sum(content in self._evictable for content in shared)
        return fresh <= self.free - revived

    def share(self, table: BlockTable, hashes: Sequence[int]) -> None:
        """Let an empty table refer to cached blocks."""
        for content in hashes:
            self._evictable.pop(content, None)
            self._references[content] = self._references.get(content, 0) + 1
        table.cached.extend(hashes)
        table.hashed = len(hashes)

    def grow(self, table: BlockTable, fresh: int) -> None:
        """Give new blocks, evicting the least recently used content where no blank one is left."""
        for _ in range(fresh):
            if self._blank:
                self._blank -= 1
            else:
                self._evictable.pop(next(iter(self._evictable)))
        self._anonymous += fresh
        table.anonymous += fresh

    def publish(self, table: BlockTable, content: int) -> None:
        """The table's next full block has this content from now on."""
        table.hashed += 1
        if content in self._references or content in self._evictable:
            return
        self._references[content] = 1
        self._anonymous -= 1
        table.anonymous -= 1
        table.cached.append(content)

    def release(self, table: BlockTable) -> None:
        """Take all blocks back; cached content stays until evicted, the table's tail first."""
        for content in reversed(table.cached):
            left = self._references[content] - 1
            if left:
                self._references[content] = left
            else:
                del self._references[content]
                self._evictable[content] = None
        self._blank += table.anonymous
        self._anonymous -= table.anonymous
        table.cached.clear()
        table.anonymous = table.hashed = 0


def content_hashes(tokens: Sequence[int], block_tokens: int) -> tuple[int, ...]:
    """Hashes of the full blocks of `tokens`, each over its own and all earlier ones, 64 bits."""
    hashes: list[int] = []
    parent = b""
    for start in range(0, len(tokens) - block_tokens + 1, block_tokens):
        block = ",".join(map(str, tokens[start : start + block_tokens])).encode()
        parent = hashlib.blake2b(block, digest_size=8, key=parent).digest()
        hashes.append(int.from_bytes(parent, "big"))
    return tuple(hashes)


def keyed_hashes(key: str, tokens: int, block_tokens: int) -> tuple[int, ...]:
    """Hashes of a prefix known only by a name: equal names share, as far as the shorter one goes."""
    return tuple(
        int.from_bytes(hashlib.blake2b(f"{key}/{index}".encode(), digest_size=8).digest(), "big")
        for index in range(tokens // block_tokens)
    )
