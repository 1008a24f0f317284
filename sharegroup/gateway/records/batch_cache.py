"""A cache of record batches, shared by all members of all groups. No I/O, no clock.

Members of a share-partition receive parts of the same batches, and so do groups that read the same topic. The unit of
the cache is a chunk, that is, the batches in one Fetch response for a topic partition. A chunk keeps the bytes of that
response in memory, so it can be evicted only as a whole. The cache first evicts the least recently used chunk of all
partitions.

Small chunks that follow each other become one (`PackedBatches`). Otherwise a gateway that reads each record as soon as
it arrives would hold several objects for each record.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from sharegroup.gateway.records.record_batches import PackedBatches, RecordBatch
from sharegroup.types import OffsetRange

#: Memory (in bytes) of the objects for one batch, besides the batch's own bytes. It is counted because small batches
#: have fewer bytes than that.
BATCH_OVERHEAD = 400
#: Chunks that follow each other become one if they have at most this many bytes together. The bytes are copied for each
#: chunk that is added.
MAX_JOINED_BYTES = 16_384


class CacheKey(NamedTuple):
    """A topic partition with an isolation level.

    The isolation level matters because only read_committed fetches report aborted batches.
    """

    topic_id: UUID
    partition: int
    read_committed: bool


class Chunk(NamedTuple):
    """The part of the log from `first_offset` to `last_offset`, from one Fetch response or several that were joined.

    Offsets in this part that are in no batch do not exist, or no longer exist.

    Attributes:
        first_offset: the offset that was fetched.
        last_offset: the last offset of the last batch.
        batches: the batches, as views into the bytes of the response, or packed.
        size: the size of the batches in the response, in bytes.
    """

    first_offset: int
    last_offset: int
    batches: Sequence[RecordBatch] | PackedBatches
    size: int


class LogPart(NamedTuple):
    """A part of the log that was read completely: its first and last offset (`covered`) and all its batches."""

    covered: OffsetRange
    batches: Sequence[RecordBatch]


class BatchCache:
    """A cache of chunks that uses up to `max_bytes`. It keeps the last used chunk even if this chunk is larger."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._partitions: dict[CacheKey, list[Chunk]] = {}
        # Least recently used first. Two chunks of a partition never have the same first offset.
        self._used: OrderedDict[tuple[CacheKey, int], Chunk] = OrderedDict()
        self.byte_count = 0

    def __len__(self) -> int:
        """Return the number of chunks."""
        return len(self._used)

    def insert(self, key: CacheKey, chunk: Chunk) -> None:
        """Add a chunk, and remove cached chunks inside it. Nothing is added if a cached chunk contains the new one.

        A small chunk is joined with the cached chunk that ends directly before it, if that is small as well. Raises
        ValueError if the chunk contains no offset.
        """
        if chunk.first_offset > chunk.last_offset:
            raise ValueError(f"Empty chunk: {chunk.first_offset}..{chunk.last_offset}")
        chunks = self._partitions.setdefault(key, [])
        position = bisect_right(chunks, chunk.first_offset, key=_first_offset)
        if position and chunks[position - 1].last_offset >= chunk.last_offset:
            self._used.move_to_end((key, chunks[position - 1].first_offset))
            return
        low = position - 1 if position and chunks[position - 1].first_offset == chunk.first_offset else position
        if low and (joined := _join(chunks[low - 1], chunk)) is not None:
            low, chunk = low - 1, joined
        high = bisect_right(chunks, chunk.last_offset, lo=low, key=_last_offset)
        for contained in chunks[low:high]:
            self._discard(key, contained)
        chunks[low:high] = [chunk]
        self._used[key, chunk.first_offset] = chunk
        self.byte_count += _cost(chunk)
        self._evict()

    def lookup(self, key: CacheKey, offset: int, max_bytes: int | None = None) -> Sequence[Chunk]:
        """Return consecutive chunks that contain the log from `offset` on; empty if `offset` is not cached.

        If `max_bytes` is given, the result ends with the chunk that reaches this total size. The first chunk does not
        count, because `offset` may be near its end.
        """
        chunks = self._partitions.get(key, ())
        found: list[Chunk] = []
        room = max_bytes
        while room is None or room > 0 or not found:
            # No chunk contains another, so the last one that begins at or before `offset` has the highest end.
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
        """Return the last cached offset of a topic partition, or -1 if none is cached."""
        chunks = self._partitions.get(key)
        return chunks[-1].last_offset if chunks else -1

    def discard(self, key: CacheKey) -> None:
        """Remove all chunks of a topic partition, because its log was truncated or its topic was deleted."""
        for chunk in self._partitions.pop(key, ()):
            self._discard(key, chunk)

    def _evict(self) -> None:
        while self.byte_count > self._max_bytes and len(self._used) > 1:
            (key, first_offset), _ = next(iter(self._used.items()))
            chunks = self._partitions[key]
            self._discard(key, chunks.pop(bisect_left(chunks, first_offset, key=_first_offset)))
            if not chunks:
                del self._partitions[key]

    def _discard(self, key: CacheKey, chunk: Chunk) -> None:
        del self._used[key, chunk.first_offset]
        self.byte_count -= _cost(chunk)


def batches_from(chunks: Sequence[Chunk], offset: int, max_bytes: int) -> LogPart | None:
    """Return the batches from `offset` on, up to about `max_bytes`; None if `chunks` is empty.

    `chunks` is a result of `lookup`. Only data batches count towards `max_bytes`. The batch that reaches this limit is
    included, so that each call makes progress.
    """
    if not chunks:
        return None
    batches: list[RecordBatch] = []
    position, size = offset, 0
    for chunk in chunks:
        start = bisect_left(chunk.batches, position, key=_end_of_batch)
        if batches and start < len(chunk.batches) and chunk.batches[start].base_offset < position:
            break  # the log was rewritten between the two reads, so this is not one part
        for i in range(start, len(chunk.batches)):
            batch = chunk.batches[i]
            batches.append(batch)
            if batch.is_data:
                size += len(batch.data)
            if size >= max_bytes:
                return LogPart(OffsetRange(offset, batch.last_offset), batches)
        position = chunk.last_offset + 1
    return LogPart(OffsetRange(offset, position - 1), batches)


def _join(previous: Chunk, chunk: Chunk) -> Chunk | None:
    """Return both chunks as one chunk.

    Returns None if it would be too large, or if `chunk` does not start directly after `previous`.
    """
    size = previous.size + chunk.size
    if size > MAX_JOINED_BYTES or previous.last_offset + 1 != chunk.first_offset:
        return None
    if chunk.batches[0].base_offset <= previous.last_offset:
        return None  # the log was rewritten between the two reads
    packed = (
        previous.batches if isinstance(previous.batches, PackedBatches) else PackedBatches().extended(previous.batches)
    )
    return Chunk(previous.first_offset, chunk.last_offset, packed.extended(chunk.batches), size)


def _cost(chunk: Chunk) -> int:
    if isinstance(chunk.batches, PackedBatches):
        return chunk.batches.byte_count + BATCH_OVERHEAD
    return chunk.size + BATCH_OVERHEAD * len(chunk.batches)


def _first_offset(chunk: Chunk) -> int:
    return chunk.first_offset


def _last_offset(chunk: Chunk) -> int:
    return chunk.last_offset


def _end_of_batch(batch: RecordBatch) -> int:
    return batch.last_offset
