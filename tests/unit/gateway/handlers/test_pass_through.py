"""Forwarded requests: which are decoded, which are rejected, and the audit log of rejections."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.producer import ProduceRequest

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.handlers.passthrough_requests import PassthroughRequests
from sharegroup.gateway.passthrough.decision import MAX_READ_BYTES, PassthroughDecision
from sharegroup.kafka_clients.connections.connection import Features
from sharegroup.kafka_clients.connections.headers import (
    MalformedRequestError,
    UnknownVersionError,
    read_header,
)
from sharegroup.security.authorization import Authorization
from tests.unit.gateway.known_cluster import KnownCluster
from tests.unit.gateway.passthrough_cases import ALICE, HIDDEN, alice_may
from tests.unit.gateway.scripted_upstream import NoOtherGroups
from tests.unit.gateway.wire_bytes import decode, request_frame

UPDATE_METADATA = 6
ORDERS = uuid.UUID(int=1)
ANYTHING = memoryview(UPDATE_METADATA.to_bytes(2, "big") + b"\0\0\0\0\0\7\xff\xffanything")


class Cluster(KnownCluster):
    """A cluster whose broker offers Produce, Fetch and an API between brokers."""

    async def features(self, node_id: int) -> Features:
        offered: Any = SimpleNamespace()
        return Features({0: (0, 13), 1: (0, 18), UPDATE_METADATA: (0, 8)}, offered)


def produce(version: int, *names: str) -> memoryview:
    topic = ProduceRequest.TopicProduceData
    data = topic.PartitionProduceData(index=0, records=b"r")
    topics = [topic(name=name, partition_data=[data]) for name in names]
    asked = ProduceRequest(transactional_id=None, acks=1, timeout_ms=1, topic_data=topics)
    return request_frame(asked, version)


def fetch(topic_id: uuid.UUID) -> memoryview:
    topic = FetchRequest.FetchTopic
    partition = topic.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    asked = FetchRequest(
        max_wait_ms=1, min_bytes=1, max_bytes=1, isolation_level=0, session_id=0, session_epoch=-1,
        topics=[topic(topic_id=topic_id, partitions=[partition])], forgotten_topics_data=[], rack_id="",
    )  # fmt: skip
    return request_frame(asked, 15)


def admit(security: Authorization, frame: memoryview, cluster: KnownCluster | None = None) -> PassthroughDecision:
    async def admitted() -> PassthroughDecision:
        groups: Any = NoOtherGroups()
        passing = PassthroughRequests(cluster or Cluster(), {"bootstrap_servers": []}, security, groups)
        return await passing.admit(ALICE, read_header(frame), frame)

    return asyncio.run(admitted())


@pytest.mark.parametrize("hidden", [(), (HIDDEN,)])
def test_without_acl_requests_for_other_topics_are_forwarded_unchanged(hidden: tuple[str, ...]) -> None:
    security = Authorization(None, hidden)
    frame = produce(9, "orders")
    assert admit(security, frame) == PassthroughDecision(frame)


def test_without_acl_and_hidden_topics_requests_are_not_decoded() -> None:
    frame = memoryview(bytes(produce(9, "orders"))[:-5])
    assert admit(Authorization(None), frame).frame is frame
    with pytest.raises(MalformedRequestError):
        admit(Authorization(None, (HIDDEN,)), frame)


def test_size_of_a_decoded_request_is_limited_except_records() -> None:
    security = alice_may("All topic *")
    long_name = produce(9, "orders").tobytes() + bytes(MAX_READ_BYTES)
    assert admit(security, memoryview(long_name)).frame is not None
    with pytest.raises(MalformedRequestError, match="Fetch request has"):
        admit(security, memoryview(fetch(ORDERS).tobytes() + bytes(MAX_READ_BYTES)))


def test_request_without_a_rule_is_rejected() -> None:
    """Requests between brokers are not for clients, with or without an access control list."""
    for security in (Authorization(None), alice_may("All cluster", "All topic *")):
        with pytest.raises(RequestError, match="User:alice sent request 6") as refused:
            admit(security, ANYTHING)
        assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", [2, 10])
def test_versions_that_are_not_offered_are_rejected(version: int) -> None:
    frame = memoryview(b"\0\0" + version.to_bytes(2, "big") + b"\0\0\0\7\xff\xff")
    for security in (Authorization(None, (HIDDEN,)), alice_may("All topic *")):
        with pytest.raises(UnknownVersionError):
            admit(security, frame)


def test_rejection_is_audited_with_principal_address_and_resource(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        passage = admit(alice_may("Write topic orders"), produce(9, "orders", "secret", "secret"))
    assert passage.frame is not None
    sent = decode(ProduceRequest, passage.frame)
    assert [topic.name for topic in sent.topic_data] == ["orders"]
    assert caplog.messages == [
        "access outcome=refused principal=User:alice address=10.0.0.1 api=Produce operation=WRITE resource=topic:secret"
    ]


def test_unknown_topic_id_refreshes_the_topics_once(caplog: pytest.LogCaptureFixture) -> None:
    """The topic was just created, and the gateway learns of it now."""
    cluster = Cluster()
    cluster.there["orders"] = (ORDERS, 1)
    security = alice_may("Read topic orders")
    with caplog.at_level("INFO"):
        assert admit(security, fetch(ORDERS), cluster).frame is not None
    assert cluster.asked == [None]
    assert "denied" not in caplog.text
    unknown = admit(security, fetch(uuid.UUID(int=9)), cluster)
    assert unknown.frame is None
    assert unknown.response is not None
    assert cluster.asked == [None, None]


def test_topic_id_that_stays_unknown_is_an_unknown_topic_id() -> None:
    cluster = Cluster()
    cluster.is_away = True
    assert admit(alice_may("Read topic *"), fetch(ORDERS), cluster).frame is None
