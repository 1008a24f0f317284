"""Decodes the record batches of a ShareFetch response, with kafka-python.

The broker returns whole batches, although the member may have acquired only some of their offsets. The broker has
already filtered aborted transactions (`share.isolation.level`). Acquired offsets without a record (transaction markers,
compacted records) are acknowledged as gaps, as in Java's consumer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from kafka.errors import CorruptRecordError, UnsupportedCodecError
from kafka.record import MemoryRecords

from sharegroup.client.core.acknowledgements import Types
from sharegroup.client.records import Delivery, Record, UndecodableRecord
from sharegroup.client.settings import ConsumerSettings, Deserializer
from sharegroup.types import AcknowledgeType, AcquiredRange

#: A function `deserialize(topic, headers, data)`. It returns None if `data` is None.
_Deserialize = Callable[[str, Sequence[tuple[str, bytes | None]], bytes | None], Any]


class _Lenient(bytearray):
    """Bytes of a batch in which names of headers need not be UTF-8. As in Java, other bytes become U+FFFD."""

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return _Lenient(found) if isinstance(index, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "replace") -> str:
        return super().decode(encoding, errors)


class Decoded(NamedTuple):
    """The acquired offsets of a partition in one fetch response, after decoding.

    Attributes:
        records: the records to deliver.
        types: {offset: acknowledge type} for offsets that are not delivered: gaps, and records that could not be
            decoded.
        undecodable: the records that could not be decoded, with the reasons.
    """

    records: list[Record[Any]]
    types: Types
    undecodable: list[UndecodableRecord]


class RecordDecoder:
    """Decodes records with the deserializers and settings of a consumer."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._key, self._value = (
            _function(deserializer) for deserializer in (settings.key_deserializer, settings.value_deserializer)
        )
        self._deserializes = settings.has_deserializers
        self._check_crcs, self._is_raw = settings.check_crcs, settings.on_undecodable == "raw"
        is_release = settings.on_undecodable == "release"
        self._refusal = AcknowledgeType.RELEASE if is_release else AcknowledgeType.REJECT

    def decode(self, data: bytes | memoryview, acquired: Sequence[AcquiredRange], delivery: Delivery) -> Decoded:
        """Decode the record batches `data` of a partition, and return the records in the `acquired` ranges.

        Acquired offsets without a record are returned as gaps. `delivery` becomes a part of each record.
        """
        found = Decoded([], {}, [])
        counts = {offset: count for first, last, count in acquired for offset in range(first, last + 1)}
        for batch in MemoryRecords(data):
            self._decode_batch(batch, counts, delivery, found)
        for offset in counts:  # what is left has no record
            found.types[offset] = AcknowledgeType.GAP
        return found

    def _decode_batch(self, batch: Any, counts: dict[int, int], delivery: Delivery, found: Decoded) -> None:
        try:
            try:
                self._decode_records(self._raw_records(batch), counts, delivery, found)
            except CorruptRecordError as error:
                if not isinstance(error.__context__, UnicodeDecodeError):
                    raise
                batch._buffer = _Lenient(batch._buffer)  # goes on with the record that failed
                self._decode_records(iter(batch), counts, delivery, found)
        except UnsupportedCodecError as error:  # another member may have the library
            self._refuse_rest(batch, AcknowledgeType.RELEASE, error, counts, delivery, found)
        except Exception as error:  # noqa: BLE001 - libraries that decompress raise errors of their own
            self._refuse_rest(batch, AcknowledgeType.REJECT, error, counts, delivery, found)

    def _decode_records(
        self, records: Iterator[Any], counts: dict[int, int], delivery: Delivery, found: Decoded
    ) -> None:
        for raw in records:
            offset = raw.offset
            count = counts.pop(offset, None)
            if count is not None:
                self._decode_record(raw, offset, count, delivery, found)

    def _raw_records(self, batch: Any) -> Iterator[Any]:
        if self._check_crcs and not batch.validate_crc():
            raise CorruptRecordError("the checksum of the batch is wrong")
        return iter(()) if batch.magic == 2 and batch.is_control_batch else iter(batch)

    def _decode_record(self, raw: Any, offset: int, count: int, delivery: Delivery, found: Decoded) -> None:
        source, headers, key, value, error = delivery.source, raw.headers, raw.key, raw.value, None
        size = (len(key) if key else 0) + (len(value) if value else 0)
        try:
            if self._deserializes:
                key, value = self._key(source.topic, headers, key), self._value(source.topic, headers, value)
        except Exception as problem:  # noqa: BLE001 - a deserializer may raise anything
            if not self._is_raw:
                found.types[offset] = self._refusal
                found.undecodable.append(UndecodableRecord(source, offset, repr(problem)))
                return
            error = problem
        found.records.append(
            Record(
                source.topic,
                source.partition,
                offset,
                raw.timestamp,
                raw.timestamp_type,
                key,
                value,
                headers,
                count,
                delivery,
                error,
                size,
            )
        )

    def _refuse_rest(
        self,
        batch: Any,
        kind: AcknowledgeType,
        error: Exception,
        counts: dict[int, int],
        delivery: Delivery,
        found: Decoded,
    ) -> None:
        """Add to `found` that the rest of a batch is acknowledged as `kind`.

        The rest are the batch's acquired offsets that were not decoded because of `error`. They are removed from
        `counts`, which contains {offset still to be decoded: delivery count}. Only the first of them is added to
        `found.undecodable`.
        """
        covered = _offsets(batch)
        rest = [offset for offset in counts if offset in covered]
        for offset in rest:
            del counts[offset]
            found.types[offset] = kind
        if rest:
            found.undecodable.append(UndecodableRecord(delivery.source, rest[0], repr(error)))


def _offsets(batch: Any) -> range:
    """Return the offsets that a batch covers.

    For message formats before Kafka 0.11, whose headers contain only the last offset, return all offsets up to it. The
    earlier batches are decoded already.
    """
    if batch.magic < 2:
        return range(batch.base_offset + 1)
    return range(batch.base_offset, batch.last_offset + 1)


def _function(deserializer: Deserializer | None) -> _Deserialize:
    if deserializer is None:
        return lambda _topic, _headers, data: data
    if hasattr(deserializer, "deserialize"):
        return lambda topic, headers, data: None if data is None else deserializer.deserialize(topic, headers, data)
    return lambda _topic, _headers, data: None if data is None else deserializer(data)
