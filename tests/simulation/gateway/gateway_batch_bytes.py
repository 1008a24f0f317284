"""Record batches of the simulated log as a broker sends them: magic 2, not compressed. Created once for each batch.

The checksum is 0: nothing between the log and the client reads it, and it would take most of the time.
"""

from __future__ import annotations

import struct
import zlib

from tests.simulation.brokers.kafka_log import LogBatch

#: Base offset, length, leader epoch, magic, checksum, attributes, last offset delta, base and max timestamp, producer
#: id and epoch, base sequence, number of records.
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH_FROM = 12
_LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x08, 0x10, 0x20
_MARKERS = {"abort": 0, "commit": 1}


def producer_id(producer: str) -> int:
    """Return the id of a transaction's producer, -1 for none."""
    return zlib.crc32(producer.encode()) if producer else -1


def batch_bytes(batch: LogBatch) -> bytes:
    """Return the bytes of a batch of the simulated log."""
    if batch.control:
        entries: list[tuple[int, bytes | None, bytes]] = [
            (0, struct.pack(">hh", 0, _MARKERS[batch.control]), struct.pack(">hi", 0, 0))
        ]
    else:
        entries = [(record.offset - batch.base_offset, record.key, record.value) for record in batch.records]
    body = b"".join(_record(*entry) for entry in entries)
    attributes = _LOG_APPEND_TIME
    if batch.producer:
        attributes |= _TRANSACTIONAL | (_CONTROL if batch.control else 0)
    header = _HEADER.pack(
        batch.base_offset,
        _HEADER.size + len(body) - _LENGTH_FROM,
        0,
        2,
        0,
        attributes,
        batch.last_offset - batch.base_offset,
        batch.append_ms,
        batch.append_ms,
        producer_id(batch.producer),
        0 if batch.producer else -1,
        -1,
        len(entries),
    )
    return header + body


def record_offsets(data: memoryview) -> list[int]:
    """Return the offsets of the records of a batch."""
    base_offset, count = struct.unpack_from(">q", data)[0], struct.unpack_from(">i", data, _HEADER.size - 4)[0]
    last_delta = struct.unpack_from(">i", data, 23)[0]
    if count == last_delta + 1:
        return list(range(base_offset, base_offset + count))
    offsets, position = [], _HEADER.size
    for _ in range(count):
        length, start = _read_varint(data, position)
        _, at = _read_varint(data, start + 1)
        delta, _ = _read_varint(data, at)
        offsets.append(base_offset + delta)
        position = start + length
    return offsets


def _record(offset_delta: int, key: bytes | None, value: bytes) -> bytes:
    """Return length, attributes, timestamp delta, offset delta, key, value, and no headers."""
    key_part = _varint(-1) if key is None else _varint(len(key)) + key
    body = b"\0\0" + _varint(offset_delta) + key_part + _varint(len(value)) + value + b"\0"
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    if rest < 0x80:
        return bytes((rest,))
    found = bytearray()
    while rest >= 0x80:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return (number, the position after it)."""
    shift = rest = 0
    while True:
        byte = data[position]
        position += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (rest >> 1) ^ -(rest & 1), position
        shift += 7
