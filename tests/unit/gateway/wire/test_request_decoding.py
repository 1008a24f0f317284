"""The request decoder: equal to kafka-python's, and safe for malformed bytes."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.admin import DescribeConfigsRequest, DescribeProducersRequest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import ProduceRequest

from sharegroup.gateway.clients.request_sizes import MAX_OWN_REQUEST_BYTES
from sharegroup.gateway.wire import request_decoding
from sharegroup.gateway.wire.request_decoding import MAX_ELEMENTS, decode_request, decode_untagged
from sharegroup.kafka_clients.connections.headers import MalformedRequestError, UnknownVersionError, read_header
from sharegroup.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest
from tests.unit.gateway.own_requests import DECODED_VERSIONS, bodies, version_params
from tests.unit.gateway.wire_bytes import decode, request_frame, varint

#: The other two have their own decoder and tests.
BY_SCHEMA = [(message, version) for message, version in DECODED_VERSIONS if message not in request_decoding._OWN]


def share_fetch(batches: int) -> Any:
    topic = ShareFetchRequest.FetchTopic
    partition = topic.FetchPartition(
        partition_index=0,
        acknowledgement_batches=[
            topic.FetchPartition.AcknowledgementBatch(first_offset=n, last_offset=n, acknowledge_types=[1])
            for n in range(batches)
        ],
    )
    return ShareFetchRequest(
        group_id="group", member_id="member", topics=[topic(partitions=[partition])], forgotten_topics_data=[]
    )


@pytest.mark.parametrize(("message", "version"), version_params(BY_SCHEMA))
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_decodes_the_same_as_kafka_python(message: Any, version: int, data: st.DataObject) -> None:
    frame = request_frame(data.draw(bodies(message, version)), version)
    header = read_header(frame)
    start = header.end + message.flexible_version_q(version)
    original = message.decode(frame[start:], version=version)
    ours = decode(message, frame)
    assert type(ours) is type(original)
    assert ours.version == version
    assert ours == original
    assert ours.to_dict(json=False) == original.to_dict(json=False)


@pytest.mark.parametrize(("message", "version"), version_params(DECODED_VERSIONS))
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_truncated_request_is_malformed(message: Any, version: int, data: st.DataObject) -> None:
    frame = request_frame(data.draw(bodies(message, version)), version)
    for end in range(read_header(frame).end, len(frame)):
        with pytest.raises(MalformedRequestError):
            decode(message, frame[:end])


@pytest.mark.parametrize(("message", "version"), version_params(DECODED_VERSIONS))
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_random_bytes_are_a_request_or_malformed(message: Any, version: int, data: st.DataObject) -> None:
    sent = request_frame(data.draw(bodies(message, version)), version)
    start, frame = read_header(sent).end, bytearray(sent)
    for place, byte in data.draw(st.lists(st.tuples(st.integers(start, len(frame)), st.integers(0, 255)), max_size=5)):
        frame[place : place + 1] = bytes([byte])
    frame += data.draw(st.binary(max_size=10))
    try:
        decode(message, frame)
    except MalformedRequestError:
        return


def test_tagged_fields_are_skipped_wherever_they_are() -> None:
    plain = DescribeConfigsRequest(
        resources=[DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name="a")]
    )
    frame = bytes(request_frame(plain, 4))
    tags = b"\2" + b"\0\3abc" + b"\x09\1z"  # two fields: tag 0 of three bytes, tag 9 of one
    name_end = frame.index(b"\2a") + 2
    after_keys = name_end + 1
    assert frame[after_keys] == 0
    assert frame[-1] == 0
    tagged = frame[:after_keys] + tags + frame[after_keys + 1 : -1] + tags
    assert decode(DescribeConfigsRequest, tagged) == decode(DescribeConfigsRequest, frame)


def test_unknown_version_is_rejected() -> None:
    with pytest.raises(UnknownVersionError, match="ShareFetchRequest version 3 is not supported; supported: 1 to 2"):
        decode(ShareFetchRequest, b"\0\x4e\0\3\0\0\0\7\xff\xff\0")
    with pytest.raises(UnknownVersionError):
        decode(ShareFetchRequest, b"\0\x4e\xff\xff\0\0\0\7\xff\xff\0")


@pytest.mark.parametrize("count", [2**31 - 1, 2**31, 2**32 - 2, 50_001, 3])
def test_array_longer_than_its_frame_is_rejected(count: int) -> None:
    header = b"\0\x03\0\x0c\0\0\0\7\xff\xff\0"
    topics = varint(count + 1)
    with pytest.raises(MalformedRequestError):
        decode(MetadataRequest, header + topics + bytes(16) + b"\0\0")
    if count < 2**31:
        with pytest.raises(MalformedRequestError):
            decode(MetadataRequest, b"\0\x03\0\1\0\0\0\7\xff\xff" + struct.pack(">i", count) + b"\0\1a")


def test_too_many_elements_are_rejected_before_they_are_created(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each element has two bytes in the frame and a hundred as an object."""
    monkeypatch.setattr(request_decoding, "MAX_ELEMENTS", 1_000)
    header = b"\0\x03\0\x09\0\0\0\7\xff\xff\0"
    topic, end = b"\2a\0", b"\0\0\0\0"
    assert len(decode(MetadataRequest, header + varint(1_001) + topic * 1_000 + end).topics) == 1_000
    with pytest.raises(MalformedRequestError, match="the limit of 1000 elements is exceeded"):
        decode(MetadataRequest, header + varint(1_002) + topic * 1_001 + end)


def test_nested_elements_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_decoding, "MAX_ELEMENTS", 1_000)
    batches = share_fetch(998)  # and a topic and a partition
    assert decode(ShareFetchRequest, request_frame(batches, 2))
    with pytest.raises(MalformedRequestError, match="elements"):
        decode(ShareFetchRequest, request_frame(share_fetch(999), 2))


def test_ten_thousand_acknowledgement_batches_fit() -> None:
    frame = request_frame(share_fetch(10_000), 2)
    assert len(frame) < MAX_OWN_REQUEST_BYTES / 4
    assert MAX_ELEMENTS >= 5 * 10_000
    assert len(decode(ShareFetchRequest, frame).topics[0].partitions[0].acknowledgement_batches) == 10_000


def test_null_of_a_non_nullable_field_is_rejected() -> None:
    frame = request_frame(FindCoordinatorRequest(key=None, key_type=0), 2)
    with pytest.raises(MalformedRequestError, match="key must not be null"):
        decode(FindCoordinatorRequest, frame)
    types = request_frame(ShareAcknowledgeRequest(group_id="g", member_id="m", topics=None), 2)
    with pytest.raises(MalformedRequestError, match="topics must not be null"):
        decode(ShareAcknowledgeRequest, types)


def test_tagged_fields_are_reported() -> None:
    """A follower's Fetch has such fields, which must not be forwarded."""
    fetch = FetchRequest(
        max_wait_ms=1, min_bytes=1, max_bytes=1, isolation_level=0, session_id=0, session_epoch=-1, topics=[],
        forgotten_topics_data=[], rack_id="",
    )  # fmt: skip
    for cluster_id in (None, "c"):
        if cluster_id is not None:
            fetch.cluster_id, fetch.tags = cluster_id, {"cluster_id"}
        view = request_frame(fetch, 12)
        body, has_tagged_fields = decode_untagged(FetchRequest, read_header(view), view)
        assert has_tagged_fields is (cluster_id is not None)
        assert body.max_wait_ms == 1
        assert body.cluster_id is None


def test_records_are_not_copied() -> None:
    topic = ProduceRequest.TopicProduceData
    partition = topic.PartitionProduceData(index=0, records=b"records")
    asked = ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic(name="t", partition_data=[partition])])
    frame = request_frame(asked, 9)
    (found,) = decode(ProduceRequest, frame).topic_data[0].partition_data
    assert found.records == b"records"
    assert found.records.obj is frame.obj


class CountedBytes(bytearray):
    """Counts the bytes that are read from it: those of slices, and one for any other access."""

    read_bytes = 0

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        self.read_bytes += len(found) if isinstance(key, slice) else 1
        return found


@pytest.mark.parametrize("tags", [b"\0", b"\1\x05\1z"], ids=["no tags", "tags everywhere"])
def test_decoding_takes_linear_time(tags: bytes) -> None:
    """kafka-python copies the rest of the frame for each struct with tagged fields."""

    def read_bytes(topics: int) -> int:
        header = b"\0\x03\0\x09\0\0\0\7\xff\xff\0"
        body = varint(topics + 1) + (b"\4abc" + tags) * topics + b"\0\0\0" + tags
        frame: Any = CountedBytes(header + body)
        assert len(decode_request(MetadataRequest, read_header(memoryview(header + body)), frame).topics) == topics
        return int(frame.read_bytes)

    few, many = read_bytes(500), read_bytes(8_000)
    assert 15 * few < many < 17 * few
    assert many < 2 * 8_000 * (4 + len(tags))


@pytest.mark.parametrize("byte", [b"\xff", b"\x80"])
def test_unterminated_length_is_malformed(byte: bytes) -> None:
    with pytest.raises(MalformedRequestError, match="varint without an end"):
        decode(MetadataRequest, b"\0\x03\0\x09\0\0\0\7\xff\xff\0" + byte * 1_000_000)


@pytest.mark.parametrize("size", [0x7FFF, 0x8000])
@pytest.mark.parametrize("message", [MetadataRequest, ShareFetchRequest, ShareAcknowledgeRequest])
def test_string_longer_than_brokers_accept_is_rejected(message: Any, size: int) -> None:
    """A broker closes a connection on which it receives a longer one, which other clients may share."""
    name = "x" * size
    fields: dict[str, Any] = {"group_id": name, "member_id": "m", "topics": [], "forgotten_topics_data": []}
    if message is MetadataRequest:
        fields = {"topics": [MetadataRequest.MetadataRequestTopic(name=name)]}
    elif message is ShareAcknowledgeRequest:
        del fields["forgotten_topics_data"]
    frame = request_frame(message(**fields), message.valid_versions[1])
    if size == 0x7FFF:
        assert decode(message, frame)
        return
    with pytest.raises(MalformedRequestError, match="32768 bytes"):
        decode(message, frame)


def test_numbers_of_an_array_are_counted_before_they_are_decoded() -> None:
    """Each number may cause an entry in the response, which is a hundred times as large."""
    topic = DescribeProducersRequest.TopicRequest
    ids = DescribeProducersRequest(topics=[topic(name="t", partition_indexes=[0] * MAX_ELEMENTS)])
    with pytest.raises(MalformedRequestError, match="elements in partition_indexes"):
        decode(DescribeProducersRequest, request_frame(ids, 0))
    forgotten = ShareFetchRequest.ForgottenTopic(topic_id=UUID(int=1), partitions=[0] * MAX_ELEMENTS)
    fetch = ShareFetchRequest(group_id="g", member_id="m", topics=[], forgotten_topics_data=[forgotten])
    with pytest.raises(MalformedRequestError, match="elements in forgotten partitions"):
        decode(ShareFetchRequest, request_frame(fetch, 2))
