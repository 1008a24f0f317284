"""Splits a large acknowledgement of a share-partition into several request rows that fit into Kafka messages."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from sharegroup.protocol.rows.share_partition_requests import MAX_RANGES_PER_ROW
from sharegroup.types import AcknowledgementBatch, AcquiredRange

#: Maximum size of the batches and acquired ranges of a row, as JSON in bytes. It is far below the default message size
#: limit (1 MiB).
MAX_ROW_BYTES = 600_000
#: Maximum number of acknowledge types in a batch. A row has room for this number of types and MAX_RANGES_PER_ROW
#: acquired ranges.
_MAX_TYPES = 100_000
#: Maximum sizes as JSON in bytes: of an acquired range or a batch without its types, and of one acknowledge type.
_RANGE_BYTES, _TYPE_BYTES = 60, 2

RowContent = tuple[tuple[AcknowledgementBatch, ...], tuple[AcquiredRange, ...]]


def split_acknowledgement(
    batches: Sequence[AcknowledgementBatch], grants: Sequence[AcquiredRange]
) -> Iterator[RowContent]:
    """Split an acknowledgement into rows that fit into Kafka messages.

    Yield (batches, acquired ranges) for each row, in offset order. `grants` are the acquired ranges that the batches
    acknowledge, in ascending order. The job processes each row separately. If it rejects a row, the other rows are not
    affected.
    """
    if _size(batches, len(grants)) <= MAX_ROW_BYTES:
        yield tuple(batches), tuple(grants)
        return
    last_offsets = [grant.last_offset for grant in grants]
    row: list[AcknowledgementBatch] = []
    size = 0
    for piece in (piece for batch in batches for piece in _cut(batch, last_offsets)):
        count = bisect_left(last_offsets, piece.last_offset) - bisect_left(last_offsets, piece.first_offset) + 1
        piece_size = _size([piece], count)
        if row and size + piece_size > MAX_ROW_BYTES:
            yield tuple(row), _within(grants, last_offsets, row)
            row, size = [], 0
        row.append(piece)
        size += piece_size
    yield tuple(row), _within(grants, last_offsets, row)


def _size(batches: Sequence[AcknowledgementBatch], grants: int) -> int:
    types = sum(len(batch.acknowledge_types) for batch in batches)
    return _RANGE_BYTES * (len(batches) + grants) + _TYPE_BYTES * types


def _cut(batch: AcknowledgementBatch, last_offsets: Sequence[int]) -> Iterator[AcknowledgementBatch]:
    """Split a batch into pieces that fit into one row each.

    A piece has at most `_MAX_TYPES` acknowledge types and overlaps at most `MAX_RANGES_PER_ROW` acquired ranges.
    `last_offsets` are the last offsets of the acquired ranges.
    """
    first, last, types = batch
    has_one_type = len(types) == 1
    position = first
    while position <= last:
        end = last if has_one_type else min(last, position + _MAX_TYPES - 1)
        last_grant = bisect_left(last_offsets, position) + MAX_RANGES_PER_ROW - 1
        if last_grant < len(last_offsets):
            end = min(end, last_offsets[last_grant])
        yield AcknowledgementBatch(position, end, types if has_one_type else types[position - first : end - first + 1])
        position = end + 1


def _within(
    grants: Sequence[AcquiredRange], last_offsets: Sequence[int], row: Sequence[AcknowledgementBatch]
) -> tuple[AcquiredRange, ...]:
    """Return the parts of the acquired ranges that are within the offsets of a row."""
    first, last = row[0].first_offset, row[-1].last_offset
    touched = grants[bisect_left(last_offsets, first) : bisect_left(last_offsets, last) + 1]
    return tuple(
        AcquiredRange(max(first, grant.first_offset), min(last, grant.last_offset), grant.delivery_count)
        for grant in touched
    )
