from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.simulator.blocks import BlockPool, BlockTable, content_hashes, keyed_hashes

BLOCKS = 12


def _fill(pool: BlockPool, hashes: list[int]) -> BlockTable:
    """A table as a sequence with this prompt gets it: what is cached shared, the rest computed."""
    table = BlockTable()
    hits = pool.cached_prefix(hashes, len(hashes))
    pool.share(table, hashes[:hits])
    pool.grow(table, len(hashes) - hits)
    for content in hashes[hits:]:
        pool.publish(table, content)
    return table


@given(st.lists(st.one_of(st.lists(st.integers(0, 8), max_size=5, unique=True), st.integers(0, 20))))
def test_blocks_are_never_lost_nor_made(actions: list[list[int] | int]) -> None:
    pool = BlockPool(BLOCKS)
    tables: list[BlockTable] = []
    for action in actions:
        if isinstance(action, int):
            if tables:
                pool.release(tables.pop(action % len(tables)))
            continue
        hits = pool.cached_prefix(action, len(action))
        if pool.fits(action[:hits], len(action) - hits):
            tables.append(_fill(pool, action))
        assert pool.free + pool.referenced == pool.usable == BLOCKS - 1
        assert 0 <= pool.evictable <= pool.free
        shared = {content for table in tables for content in table.cached}
        assert pool.referenced == len(shared) + sum(table.anonymous for table in tables)
    for table in tables:
        pool.release(table)
    assert pool.free == pool.usable


def test_released_content_is_found_again() -> None:
    pool = BlockPool(BLOCKS)
    pool.release(_fill(pool, [1, 2, 3]))
    assert pool.cached_prefix([1, 2, 9], 3) == 2
    assert pool.cached_prefix([1, 2, 3], 2) == 2
    assert pool.evictable == 3


def test_least_recently_used_content_goes_first_and_tails_before_heads() -> None:
    pool = BlockPool(5)
    pool.release(_fill(pool, [1, 2]))
    pool.release(_fill(pool, [3, 4]))
    pool.grow(BlockTable(), 1)
    assert pool.cached_prefix([1, 2], 2) == 1
    assert pool.cached_prefix([3, 4], 2) == 2


def test_reviving_cached_blocks_counts_against_what_is_free() -> None:
    pool = BlockPool(5)
    pool.release(_fill(pool, [1, 2]))
    assert pool.fits([1, 2], 2)
    assert not pool.fits([1, 2], 3)


def test_content_computed_twice_stays_anonymous() -> None:
    pool = BlockPool(BLOCKS)
    first = _fill(pool, [1])
    second = BlockTable()
    pool.grow(second, 1)
    pool.publish(second, 1)
    assert (first.cached, second.cached, second.anonymous) == ([1], [], 1)
    assert pool.referenced == 2


def test_a_blocks_hash_covers_all_before_it() -> None:
    left = content_hashes([1, 2, 3, 4, 5, 6], 2)
    right = content_hashes([9, 2, 3, 4, 5, 6], 2)
    assert len(left) == 3
    assert not set(left) & set(right)
    assert content_hashes([1, 2, 3, 4, 5], 2) == left[:2]


def test_equal_keys_share_as_far_as_the_shorter_goes() -> None:
    assert keyed_hashes("system", 64, 16) == keyed_hashes("system", 100, 16)[:4]
    assert not set(keyed_hashes("system", 64, 16)) & set(keyed_hashes("other", 64, 16))
