"""Record batches as stored in a log, for tests: built by kafka-python, with the offsets that a broker assigns."""

from __future__ import annotations

import struct

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

CONTROL, TRANSACTIONAL = 0x20, 0x10
ABORT, COMMIT = 0, 1
_ATTRIBUTES, _DELTA, _COUNT, _RECORDS = 21, 23, 57, 61


def batch(base_offset: int, count: int, *, producer_id: int = -1, transactional: bool = False, codec: int = 0) -> bytes:
    """Return a batch of magic 2 with `count` records."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=transactional, producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0, base_sequence=-1 if producer_id < 0 else 0, batch_size=1 << 20,
    )  # fmt: skip
    for offset in range(count):
        builder.append(offset, 1_000, b"key", b"value" * 10, [])
    return placed(bytes(builder.build()), base_offset)


def control_batch(offset: int, producer_id: int, kind: int) -> bytes:
    """Return a transaction marker."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=True, producer_id=producer_id, producer_epoch=0,
        base_sequence=0, batch_size=1 << 20,
    )  # fmt: skip
    builder.append(0, 1_000, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 7), [])
    return patched(placed(bytes(builder.build()), offset), _ATTRIBUTES, ">h", CONTROL | TRANSACTIONAL)


def emptied(data: bytes) -> bytes:
    """Return the batch as it is after compaction has removed all its records."""
    data = patched(data[:_RECORDS], _COUNT, ">i", 0)
    return patched(data, 8, ">i", len(data) - 12)


def messages(magic: int, offsets: range, codec: int = 0) -> bytes:
    """Return messages of magic 0 or 1; compressed ones are one wrapper with the offset of the last."""
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for i, offset in enumerate(offsets):
        builder.append(i if codec else offset, 1_000, b"key", b"value" * 10)
    data = bytes(builder.build())
    return placed(data, offsets[-1]) if codec else data


def placed(data: bytes, base_offset: int) -> bytes:
    """Set the base offset, as a broker does."""
    return patched(data, 0, ">q", base_offset)


def with_delta(data: bytes, last_offset_delta: int) -> bytes:
    """Return a batch of magic 2 with another last offset."""
    return patched(data, _DELTA, ">i", last_offset_delta)


def patched(data: bytes, position: int, code: str, value: int) -> bytes:
    """Return `data` with another number at `position`."""
    changed = bytearray(data)
    struct.pack_into(code, changed, position, value)
    return bytes(changed)
