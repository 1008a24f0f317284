"""Fast decoder for ShareFetch and ShareAcknowledge requests (KIP-932, KIP-1206, KIP-1222).

Most requests of clients are of these two types, and most of their bytes are acknowledgement batches, up to one batch
per record. The generic decoder (`request_decoding`) creates an object with three attributes for each batch. This
decoder creates a tuple.

Successive batches mostly have the same form: the same number of acknowledge types, and no tagged fields. Batches of the
same form have the same length. A sequence of batches of the same form is called a run. To find a run, the decoder
compares the bytes at two positions of each batch. It unpacks the whole run in one call. Other batches are decoded one
by one.

The native reader of kio (0.6.5) is a little faster, but it is not suitable for untrusted input. It allocates as many
elements as the length of an array specifies, so a client could end the process with 40 bytes. It treats unknown tagged
fields as an error, although Kafka skips them (KIP-482). It accepts null where null is not allowed. It has one class per
version, and the objects would still have to be converted to tuples.
"""

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
from sharegroup.protocol.acknowledge_rules import IS_UNUSED_TAG, UNUSED
from sharegroup.types import AcknowledgementBatch, AcknowledgeType

_UUID_BYTES = 16
_INT32 = struct.Struct(">i")
_OFFSETS = struct.Struct(">qq")
#: The "form" of a batch is its encoded number of acknowledge types, that is, the number plus one. `_FORM_AT` is the
#: position of the form in the batch. The form takes one byte if it is below `_LONG_FORM`. `_ONE_TYPE` is the form of
#: batches with one type.
_FORM_AT, _ONE_TYPE, _LONG_FORM = 16, 2, 0x80
_NO_TAGS = 0
_RELEASE = (int(AcknowledgeType.RELEASE),)
#: The smallest size of an encoded batch, partition and topic in bytes. A request is rejected if its frame is too short
#: for the elements of an array.
_LEAST_BATCH, _LEAST_PARTITION, _LEAST_TOPIC = 18, 6, 18
#: Maximum number of batches in one run. `_run` examines up to this many batches, even if the run is short.
_LONGEST_RUN = 256
#: Tuples with one acknowledge type, indexed by the int8 in the request. Negative indexes count from the end.
_TYPES = (*((number,) for number in range(128)), *((number,) for number in range(-128, 0)))
_new = tuple.__new__  # faster than the constructor of a named tuple, which is a Python function


class RequestPartition(NamedTuple):
    """FetchPartition or AcknowledgePartition of a request: a partition with its acknowledgements."""

    partition_index: int
    acknowledgement_batches: list[AcknowledgementBatch]


class RequestTopic(NamedTuple):
    """FetchTopic or AcknowledgeTopic of a request."""

    topic_id: UUID
    partitions: list[RequestPartition]


class ForgottenTopic(NamedTuple):
    """Partitions of a topic that the request removes from the share session."""

    topic_id: UUID
    partitions: list[int]


class ShareFetch(NamedTuple):
    """A ShareFetchRequest. In version 1, `share_acquire_mode` is always 0 and `is_renew_ack` is always False."""

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
    """A ShareAcknowledgeRequest. In version 1, `is_renew_ack` is always False."""

    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    is_renew_ack: bool
    topics: list[RequestTopic]


#: {version: layout of the numbers before the topics}, and {version: defaults of the fields that the version lacks}.
_FETCH_NUMBERS = {1: struct.Struct(">iiiiii"), 2: struct.Struct(">iiiiiib?")}
_FETCH_DEFAULTS: dict[int, tuple[Any, ...]] = {1: (0, False), 2: ()}
_ACKNOWLEDGE_NUMBERS = {1: struct.Struct(">i"), 2: struct.Struct(">i?")}
_ACKNOWLEDGE_DEFAULTS: dict[int, tuple[Any, ...]] = {1: (False,), 2: ()}


def decode_share_fetch(frame: memoryview, position: int, version: int, most_elements: int) -> ShareFetch:
    """Decode the body of a ShareFetch request of version 1 or 2, which starts at `position` in the frame.

    The request may have up to `most_elements` elements: topics, partitions, forgotten partitions, batches and tagged
    fields. Raises MalformedRequestError, struct.error or UnicodeDecodeError for invalid bytes.
    """
    body = _Body(frame, position, most_elements)
    ids = body.text(), body.text()
    numbers = body.numbers(_FETCH_NUMBERS[version])
    topics, forgotten = body.topics(), body.forgotten()
    body.skip_tags()
    return ShareFetch._make((*ids, *numbers, *_FETCH_DEFAULTS[version], topics, forgotten))


def decode_share_acknowledge(frame: memoryview, position: int, version: int, most_elements: int) -> ShareAcknowledge:
    """Decode the body of a ShareAcknowledge request as `decode_share_fetch` does."""
    body = _Body(frame, position, most_elements)
    ids = body.text(), body.text()
    numbers = body.numbers(_ACKNOWLEDGE_NUMBERS[version])
    topics = body.topics()
    body.skip_tags()
    return ShareAcknowledge._make((*ids, *numbers, *_ACKNOWLEDGE_DEFAULTS[version], topics))


class _Body:
    """Reads the values of a request one after the other, and limits the number of elements."""

    __slots__ = ("_data", "_elements_left", "_position", "_size")

    def __init__(self, data: memoryview, position: int, most_elements: int) -> None:
        self._data, self._position, self._elements_left = data, position, most_elements
        self._size = len(data)

    def text(self) -> str | None:
        """Read a compact nullable string. Return None for null."""
        size = self._varint() - 1
        if size > MAX_STRING_BYTES:
            raise MalformedRequestError(f"a string has {size} bytes; the maximum is {MAX_STRING_BYTES}")
        return None if size < 0 else str(self._taken(size, "a string"), "utf-8")

    def numbers(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Read numbers with a fixed layout."""
        found = layout.unpack_from(self._data, self._position)
        self._position += layout.size
        return found

    def topics(self) -> list[RequestTopic]:
        """Read the topics with their partitions and acknowledgement batches."""
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
        """Read the forgotten topics with their partition numbers."""
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
        """Skip tagged fields. Not used for batches, which may have a tagged field that the gateway reads."""
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
        """Read a run of up to `most` batches. Return [] if no run begins here; `_batch` must then read the next batch.

        A run ends before a batch with another form or with tagged fields. The batches of a run have the same size. The
        form and the number of tagged fields are therefore at known positions in each batch.
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
        """Read one batch of any form.

        If the batch releases records that the client marks as unused, its acknowledge types are `UNUSED`.
        """
        first, last = self.numbers(_OFFSETS)
        types = tuple(self._taken(self._length("acknowledge types"), "acknowledge types").cast("b"))
        if self._is_unused() and types == _RELEASE:
            types = UNUSED
        return _new(AcknowledgementBatch, (first, last, types))

    def _is_unused(self) -> bool:
        """Read the tagged fields of a batch. Return whether one of them marks the records as unused by the client.

        Unused records are returned to the job without counting as delivered.
        """
        count, is_unused = self._varint(), False
        self._spend(count, "tagged fields")
        for _ in range(count):
            tag = self._varint()
            value = self._taken(self._varint(), "a tagged field")
            is_unused = is_unused or (tag == IS_UNUSED_TAG and bytes(value) == b"\x01")
        return is_unused

    def _count(self, what: str, least_bytes: int) -> int:
        """Read the length of the array `what`, and count its elements. Each has at least `least_bytes` bytes.

        Raises MalformedRequestError if the frame is too short for the elements, or the request has too many elements.
        """
        count = self._length(what)
        if count * least_bytes > self._size - self._position:
            raise MalformedRequestError(f"the request is too short for {count} {what}")
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
            raise MalformedRequestError(f"too many elements in {what}")

    def _varint(self) -> int:
        position = self._position
        if position < self._size and self._data[position] < 0x80:  # nearly always; saves a call
            self._position += 1
            return self._data[position]
        value, self._position = read_varint(self._data, position)
        return value

    def _taken(self, size: int, what: str) -> memoryview:
        begin = self._position
        self._position += size
        if self._position > self._size:
            raise MalformedRequestError(f"{what} is cut off by the end of the request")
        return self._data[begin : self._position]


def _leading(data: memoryview, byte: int) -> int:
    """Return how many bytes at the beginning of `data` are equal to `byte`."""
    copied = data.tobytes()
    return len(copied) - len(copied.lstrip(bytes((byte,))))


@cache
def _layout(types: int) -> struct.Struct:
    """Return the layout of a batch that has `types` acknowledge types and no tagged fields."""
    return struct.Struct(f">qqx{types}bx")
