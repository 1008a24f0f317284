"""The decoder of ShareFetch and ShareAcknowledge: equal to kafka-python's, and safe for malformed bytes."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sharegroup.gateway.clients.request_sizes import MAX_OWN_REQUEST_BYTES
from sharegroup.gateway.wire import request_decoding
from sharegroup.gateway.wire.request_decoding import MAX_ELEMENTS
from sharegroup.gateway.wire.share_request_decoding import ShareAcknowledge, ShareFetch
from sharegroup.kafka_clients.connections.headers import MalformedRequestError, read_header
from sharegroup.protocol.acknowledge_rules import UNUSED
from sharegroup.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest
from sharegroup.types import AcknowledgementBatch
from tests.unit.gateway.own_requests import bodies
from tests.unit.gateway.wire_bytes import decode, request_frame, varint

VERSIONS = [(message, version) for message in (ShareFetchRequest, ShareAcknowledgeRequest) for version in (1, 2)]
IDS = [f"{message.name}-{version}" for message, version in VERSIONS]
each_version = pytest.mark.parametrize(("message", "version"), VERSIONS, ids=IDS)

#: A ShareAcknowledge of version 2, up to its topics.
BEGIN = b"\0\x4f\0\2\0\0\0\7\0\6client" + b"\0" + b"\2g\2m" + b"\0\0\0\1" + b"\0"
TOPIC = bytes(range(16))
OFFSETS = st.integers(-(2**63), 2**63 - 1)
TYPES = st.lists(st.integers(-128, 127), max_size=300)
TAGS = st.sampled_from([b"\0", b"\1\x05\1z", b"\2\0\3abc\x80\1\0"])


def by_schema(message: Any, frame: bytes | bytearray) -> Any:
    """Decode with the decoder of all other requests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request_decoding, "_OWN", {})
        return decode(message, frame)


def as_tuples(body: Any, version: int) -> ShareFetch | ShareAcknowledge:
    """Return a message of kafka-python's as one of our tuples."""
    topics = [
        (topic.topic_id or UUID(int=0), [(entry.partition_index, batches_of(entry)) for entry in topic.partitions])
        for topic in body.topics
    ]
    known: dict[str, Any] = {"share_acquire_mode": 0, "is_renew_ack": False} | {
        field.name: getattr(body, field.name) for field in body._struct.untagged_fields(version)
    }
    if isinstance(body, ShareAcknowledgeRequest):
        return ShareAcknowledge(*(known[name] for name in ShareAcknowledge._fields[:-1]), topics)
    forgotten = [(topic.topic_id or UUID(int=0), topic.partitions) for topic in body.forgotten_topics_data]
    return ShareFetch(*(known[name] for name in ShareFetch._fields[:-2]), topics, forgotten)


def batches_of(partition: Any) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(
            batch.first_offset,
            batch.last_offset,
            UNUSED if batch.is_unused and batch.acknowledge_types == [2] else tuple(batch.acknowledge_types),
        )
        for batch in partition.acknowledgement_batches
    ]


def as_message(message: Any, version: int, body: Any) -> Any:
    """Invert `as_tuples`."""
    topic_class, *_ = (
        value for value in vars(message).values() if isinstance(value, type) and hasattr(value, "_struct")
    )
    known = body._asdict()
    known["topics"] = [
        topic_class(topic_id=topic_id, partitions=[partition_of(topic_class, *entry) for entry in partitions])
        for topic_id, partitions in body.topics
    ]
    if message is ShareFetchRequest:
        known["forgotten_topics_data"] = [
            ShareFetchRequest.ForgottenTopic(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in body.forgotten_topics_data
        ]
    return message(version=version, **known)


def partition_of(topic_class: Any, index: int, batches: list[AcknowledgementBatch]) -> Any:
    part = getattr(topic_class, "FetchPartition", None) or topic_class.AcknowledgePartition
    return part(
        partition_index=index,
        acknowledgement_batches=[
            part.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
            for first, last, types in batches
        ],
    )


def batch_bytes(first: int, last: int, types: list[int], tags: bytes = b"\0") -> bytes:
    return struct.pack(">qq", first, last) + varint(len(types) + 1) + struct.pack(f"{len(types)}b", *types) + tags


def acknowledging(*batches: bytes, count: int | None = None) -> bytes:
    """Return a ShareAcknowledge with these batches of one partition."""
    announced = varint((len(batches) if count is None else count) + 1)
    return BEGIN + b"\2" + TOPIC + b"\2" + b"\0\0\0\3" + announced + b"".join(batches) + b"\0\0\0"


def batches_in(frame: bytes) -> list[AcknowledgementBatch]:
    found: list[AcknowledgementBatch] = decode(ShareAcknowledgeRequest, frame).topics[0].partitions[0][1]
    return found


# -- equal to kafka-python ---------------------------------------------------------------------------------------------


@each_version
@settings(max_examples=50)
@given(data=st.data())
def test_decodes_as_kafka_python_does(message: Any, version: int, data: st.DataObject) -> None:
    frame = request_frame(data.draw(bodies(message, version)), version)
    start = read_header(frame).end + 1
    original = message.decode(frame[start:], version=version)
    assert decode(message, frame) == as_tuples(original, version) == as_tuples(by_schema(message, frame), version)


@each_version
@settings(max_examples=50)
@given(data=st.data())
def test_decoding_inverts_encoding(message: Any, version: int, data: st.DataObject) -> None:
    frame = request_frame(data.draw(bodies(message, version)), version)
    assert request_frame(as_message(message, version, decode(message, frame)), version) == frame


@settings(max_examples=100)
@given(st.lists(st.tuples(OFFSETS, OFFSETS, TYPES, TAGS), max_size=20), st.integers(0, 600))
@example([(0, 1, [1], b"\0")], 255)
@example([(0, 1, [1], b"\0")], 256)
@example([(0, 1, [1, 2], b"\0")], 256)
@example([(9, 11, [1, 2, 3], b"\0")] * 300, 1)
@example([(9, 9, [], b"\0")] * 3, 0)
@example([(9, 135, [4] * 126, b"\0"), (9, 134, [4] * 125, b"\0"), (9, 136, [4] * 127, b"\0")] * 3, 0)
@example([(9, 9, [1], b"\1\x05\1z")] * 3, 2)
def test_batches_of_any_form_between_runs_of_one_form(
    batches: list[tuple[int, int, list[int], bytes]], run: int
) -> None:
    """Before a run, after it, and between two runs."""
    usual = [(number, number, [1 + number % 3], b"\0") for number in range(run)]
    for mixed in ([*batches, *usual], [*usual, *batches], [*usual, *batches, *usual]):
        frame = acknowledging(*(batch_bytes(*batch) for batch in mixed))
        assert batches_in(frame) == [(first, last, tuple(types)) for first, last, types, _ in mixed]


@pytest.mark.parametrize(
    ("types", "tags", "expected"),
    [
        ([2], b"\1\x90\x4e\1\1", UNUSED),
        ([2], b"\2\0\3abc\x90\x4e\1\1", UNUSED),
        ([2], b"\1\x90\x4e\1\0", (2,)),
        ([2], b"\1\x91\x4e\1\1", (2,)),
        ([1], b"\1\x90\x4e\1\1", (1,)),
        ([2, 2], b"\1\x90\x4e\1\1", (2, 2)),
    ],
    ids=["unused", "after another tag", "used", "another tag", "accepted", "a type for each"],
)
def test_released_records_may_be_unused(types: list[int], tags: bytes, expected: tuple[int, ...]) -> None:
    frame = acknowledging(batch_bytes(0, 1, [1]), batch_bytes(2, 3, types, tags), batch_bytes(4, 5, [1]))
    assert [batch.acknowledge_types for batch in batches_in(frame)] == [(1,), expected, (1,)]


def test_every_acknowledge_type_is_decoded() -> None:
    types = list(range(-128, 128))
    assert batches_in(acknowledging(*(batch_bytes(0, 0, [kind]) for kind in types))) == [
        (0, 0, (kind,)) for kind in types
    ]


# -- hostile bytes -----------------------------------------------------------------------------------------------------


@each_version
@settings(max_examples=100)
@given(data=st.data())
def test_mutated_bytes_decode_as_by_the_schemas_or_are_malformed(
    message: Any, version: int, data: st.DataObject
) -> None:
    sent = request_frame(data.draw(bodies(message, version)), version)
    start, frame = read_header(sent).end, bytearray(sent)
    edits = st.tuples(st.integers(start, len(frame)), st.integers(0, 3), st.binary(max_size=3))
    for place, removed, added in data.draw(st.lists(edits, max_size=4)):
        frame[place : place + removed] = added
    try:
        expected = as_tuples(by_schema(message, frame), version)
    except MalformedRequestError:
        with pytest.raises(MalformedRequestError, match=f"malformed {message.name} of version {version}: "):
            decode(message, frame)
    else:
        assert decode(message, frame) == expected


@pytest.mark.parametrize("length", [2**31 - 1, 2**31, 2**35 - 1, 50_001, 2])
@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"\2" + TOPIC,
        b"\2" + TOPIC + b"\2\0\0\0\3",
        b"\2" + TOPIC + b"\2\0\0\0\3\2" + bytes(16),
    ],
    ids=["topics", "partitions", "batches", "types"],
)
def test_array_longer_than_its_frame_allocates_nothing(before: bytes, length: int) -> None:
    frame = BEGIN + before + varint(length)
    with pytest.raises(MalformedRequestError):
        decode(ShareAcknowledgeRequest, frame)  # once unmeasured, because the first call fills caches
    tracemalloc.start()
    try:
        with pytest.raises(MalformedRequestError):
            decode(ShareAcknowledgeRequest, frame)
        assert tracemalloc.get_traced_memory()[1] < 20_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("before", "element"),
    [(b"", TOPIC + b"\1\0"), (b"\2" + TOPIC, b"\0\0\0\3\1\0"), (b"\2" + TOPIC + b"\2\0\0\0\3", bytes(16) + b"\1\0")],
    ids=["topics", "partitions", "batches"],
)
def test_frame_full_of_elements_is_rejected(before: bytes, element: bytes) -> None:
    count = (MAX_OWN_REQUEST_BYTES - 100) // len(element)
    assert count > MAX_ELEMENTS
    frame = BEGIN + before + varint(count + 1) + element * count + b"\0" * 10
    with pytest.raises(MalformedRequestError, match="too many elements"):
        decode(ShareAcknowledgeRequest, frame)


@pytest.mark.parametrize("before", [b"", b"\2" + TOPIC, b"\2" + TOPIC + b"\2\0\0\0\3"])
def test_null_arrays_are_rejected(before: bytes) -> None:
    with pytest.raises(MalformedRequestError, match="must not be null"):
        decode(ShareAcknowledgeRequest, BEGIN + before + b"\0" * 40)


def test_null_acknowledge_types_are_rejected() -> None:
    with pytest.raises(MalformedRequestError, match="acknowledge types must not be null"):
        decode(ShareAcknowledgeRequest, acknowledging(bytes(16) + b"\0\0", batch_bytes(1, 1, [1])))


@pytest.mark.parametrize("byte", [b"\xff", b"\x80"])
@pytest.mark.parametrize("before", [b"", b"\2" + TOPIC + b"\2\0\0\0\3\2" + bytes(16)], ids=["topics", "types"])
def test_unterminated_length_is_malformed(before: bytes, byte: bytes) -> None:
    with pytest.raises(MalformedRequestError, match="varint without an end"):
        decode(ShareAcknowledgeRequest, BEGIN + before + byte * 100_000)


@pytest.mark.parametrize("tags", [b"\1\x05\x7fabc", varint(2**31), b"\2\0\0", b"\xff" * 100])
@pytest.mark.parametrize("after", ["a batch", "the body"])
def test_malformed_tagged_fields_are_rejected(after: str, tags: bytes) -> None:
    whole = acknowledging(batch_bytes(1, 1, [1]))
    ends = {"a batch": -4, "the body": -1}  # each of the last bytes is an empty list of tagged fields
    with pytest.raises(MalformedRequestError):
        decode(ShareAcknowledgeRequest, whole[: ends[after]] + tags)
