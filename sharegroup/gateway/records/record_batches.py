"""Decodes the headers of the record batches in a Fetch response. No I/O.

A header contains the offsets of its batch, and shows whether clients may receive the batch. Batches are forwarded
unchanged, so their records are not decoded. The only exception is the key of a transaction marker.

Old logs may contain message sets of magic 0 and 1. Each message in them counts as one batch. The offset of a compressed
message is that of the *last* message inside it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sharegroup.errors import ShareGroupError

#: Size in bytes of the fields base offset and length, which the value of the length field does not include.
_LOG_OVERHEAD = 12
#: The fields base offset, length and magic, which have the same position in all formats.
_PREFIX = struct.Struct(">qi4xb")
#: The header of a batch of magic 2: attributes, last offset delta, producer id, number of records (others are skipped).
_HEADER = struct.Struct(">21xhi16xq6xi")
_LEGACY_ATTRIBUTES = _PREFIX.size
#: {magic: minimum value of the length field of a batch or message}
_MIN_LENGTH = {0: 14, 1: 22, 2: _HEADER.size - _LOG_OVERHEAD}

_CODEC_MASK = 0x07
_TRANSACTIONAL_MASK = 0x10
_CONTROL_MASK = 0x20
#: The type of an abort marker. The key of a control record consists of an int16 version and this int16 type.
_ABORT = 0
_MAX_VARINT_BYTES = 10


class CorruptRecordBatch(ShareGroupError, ValueError):
    """The broker sent bytes that are not record batches. Neither the client nor the gateway is at fault."""


class RecordBatch(NamedTuple):
    """A complete record batch.

    Attributes:
        base_offset: its first offset.
        last_offset: its last offset.
        is_control: whether it contains a transaction marker.
        is_aborted: whether it belongs to an aborted transaction and was read with read_committed.
        is_empty: whether compaction has removed all its records (magic 2 only).
        data: its bytes including the header, as a view into the response.
    """

    base_offset: int
    last_offset: int
    is_control: bool
    is_aborted: bool
    is_empty: bool
    data: memoryview

    @property
    def is_data(self) -> bool:
        """Whether the batch contains records for clients."""
        return not (self.is_control or self.is_aborted or self.is_empty)


class PackedBatches:
    """An immutable sequence of record batches in two byte strings, for many small batches.

    A `RecordBatch` with its bytes is several objects, all of which Python's garbage collector visits in a full
    collection. With 100,000 of them, a collection stops the event loop for half a second.
    """

    __slots__ = ("_data", "_rows")

    #: The entry of one batch in `_rows`: base offset, last offset, start and end of its bytes in `_data`, flags.
    _ROW = struct.Struct("=qqIIB")

    def __init__(self, data: bytes = b"", rows: bytes = b"") -> None:
        self._data, self._rows = data, rows

    def __len__(self) -> int:
        return len(self._rows) // self._ROW.size

    def __getitem__(self, index: int) -> RecordBatch:
        """Return the batch at `index`. Raises IndexError if `index` is negative or too large."""
        if not 0 <= index < len(self):
            raise IndexError(f"Batch {index} of {len(self)}")
        base_offset, last_offset, start, end, flags = self._ROW.unpack_from(self._rows, index * self._ROW.size)
        is_control, is_aborted, is_empty = (bool(flags >> bit & 1) for bit in range(3))
        return RecordBatch(
            base_offset, last_offset, is_control, is_aborted, is_empty, memoryview(self._data)[start:end]
        )

    def __iter__(self) -> Iterator[RecordBatch]:
        return map(self.__getitem__, range(len(self)))

    @property
    def byte_count(self) -> int:
        """The memory of the batches, in bytes."""
        return len(self._data) + len(self._rows)

    def extended(self, batches: Iterable[RecordBatch]) -> PackedBatches:
        """Return a new sequence of these batches followed by `batches`. The bytes of all batches are copied."""
        data: list[bytes | memoryview] = [self._data]
        rows, end = [self._rows], len(self._data)
        for batch in batches:
            start, end = end, end + len(batch.data)
            flags = batch.is_control | batch.is_aborted << 1 | batch.is_empty << 2
            data.append(batch.data)
            rows.append(self._ROW.pack(batch.base_offset, batch.last_offset, start, end, flags))
        return PackedBatches(b"".join(data), b"".join(rows))


def read_batches(
    records: bytes | memoryview, fetch_offset: int, aborted: Sequence[tuple[int, int]] = ()
) -> list[RecordBatch]:
    """Return the complete batches in `records`, the response to a fetch at `fetch_offset`.

    Batches that end below `fetch_offset` are skipped. An incomplete batch at the end is skipped, because brokers may
    truncate it. The first offset of a compressed message of magic 0 or 1 is unknown. It is assumed to be the fetch
    offset or the offset after the previous batch, whichever is higher.

    `aborted` contains the AbortedTransactions of the partition, as (producer id, first offset) in any order. It is
    empty for read_uncommitted. Raises CorruptRecordBatch for lengths, magics and offsets that no broker sends.
    """
    view = memoryview(records)
    transactions = _OpenAbortedTransactions(aborted)
    batches: list[RecordBatch] = []
    position, previous_last = 0, -1
    while (data := _complete_batch(view, position)) is not None:
        if data[_PREFIX.size - 1] == 2:
            batch = _read_batch(data, transactions)
        else:
            batch = _read_legacy(data, max(fetch_offset, previous_last + 1))
        if batch.base_offset <= previous_last and batch.last_offset >= fetch_offset:
            raise CorruptRecordBatch(f"Batch at offset {batch.base_offset} overlaps one that ends at {previous_last}")
        if batch.last_offset >= fetch_offset:
            batches.append(batch)
        previous_last = batch.last_offset
        position += len(data)
    return batches


def _complete_batch(view: memoryview, position: int) -> memoryview | None:
    """Return the batch at `position`; None if it is incomplete or `position` is the end.

    Raises CorruptRecordBatch if its magic is unknown, or its length or offset is invalid.
    """
    rest = len(view) - position
    if rest < _PREFIX.size:
        return None
    base_offset, length, magic = _PREFIX.unpack_from(view, position)
    least = _MIN_LENGTH.get(magic)
    if least is None:
        raise CorruptRecordBatch(f"Batch at offset {base_offset} has the unknown magic {magic}")
    if length < least or base_offset < 0:
        raise CorruptRecordBatch(f"Batch has the invalid offset {base_offset} or length {length}")
    size = _LOG_OVERHEAD + length
    return view[position : position + size] if size <= rest else None


def _read_batch(data: memoryview, transactions: _OpenAbortedTransactions) -> RecordBatch:
    """Read the header of a batch of magic 2, and update `transactions`. An invalid header raises CorruptRecordBatch."""
    base_offset = _PREFIX.unpack_from(data)[0]
    attributes, last_offset_delta, producer_id, count = _HEADER.unpack_from(data)
    if last_offset_delta < 0 or count < 0:
        found = f"record count {count}, last offset delta {last_offset_delta}"
        raise CorruptRecordBatch(f"Batch at offset {base_offset} has a negative field: {found}")
    last_offset = base_offset + last_offset_delta
    is_control = bool(attributes & _CONTROL_MASK)
    is_aborted = False
    if transactions.any_left:
        transactions.enter(last_offset)
        if is_control:
            if count and _control_type(data) == _ABORT:
                transactions.leave(producer_id)
        else:
            is_aborted = bool(attributes & _TRANSACTIONAL_MASK) and producer_id in transactions
    return RecordBatch(base_offset, last_offset, is_control, is_aborted, count == 0, data)


def _read_legacy(data: memoryview, first_possible: int) -> RecordBatch:
    """Read the header of a message of magic 0 or 1. A compressed message is assumed to begin at `first_possible`."""
    offset = _PREFIX.unpack_from(data)[0]
    is_compressed = data[_LEGACY_ATTRIBUTES] & _CODEC_MASK
    base_offset = min(first_possible, offset) if is_compressed else offset
    return RecordBatch(base_offset, offset, False, False, False, data)


class _OpenAbortedTransactions:
    """The aborted transactions that are open at the current batch. Batches must be read in log order.

    `aborted` contains (producer id, first offset) of each aborted transaction, in any order. A producer is added at the
    first offset of its transaction and removed at its abort marker, as in Kafka's consumer.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._ahead = sorted(((first, producer_id) for producer_id, first in aborted), reverse=True)
        self._open: set[int] = set()

    @property
    def any_left(self) -> bool:
        """Whether an aborted transaction is open or begins later."""
        return bool(self._ahead or self._open)

    def enter(self, last_offset: int) -> None:
        """Add the transactions that begin at or before `last_offset`, the last offset of the next batch."""
        while self._ahead and self._ahead[-1][0] <= last_offset:
            self._open.add(self._ahead.pop()[1])

    def leave(self, producer_id: int) -> None:
        """Remove the transaction of a producer after its abort marker."""
        self._open.discard(producer_id)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._open


def _control_type(data: memoryview) -> int:
    """Return the type of a control batch (0: abort, 1: commit), which is in the key of its first record.

    Control batches are never compressed. Raises CorruptRecordBatch if there is no complete record.
    """
    try:
        position = _skip_varint(data, _HEADER.size) + 1  # its length; attributes are one byte
        for _ in ("timestamp delta", "offset delta", "key length"):
            position = _skip_varint(data, position)
        return int(struct.unpack_from(">2xh", data, position)[0])
    except (IndexError, struct.error) as error:
        raise CorruptRecordBatch("Control batch does not contain a complete control record") from error


def _skip_varint(data: memoryview, position: int) -> int:
    """Return the position after the variable-length number at `position`. Raises IndexError if its end is missing."""
    for end in range(position, position + _MAX_VARINT_BYTES):
        if data[end] < 0x80:
            return end + 1
    raise IndexError(position)
