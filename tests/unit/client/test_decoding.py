"""Records from the batches of a ShareFetch response."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from kafka.record.memory_records import MemoryRecordsBuilder
from kafka.record.util import calc_crc32c

from sharegroup.client.decoding import Decoded, RecordDecoder
from sharegroup.client.records import Delivery, TopicIdPartition
from sharegroup.client.settings import parse_settings
from sharegroup.types import AcknowledgeType, AcquiredRange

ORDERS = TopicIdPartition(UUID(int=7), 0, "orders")
DELIVERY = Delivery(ORDERS, 1, 30_000)
GAP, RELEASE, REJECT = AcknowledgeType.GAP, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
NONE, GZIP = 0, 1


def batch(*values: bytes | None, offset: int = 0, compression: int = NONE) -> bytes:
    builder = MemoryRecordsBuilder(magic=2, compression_type=compression, batch_size=100_000, offset=offset)
    for value in values:
        builder.append(timestamp=1_000, key=b"key", value=value, headers=[("name", b"header")])
    builder.close()
    return bytes(builder.buffer())


def decode(data: bytes, *acquired: tuple[int, int, int], **settings: Any) -> Decoded:
    decoder = RecordDecoder(parse_settings({"bootstrap_servers": "a:1", "group_id": "g", **settings}))
    return decoder.decode(data, [AcquiredRange(*acquired_range) for acquired_range in acquired], DELIVERY)


def offsets(decoded: Decoded) -> list[tuple[int, int]]:
    return [(record.offset, record.delivery_count) for record in decoded.records]


@pytest.mark.parametrize("compression", [NONE, GZIP])
def test_record_has_all_its_fields(compression: int) -> None:
    value = b"1" * 1_000  # kafka-python leaves small batches uncompressed
    (record,) = decode(batch(value, compression=compression), (0, 0, 2)).records
    assert (record.topic, record.partition, record.offset, record.delivery_count) == ("orders", 0, 0, 2)
    assert (record.key, record.value, record.timestamp, record.timestamp_type) == (b"key", value, 1_000, 0)
    assert record.headers == [("name", b"header")]


def test_only_acquired_records_of_a_batch_are_returned() -> None:
    data = batch(b"0", b"1", b"2", b"3") + batch(b"4", b"5", offset=4)
    assert offsets(decode(data, (1, 2, 1), (4, 4, 3))) == [(1, 1), (2, 1), (4, 3)]


def test_acquired_offsets_without_a_record_are_gaps() -> None:
    decoded = decode(batch(b"0") + batch(b"3", offset=3), (0, 4, 1))
    assert offsets(decoded) == [(0, 1), (3, 1)]
    assert decoded.types == {1: GAP, 2: GAP, 4: GAP}


def test_deserializers_leave_null_values_alone() -> None:
    decoded = decode(batch(b'{"a": 1}', None), (0, 1, 1), value_deserializer=json.loads, key_deserializer=bytes.decode)
    assert [(record.key, record.value) for record in decoded.records] == [("key", {"a": 1}), ("key", None)]


def test_deserializer_objects_of_kafka_python_are_accepted() -> None:
    class Upper:
        def deserialize(self, topic: str, headers: list[tuple[str, bytes]], data: bytes) -> str:
            return f"{topic} {headers[0][0]} {data.decode()}"

    (record,) = decode(batch(b"x"), (0, 0, 1), value_deserializer=Upper()).records
    assert record.value == "orders name x"


@pytest.mark.parametrize(("choice", "kind"), [("reject", REJECT), ("release", RELEASE)])
def test_undecodable_record_is_not_delivered_and_has_a_reason(choice: str, kind: AcknowledgeType) -> None:
    decoded = decode(batch(b"1", b"no"), (0, 1, 1), value_deserializer=json.loads, on_undecodable=choice)
    assert (offsets(decoded), decoded.types) == ([(0, 1)], {1: kind})
    (bad,) = decoded.undecodable
    assert (bad.source, bad.offset) == (ORDERS, 1)
    assert "JSONDecodeError" in bad.reason


def test_undecodable_record_is_delivered_raw_if_configured() -> None:
    decoded = decode(batch(b"no"), (0, 0, 1), value_deserializer=json.loads, on_undecodable="raw")
    (record,) = decoded.records
    assert record.value == b"no"
    assert isinstance(record.error, json.JSONDecodeError)
    assert decoded.types == {}


def test_batch_with_a_wrong_checksum_is_rejected() -> None:
    damaged = bytearray(batch(b"00", b"11"))
    damaged[-3] ^= 1
    decoded = decode(bytes(damaged) + batch(b"2", offset=2), (1, 2, 1))
    assert (offsets(decoded), decoded.types) == ([(2, 1)], {1: REJECT})
    assert "checksum" in decoded.undecodable[0].reason


def test_batch_that_cannot_be_decompressed_is_rejected() -> None:
    data = bytearray(batch(b"0" * 1_000, compression=GZIP))
    data[70:80] = bytes(10)
    decoded = decode(bytes(data), (0, 0, 1), check_crcs=False)
    assert (decoded.records, decoded.types) == ([], {0: REJECT})


def test_batch_whose_codec_is_not_installed_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    data = batch(b"0" * 1_000, compression=GZIP)
    monkeypatch.setattr("kafka.codec.has_gzip", lambda: False)
    decoded = decode(data, (0, 0, 1))
    assert (decoded.records, decoded.types) == ([], {0: RELEASE})
    assert "gzip" in decoded.undecodable[0].reason


def test_name_of_a_header_need_not_be_utf8() -> None:
    """As in Java, bytes that are no UTF-8 become U+FFFD."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=NONE, batch_size=100_000, offset=0)
    for value, name in ((b"0", "name"), (b"1", "XXXX"), (b"2", "name")):
        builder.append(timestamp=1_000, key=b"key", value=value, headers=[(name, b"header")])
    builder.close()
    data = bytearray(bytes(builder.buffer()).replace(b"XXXX", "Zürc".encode("latin-1")))
    data[17:21] = calc_crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    decoded = decode(bytes(data), (0, 2, 1))
    assert [(record.value, record.headers) for record in decoded.records] == [
        (b"0", [("name", b"header")]),
        (b"1", [("Z\ufffdrc", b"header")]),
        (b"2", [("name", b"header")]),
    ]
    assert {type(data) for record in decoded.records for data in (record.key, record.value, record.headers[0][1])} == {
        bytes
    }


def test_batch_of_an_old_format_is_released_as_a_whole_if_its_codec_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    builder = MemoryRecordsBuilder(magic=1, compression_type=GZIP, batch_size=100_000, offset=0)
    for _ in range(3):
        builder.append(timestamp=1_000, key=None, value=b"x" * 500)
    builder.close()
    data = (2).to_bytes(8, "big") + bytes(builder.buffer())[8:]  # a broker stores the offset of the last record
    assert offsets(decode(data, (0, 2, 1))) == [(0, 1), (1, 1), (2, 1)]
    monkeypatch.setattr("kafka.codec.has_gzip", lambda: False)
    assert decode(data, (0, 2, 1)).types == {0: RELEASE, 1: RELEASE, 2: RELEASE}
