"""ShareFetch and ShareAcknowledge (KIP-932, KIP-1206, KIP-1222) decoded into tuples, the many batches of them in runs.

These two are most of what clients send, and the acknowledgement batches are most of these two: up to one for each
record. By the schemas (`request_decoding`) each costs an object with three attributes; here it costs a tuple. Batches
that follow each other mostly have one form - as many acknowledge types, no tagged fields - and so one length: such a
run is found by comparing the bytes at two places of each, and unpacked at once. Others are decoded one by one.

kio, whose reader is native, is a little faster, and is not for what anybody may have sent (0.6.5): it makes room for as
many elements as an array announces, so that 40 bytes of a client end the process; a tagged field that it does not know
is an error, where Kafka skips it (KIP-482); null comes through where it is not allowed; each version is a class of its
own. What it makes would have to be turned into tuples besides.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from sharegroup.kafka_clients.connections.headers import (
    MAX_STRING_BYTES,
    MalformedRequestError,
    read_varint,
    skip_tagged_fields,
)
from sharegroup.types import AcknowledgementBatch

_UUID_BYTES = 16
_INT32 = struct.Struct(">i")
_OFFSETS = struct.Struct(">qq")
#: Where a batch says how many acknowledge types it has: one more than there are, in one byte if below `_LONG_FORM`.
_FORM_AT, _ONE_TYPE, _LONG_FORM = 16, 2, 0x80
_NO_TAGS = 0
#: Fewest bytes of a batch, of a partition and of a topic: what is announced must have room in the frame.
_LEAST_BATCH, _LEAST_PARTITION, _LEAST_TOPIC = 18, 6, 18
#: As many batches are looked at for one run: a look that finds two costs little more than they do.
_LONGEST_RUN = 256
#: By the number on the wire, the negative ones too, as Python counts from the end.
_TYPES = (*((number,) for number in range(128)), *((number,) for number in range(-128, 0)))
_new = tuple.__new__  # a named tuple's own is a Python function


class RequestPartition(NamedTuple):
    """FetchPartition, AcknowledgePartition: what is acknowledged of a partition, and that it is to be fetched."""

    partition_index: int
    acknowledgement_batches: list[AcknowledgementBatch]


class RequestTopic(NamedTuple):
    """FetchTopic, AcknowledgeTopic."""

    topic_id: UUID
    partitions: list[RequestPartition]


class ForgottenTopic(NamedTuple):
    """Partitions that are to be fetched no more."""

    topic_id: UUID
    partitions: list[int]


class ShareFetch(NamedTuple):
    """A ShareFetchRequest. Times in milliseconds; before v2 the acquire mode is 0 and nothing is renewed."""

    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    share_acquire_mode: int
    is_renew_ack: bool
    topics: list[RequestTopic]
    forgotten_topics_data: list[ForgottenTopic]


class ShareAcknowledge(NamedTuple):
    """A ShareAcknowledgeRequest; before v2 nothing is renewed."""

    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    is_renew_ack: bool
    topics: list[RequestTopic]


#: {version: what stands between the names and the topics}, and {version: what stands in for what it does not have}.
_FETCH_NUMBERS = {1: struct.Struct(">iiiiii"), 2: struct.Struct(">iiiiiib?")}
_FETCH_DEFAULTS: dict[int, tuple[Any, ...]] = {1: (0, False), 2: ()}
_ACKNOWLEDGE_NUMBERS = {1: struct.Struct(">i"), 2: struct.Struct(">i?")}
_ACKNOWLEDGE_DEFAULTS: dict[int, tuple[Any, ...]] = {1: (False,), 2: ()}


def decode_share_fetch(frame: memoryview, position: int, version: int, most_elements: int) -> ShareFetch:
    """The body that begins at `position`, of version 1 or 2.

    It has `most_elements` at most: topics, partitions, forgotten partitions, batches and tags.

    Raises MalformedRequestError, struct.error or UnicodeDecodeError.
    """
    body = _Body(frame, position, most_elements)
    named = body.text(), body.text()
    numbers = body.numbers(_FETCH_NUMBERS[version])
    topics, forgotten = body.topics(), body.forgotten()
    body.skip_tags()
    return ShareFetch._make((*named, *numbers, *_FETCH_DEFAULTS[version], topics, forgotten))


def decode_share_acknowledge(frame: memoryview, position: int, version: int, most_elements: int) -> ShareAcknowledge:
    """As `decode_share_fetch`."""
    body = _Body(frame, position, most_elements)
    named = body.text(), body.text()
    numbers = body.numbers(_ACKNOWLEDGE_NUMBERS[version])
    topics = body.topics()
    body.skip_tags()
    return ShareAcknowledge._make((*named, *numbers, *_ACKNOWLEDGE_DEFAULTS[version], topics))


class _Body:
    """The bytes of a request, how far they are read, and how many elements may still come."""

    __slots__ = ("_data", "_elements_left", "_position", "_size")

    def __init__(self, data: memoryview, position: int, most_elements: int) -> None:
        self._data, self._position, self._elements_left = data, position, most_elements
        self._size = len(data)

    def text(self) -> str | None:
        """A compact string that may be null."""
        size = self._varint() - 1
        if size > MAX_STRING_BYTES:
            raise MalformedRequestError(f"a string has {size} bytes; allowed: up to {MAX_STRING_BYTES}")
        return None if size < 0 else str(self._taken(size, "a string"), "utf-8")

    def numbers(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Numbers of a fixed layout."""
        found = layout.unpack_from(self._data, self._position)
        self._position += layout.size
        return found

    def topics(self) -> list[RequestTopic]:
        """Topics with partitions and acknowledgement batches."""
        topics = []
        for _ in range(self._count("topics", _LEAST_TOPIC)):
            topic_id = UUID(bytes=bytes(self._taken(_UUID_BYTES, "a topic id")))
            partitions = []
            for _ in range(self._count("partitions", _LEAST_PARTITION)):
                (index,) = self.numbers(_INT32)
                partitions.append(_new(RequestPartition, (index, self._batches())))
                self.skip_tags()
            topics.append(RequestTopic(topic_id, partitions))
            self.skip_tags()
        return topics

    def forgotten(self) -> list[ForgottenTopic]:
        """Topics with the numbers of partitions."""
        topics = []
        for _ in range(self._count("forgotten topics", _LEAST_TOPIC)):
            topic_id = UUID(bytes=bytes(self._taken(_UUID_BYTES, "a topic id")))
            count = self._length("forgotten partitions")
            numbers = self._taken(count * _INT32.size, "forgotten partitions")
            self._spend(count, "forgotten partitions")
            topics.append(ForgottenTopic(topic_id, list(struct.unpack(f">{count}i", numbers))))
            self.skip_tags()
        return topics

    def skip_tags(self) -> None:
        """Tagged fields: requests have none that are known."""
        begin = self._position
        count = self._varint()
        if count:
            self._spend(count, "tagged fields")
            self._position = skip_tagged_fields(self._data, begin)

    def _batches(self) -> list[AcknowledgementBatch]:
        batches: list[AcknowledgementBatch] = []
        left = self._count("acknowledgement batches", _LEAST_BATCH)
        while left:
            found = self._run(min(left, _LONGEST_RUN)) if left > 1 else []
            batches += found or [self._batch()]
            left -= len(found) or 1
        return batches

    def _run(self, most: int) -> list[AcknowledgementBatch]:
        """The batches of one form that come next, of `most`; none unless there are two at least.

        As long as each has the form, the next one's length and its tagged fields are at a known distance.
        """
        data, begin = self._data, self._position
        if begin + _FORM_AT >= self._size:
            return []
        form = data[begin + _FORM_AT]
        size = _LEAST_BATCH + form - 1
        if not 1 < form < _LONG_FORM or begin + 2 * size > self._size or data[begin + _FORM_AT + size] != form:
            return []
        end = begin + min(most, (self._size - begin) // size) * size
        end = begin + _leading(data[begin + _FORM_AT : end : size], form) * size
        count = _leading(data[begin + size - 1 : end : size], _NO_TAGS)
        self._position = begin + count * size
        rows = _layout(form - 1).iter_unpack(data[begin : self._position])
        if form == _ONE_TYPE:
            return [_new(AcknowledgementBatch, (first, last, _TYPES[kind])) for first, last, kind in rows]
        return [_new(AcknowledgementBatch, (row[0], row[1], row[2:])) for row in rows]

    def _batch(self) -> AcknowledgementBatch:
        """One of any form."""
        first, last = self.numbers(_OFFSETS)
        types = self._taken(self._length("acknowledge types"), "acknowledge types")
        self.skip_tags()
        return _new(AcknowledgementBatch, (first, last, tuple(types.cast("b"))))

    def _count(self, what: str, least_bytes: int) -> int:
        """The length of an array whose elements have `least_bytes` bytes at least."""
        count = self._length(what)
        if count * least_bytes > self._size - self._position:
            raise MalformedRequestError(f"{count} {what}: more than the request has room for")
        self._spend(count, what)
        return count

    def _length(self, what: str) -> int:
        length = self._varint() - 1
        if length < 0:
            raise MalformedRequestError(f"{what} must not be null")
        return length

    def _spend(self, count: int, what: str) -> None:
        self._elements_left -= count
        if self._elements_left < 0:
            raise MalformedRequestError(f"too many elements, with {what}")

    def _varint(self) -> int:
        position = self._position
        if position < self._size and self._data[position] < 0x80:  # nearly always, and a call is dear
            self._position += 1
            return self._data[position]
        value, self._position = read_varint(self._data, position)
        return value

    def _taken(self, size: int, what: str) -> memoryview:
        begin = self._position
        self._position += size
        if self._position > self._size:
            raise MalformedRequestError(f"{what} is longer than the request")
        return self._data[begin : self._position]


def _leading(data: memoryview, byte: int) -> int:
    """How often `byte` stands at the beginning."""
    copied = data.tobytes()
    return len(copied) - len(copied.lstrip(bytes((byte,))))


@cache
def _layout(types: int) -> struct.Struct:
    """A batch with so many acknowledge types and no tagged fields."""
    return struct.Struct(f">qqx{types}bx")
