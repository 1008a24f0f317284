"""Metadata split into topics and joined again: byte for byte what kafka-python encodes."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.metadata import MetadataResponse

from sharegroup.gateway.wire.metadata_bytes import JoinedMetadata, MetadataBytes, encode_topics
from sharegroup.kafka_clients.connections.headers import MalformedRequestError, decode_response, encode_response

VERSIONS = range(14)
_Topic = MetadataResponse.MetadataResponseTopic
_Partition = _Topic.MetadataResponsePartition


def partition(index: int, replicas: int = 3, offline: int = 0) -> Any:
    return _Partition(
        error_code=0,
        partition_index=index,
        leader_id=index % 3,
        leader_epoch=index,
        replica_nodes=list(range(replicas)),
        isr_nodes=list(range(replicas)),
        offline_replicas=list(range(offline)),
    )


def topic(name: str, partitions: int = 1, error_code: int = 0) -> Any:
    topic_id = uuid.uuid5(uuid.NAMESPACE_DNS, name)
    return _Topic(
        error_code=error_code,
        name=name,
        topic_id=topic_id,
        is_internal=name.startswith("__"),
        partitions=[partition(index) for index in range(partitions)],
    )


def response(topics: list[Any], brokers: int = 2) -> MetadataResponse:
    broker = MetadataResponse.MetadataResponseBroker
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[broker(node_id=n, host=f"b{n}", port=9092, rack=None if n else "r") for n in range(brokers)],
        cluster_id="c",
        controller_id=1,
        topics=topics,
    )


def received(sent: MetadataResponse, version: int) -> MetadataBytes:
    return decode_response(MetadataBytes, version, memoryview(encode_response(sent, version, 7))[4:])


TOPICS = st.lists(
    st.builds(
        topic, st.text("abcé_.", min_size=1, max_size=40), st.sampled_from([0, 1, 3, 150]), st.sampled_from([0, 3, 5])
    ),
    max_size=8,
    unique_by=lambda found: found.name,
)


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=8)
@given(TOPICS, st.integers(0, 3))
def test_split_and_joined_response_is_the_same(version: int, topics: list[Any], brokers: int) -> None:
    whole = response(topics, brokers)
    cut = received(whole, version)
    assert [piece.name for piece in cut.topics.values()] == [found.name for found in topics]
    assert [piece.error_code for piece in cut.topics.values()] == [found.error_code for found in topics]
    joined = JoinedMetadata(response([], brokers), version, [piece.data for piece in cut.topics.values()])
    assert joined.encode(7) == encode_response(whole, version, 7)


@pytest.mark.parametrize("version", VERSIONS)
def test_single_topics_are_joined_with_other_brokers(version: int) -> None:
    topics = [topic(f"t{number}", number % 10) for number in range(300)]
    cut = received(response(topics), version)
    chosen = [topics[200], topics[3]]
    made = encode_topics([topic("made")], version)
    joined = JoinedMetadata(
        response([], brokers=1), version, [*(cut.topics[found.name].data for found in chosen), made[0].data]
    )
    joined.throttle(5)
    wanted = response([*chosen, topic("made")], brokers=1)
    wanted.throttle_time_ms = 5
    assert joined.encode(9) == encode_response(wanted, version, 9)


@pytest.mark.parametrize("version", range(10, 14))
def test_topics_are_found_by_id(version: int) -> None:
    cut = received(response([topic("a"), topic("b")]), version)
    assert cut.by_id[uuid.uuid5(uuid.NAMESPACE_DNS, "b")].name == "b"


def test_a_topic_without_an_id_has_none() -> None:
    nameless = _Topic(error_code=0, name="a", topic_id=uuid.UUID(int=0), partitions=[])
    cut = received(response([nameless]), 12)
    assert (cut.topics["a"].topic_id, dict(cut.by_id)) == (None, {})


def test_response_without_topics_is_decoded() -> None:
    found = received(response([topic("a", 100)], brokers=3), 13).without_topics
    assert [(broker.node_id, broker.host, broker.rack) for broker in found.brokers] == [
        (0, "b0", "r"),
        (1, "b1", None),
        (2, "b2", None),
    ]
    assert (found.cluster_id, found.controller_id, list(found.topics)) == ("c", 1, [])


@pytest.mark.parametrize("version", VERSIONS)
def test_truncated_response_is_malformed(version: int) -> None:
    body = received(response([topic("a", 3), topic("b", 3)]), version).body
    for end in range(len(body) - 60, len(body)):
        with pytest.raises(MalformedRequestError):
            _ = MetadataBytes(version, body[:end]).topics


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_with_hundreds_of_replicas(version: int) -> None:
    """Their number takes two bytes."""
    many = topic("a", 1)
    many.partitions.append(partition(1, replicas=300, offline=200))
    whole = response([many, topic("b")])
    cut = received(whole, version)
    joined = JoinedMetadata(response([]), version, [piece.data for piece in cut.topics.values()])
    assert joined.encode(7) == encode_response(whole, version, 7)
