"""The record batches that were read of the log, for all members of all groups. No I/O, no clock.

Members of a share-partition get parts of the same batches, and so do groups that read the same topic. A chunk is what
one Fetch response told of a topic partition. It keeps the bytes of that response alive, so chunks go as a whole: when
there are more bytes than allowed, the one that was not looked at for longest, of whatever partition.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from sharegroup.gateway.records.record_batches import RecordBatch
from sharegroup.types import OffsetRange

#: What the objects for one batch take beside its bytes; small batches would else take many times what is counted.
BATCH_OVERHEAD = 400


class CacheKey(NamedTuple):
    """A topic partition, as consumers of one isolation level see it: which batches are aborted is told only to one."""

    topic_id: UUID
    partition: int
    read_committed: bool


class Chunk(NamedTuple):
    """What one Fetch response told: the log from first_offset to last_offset, the end of the last of its `batches`.

    Offsets in it without a batch do not exist (any more). `size` is that of the bytes object that the batches are views
    of.
    """

    first_offset: int
    last_offset: int
    batches: Sequence[RecordBatch]
    size: int


class LogPart(NamedTuple):
    """Part of a log without a hole: what `slice_response` wants to know."""

    covered: OffsetRange
    batches: Sequence[RecordBatch]


class BatchCache:
    """Chunks of topic partitions, in `max_bytes`; the newest one stays, however big it is, for whoever asked for it."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._partitions: dict[CacheKey, list[Chunk]] = {}
        # Least recently used first. The key beside the first offset names a chunk: no two of a partition begin alike.
        self._used: OrderedDict[tuple[CacheKey, int], Chunk] = OrderedDict()
        self.byte_count = 0

    def __len__(self) -> int:
        """The number of chunks."""
        return len(self._used)

    def insert(self, key: CacheKey, chunk: Chunk) -> None:
        """Keep a chunk, in place of those that it contains; one that a kept chunk contains is not kept twice.

        Raises ValueError for a chunk that covers no offset.
        """
        if chunk.first_offset > chunk.last_offset:
            raise ValueError(f"Empty chunk: {chunk.first_offset}..{chunk.last_offset}")
        chunks = self._partitions.setdefault(key, [])
        position = bisect_right(chunks, chunk.first_offset, key=_first_offset)
        if position and chunks[position - 1].last_offset >= chunk.last_offset:
            self._used.move_to_end((key, chunks[position - 1].first_offset))
            return
        low = position - 1 if position and chunks[position - 1].first_offset == chunk.first_offset else position
        high = bisect_right(chunks, chunk.last_offset, lo=low, key=_last_offset)
        for contained in chunks[low:high]:
            self._forget_use(key, contained)
        chunks[low:high] = [chunk]
        self._used[key, chunk.first_offset] = chunk
        self.byte_count += _cost(chunk)
        self._evict()

    def lookup(self, key: CacheKey, offset: int, max_bytes: int | None = None) -> Sequence[Chunk]:
        """The chunks that cover the log from `offset` on, without a hole between them; none if it is not here.

        Given `max_bytes`, the first one and then no more chunks than have as much.
        """
        chunks = self._partitions.get(key, ())
        found: list[Chunk] = []
        room = max_bytes
        while room is None or room > 0 or not found:
            # No chunk contains another, so the last one to begin at or before `offset` reaches farthest.
            i = bisect_right(chunks, offset, key=_first_offset) - 1
            if i < 0 or chunks[i].last_offset < offset:
                break
            if room is not None and found:
                room -= chunks[i].size
            found.append(chunks[i])
            self._used.move_to_end((key, chunks[i].first_offset))
            offset = chunks[i].last_offset + 1
        return found

    def last_offset(self, key: CacheKey) -> int:
        """The last offset that is known of a topic partition; -1 if nothing is."""
        chunks = self._partitions.get(key)
        return chunks[-1].last_offset if chunks else -1

    def forget(self, key: CacheKey) -> None:
        """Drop what was read of a topic partition: its log was truncated, or the topic is gone."""
        for chunk in self._partitions.pop(key, ()):
            self._forget_use(key, chunk)

    def _evict(self) -> None:
        while self.byte_count > self._max_bytes and len(self._used) > 1:
            (key, first_offset), _ = next(iter(self._used.items()))
            chunks = self._partitions[key]
            self._forget_use(key, chunks.pop(bisect_left(chunks, first_offset, key=_first_offset)))
            if not chunks:
                del self._partitions[key]

    def _forget_use(self, key: CacheKey, chunk: Chunk) -> None:
        del self._used[key, chunk.first_offset]
        self.byte_count -= _cost(chunk)


def batches_from(chunks: Sequence[Chunk], offset: int, max_bytes: int) -> LogPart | None:
    """The batches from `offset` on, of chunks as `lookup` gives them, until those for clients have `max_bytes`.

    At least one batch, to make progress, if there is any; None without chunks.
    """
    if not chunks:
        return None
    batches: list[RecordBatch] = []
    position, size = offset, 0
    for chunk in chunks:
        start = bisect_left(chunk.batches, position, key=_end_of_batch)
        if batches and start < len(chunk.batches) and chunk.batches[start].base_offset < position:
            break  # the log was written anew between the two reads: not one part
        for i in range(start, len(chunk.batches)):
            batch = chunk.batches[i]
            batches.append(batch)
            if batch.is_data:
                size += len(batch.data)
            if size >= max_bytes:
                return LogPart(OffsetRange(offset, batch.last_offset), batches)
        position = chunk.last_offset + 1
    return LogPart(OffsetRange(offset, position - 1), batches)


def _cost(chunk: Chunk) -> int:
    return chunk.size + BATCH_OVERHEAD * len(chunk.batches)


def _first_offset(chunk: Chunk) -> int:
    return chunk.first_offset


def _last_offset(chunk: Chunk) -> int:
    return chunk.last_offset


def _end_of_batch(batch: RecordBatch) -> int:
    return batch.last_offset
