"""The cache of record batches: lookups across chunks, and the bound in bytes across partitions."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.gateway.records.batch_cache import (
    BATCH_OVERHEAD,
    MAX_JOINED_BYTES,
    BatchCache,
    CacheKey,
    Chunk,
    batches_from,
)
from sharegroup.gateway.records.record_batches import RecordBatch
from sharegroup.types import OffsetRange

KEY = CacheKey(UUID(int=1), 0, False)
OTHER = CacheKey(UUID(int=1), 0, True)
SIZE = MAX_JOINED_BYTES  # chunks of this size are not joined
COST = SIZE + BATCH_OVERHEAD  # cost of a chunk with one batch


def batch(first: int, last: int, size: int = 10) -> RecordBatch:
    return RecordBatch(first, last, False, False, False, memoryview(bytes(size)))


def chunk(first: int, last: int) -> Chunk:
    return Chunk(first, last, (batch(first, last),), SIZE)


def spans(chunks: object) -> list[tuple[int, int]]:
    assert isinstance(chunks, list)
    return [(c.first_offset, c.last_offset) for c in chunks]


@pytest.fixture
def cache() -> BatchCache:
    return BatchCache(5 * COST)


def test_lookup_returns_adjacent_chunks(cache: BatchCache) -> None:
    for span in [(20, 29), (0, 9), (10, 19), (40, 49)]:
        cache.insert(KEY, chunk(*span))
    assert spans(cache.lookup(KEY, 5)) == [(0, 9), (10, 19), (20, 29)]
    assert spans(cache.lookup(KEY, 29)) == [(20, 29)]
    assert spans(cache.lookup(KEY, 45)) == [(40, 49)]
    assert spans(cache.lookup(KEY, 30)) == spans(cache.lookup(KEY, 50)) == spans(cache.lookup(OTHER, 5)) == []


def test_lookup_is_limited_in_bytes(cache: BatchCache) -> None:
    for first in range(0, 50, 10):
        cache.insert(KEY, chunk(first, first + 9))
    assert spans(cache.lookup(KEY, 5, 0)) == [(0, 9)]
    assert spans(cache.lookup(KEY, 5, SIZE)) == [(0, 9), (10, 19)]
    assert spans(cache.lookup(KEY, 5, SIZE + 1)) == [(0, 9), (10, 19), (20, 29)]


def test_a_chunk_inside_another_is_kept_once_whichever_came_first(cache: BatchCache) -> None:
    cache.insert(KEY, chunk(10, 29))
    cache.insert(KEY, chunk(15, 29))
    assert spans(cache.lookup(KEY, 15)) == [(10, 29)]
    cache.insert(KEY, chunk(40, 49))
    cache.insert(KEY, chunk(10, 34))
    cache.insert(KEY, chunk(10, 49))
    assert spans(cache.lookup(KEY, 10)) == [(10, 49)]
    assert (len(cache), cache.byte_count) == (1, COST)


def test_least_recently_used_chunk_of_any_partition_is_evicted(cache: BatchCache) -> None:
    cache.insert(KEY, chunk(0, 9))
    cache.insert(OTHER, chunk(0, 9))
    for first in (10, 20, 30):
        cache.insert(KEY, chunk(first, first + 9))
    cache.lookup(KEY, 0, 0)
    cache.insert(KEY, chunk(50, 59))
    assert cache.lookup(OTHER, 0) == []
    assert spans(cache.lookup(KEY, 0)) == [(0, 9), (10, 19), (20, 29), (30, 39)]
    assert cache.byte_count == 5 * COST


def test_a_chunk_that_was_read_again_counts_as_used(cache: BatchCache) -> None:
    for first in range(0, 50, 10):
        cache.insert(KEY, chunk(first, first + 9))
    cache.insert(KEY, chunk(5, 9))
    cache.insert(OTHER, chunk(0, 9))
    assert spans(cache.lookup(KEY, 0)) == [(0, 9)]


def test_the_newest_chunk_stays_however_big(cache: BatchCache) -> None:
    cache.insert(KEY, chunk(0, 9))
    cache.insert(KEY, chunk(10, 19)._replace(size=100 * SIZE))
    assert cache.lookup(KEY, 0) == []
    assert spans(cache.lookup(KEY, 10)) == [(10, 19)]
    cache.insert(OTHER, chunk(0, 9))
    assert (cache.lookup(KEY, 10), cache.byte_count) == ([], COST)


def test_discarding_a_partition_keeps_the_others(cache: BatchCache) -> None:
    for key in (KEY, OTHER):
        cache.insert(key, chunk(0, 9))
        cache.insert(key, chunk(10, 19))
    cache.discard(KEY)
    cache.discard(KEY)
    assert cache.lookup(KEY, 0) == []
    assert (len(cache), cache.byte_count) == (2, 2 * COST)
    assert spans(cache.lookup(OTHER, 0)) == [(0, 9), (10, 19)]


def test_empty_chunk_is_rejected(cache: BatchCache) -> None:
    with pytest.raises(ValueError, match="Empty chunk"):
        cache.insert(KEY, Chunk(10, 9, (), 0))


def test_batches_from_an_offset_on() -> None:
    first = Chunk(0, 9, (batch(0, 4), batch(5, 9)), SIZE)
    second = Chunk(8, 19, (batch(5, 9), batch(12, 19)), SIZE)
    empty = Chunk(20, 24, (), 0)
    part = batches_from([first, second, empty], 6, 10**6)
    assert part == (OffsetRange(6, 24), [first.batches[1], second.batches[1]])
    assert batches_from([empty], 22, 10**6) == (OffsetRange(22, 24), [])
    assert batches_from([], 6, 10**6) is None


def test_byte_limit_counts_only_data_batches() -> None:
    control = batch(3, 3)._replace(is_control=True)
    whole = Chunk(0, 9, (batch(0, 2), control, batch(4, 6), batch(7, 9)), SIZE)
    part = batches_from([whole], 0, 11)
    assert part is not None
    assert (part.covered, len(part.batches)) == (OffsetRange(0, 6), 3)
    part = batches_from([whole], 1, 0)
    assert part == (OffsetRange(1, 2), [whole.batches[0]])


def test_inconsistent_reads_are_not_combined() -> None:
    """The log was truncated and rewritten between the reads."""
    old, new = Chunk(0, 9, (batch(0, 9),), SIZE), Chunk(10, 19, (batch(6, 19),), SIZE)
    assert batches_from([old, new], 0, 10**6) == (OffsetRange(0, 9), [old.batches[0]])


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 6), st.booleans()), max_size=30),
    st.integers(1, 6),
    st.sampled_from([SIZE, SIZE // 3, 10]),
)
def test_cache_matches_the_log_for_any_reads(reads: list[tuple[int, int, bool]], room: int, size: int) -> None:
    """Compared with a log of batches of two offsets each; a read returns some of them from an offset."""
    cache, log = BatchCache(room * COST), [batch(2 * i, 2 * i + 1) for i in range(20)]
    for start, length, of_other in reads:
        batches = log[start : start + length]
        cache.insert(OTHER if of_other else KEY, Chunk(2 * start, batches[-1].last_offset, batches, size))
        assert cache.byte_count <= room * COST or len(cache) == 1
        chunks = cache.lookup(OTHER if of_other else KEY, 2 * start)
        assert chunks
        part = batches_from(chunks, 2 * start, 10**6)
        assert part is not None
        assert list(part.batches) == [b for b in log if b.last_offset >= 2 * start and b.last_offset <= part.covered[1]]
    for key in (KEY, OTHER):
        cache.discard(key)
    assert (len(cache), cache.byte_count) == (0, 0)


def small(first: int, last: int) -> Chunk:
    """Return a chunk with a batch for each offset, of as many bytes as the offset."""
    batches = [batch(offset, offset, offset)._replace(is_control=offset % 3 == 0) for offset in range(first, last + 1)]
    return Chunk(first, last, batches, sum(len(each.data) for each in batches))


def test_small_chunks_in_sequence_become_one(cache: BatchCache) -> None:
    for offset in range(100):
        cache.insert(KEY, small(offset, offset))
    assert spans(cache.lookup(KEY, 0)) == [(0, 99)]
    assert list(cache.lookup(KEY, 0)[0].batches) == small(0, 99).batches
    assert batches_from(cache.lookup(KEY, 40), 40, 80) == (OffsetRange(40, 41), small(40, 41).batches)
    assert cache.byte_count < 2 * small(0, 99).size + BATCH_OVERHEAD
    cache.discard(KEY)
    assert (len(cache), cache.byte_count) == (0, 0)


def test_joined_chunks_have_a_limit(cache: BatchCache) -> None:
    for first in (0, 100, 110):
        cache.insert(KEY, Chunk(first, first + 9, (batch(first, first + 9),), MAX_JOINED_BYTES // 2))
    cache.insert(KEY, Chunk(120, 129, (batch(120, 129),), 1))
    assert spans(cache.lookup(KEY, 100)) == [(100, 119), (120, 129)]
    assert spans(cache.lookup(KEY, 0)) == [(0, 9)]


def test_parts_of_a_rewritten_log_are_not_joined(cache: BatchCache) -> None:
    cache.insert(KEY, Chunk(0, 9, (batch(0, 9),), 1))
    cache.insert(KEY, Chunk(10, 19, (batch(6, 19),), 1))
    assert spans(cache.lookup(KEY, 0)) == [(0, 9), (10, 19)]


def test_a_batch_of_a_joined_chunk_has_a_valid_index(cache: BatchCache) -> None:
    cache.insert(KEY, small(1, 1))
    cache.insert(KEY, small(2, 2))
    (chunk,) = cache.lookup(KEY, 1)
    assert (chunk.batches[1].last_offset, len(chunk.batches)) == (2, 2)
    with pytest.raises(IndexError):
        chunk.batches[2]
