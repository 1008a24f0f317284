"""Rejection of requests that would create another kind of group under the name of a share group.

The expected errors are those of Kafka 4.3.1's brokers for the same requests.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol import consumer, producer

from sharegroup.errors import ErrorCode
from sharegroup.gateway.handlers.passthrough_requests import PassthroughRequests
from sharegroup.gateway.passthrough.decision import PassthroughDecision
from sharegroup.gateway.passthrough.rules import RULES
from sharegroup.kafka_clients.connections.connection import Features
from sharegroup.kafka_clients.connections.headers import (
    MalformedRequestError,
    decode_response,
    read_header,
)
from sharegroup.protocol import messages
from sharegroup.security.authorization import Authorization
from tests.unit.gateway.known_cluster import KnownCluster
from tests.unit.gateway.passthrough_cases import ALICE, HIDDEN, alice_may
from tests.unit.gateway.wire_bytes import request_frame

ORDERS = uuid.UUID(int=1)
NOT_FOUND, TOPIC = int(ErrorCode.GROUP_ID_NOT_FOUND), int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
EVERYBODY = Authorization(None, (HIDDEN,))


class Cluster(KnownCluster):
    """A cluster whose brokers offer every API that has a rule."""

    async def features(self, node_id: int) -> Features:
        offered: Any = SimpleNamespace()
        return Features({key: rule.versions or (0, 0) for key, rule in RULES.items()}, offered)


class ShareGroups:
    """A cluster with one share group, `share`. The brokers have no group of this name."""

    async def is_only_share_group(self, node_id: int, group_id: str) -> bool:
        assert node_id == ALICE.node_id
        return group_id == "share"


def admit(request: Any, version: int, security: Authorization = EVERYBODY) -> tuple[PassthroughDecision, Any]:
    """Return what is forwarded of a request, and the gateway's own response if there is one."""
    frame = request_frame(request, version)
    groups: Any = ShareGroups()

    async def admitted() -> PassthroughDecision:
        passing = PassthroughRequests(Cluster(orders=(ORDERS, 1)), {"bootstrap_servers": []}, security, groups)
        return await passing.admit(ALICE, read_header(frame), frame)

    passage = asyncio.run(admitted())
    if passage.response is None:
        assert passage.frame == frame
        return passage, None
    response: Any = RULES[request.API_KEY].response
    return passage, decode_response(response, version, memoryview(bytes(passage.response))[4:])


def join(group_id: str) -> Any:
    protocol = consumer.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    return consumer.JoinGroupRequest(
        group_id=group_id, session_timeout_ms=1, rebalance_timeout_ms=1, member_id="", group_instance_id=None,
        protocol_type="consumer", protocols=[protocol], reason=None,
    )  # fmt: skip


def consumer_heartbeat(group_id: str, epoch: int = 0) -> Any:
    return messages.ConsumerGroupHeartbeatRequest(
        group_id=group_id, member_id="m", member_epoch=epoch, instance_id=None, rack_id=None, rebalance_timeout_ms=1,
        subscribed_topic_names=["orders"], subscribed_topic_regex=None, server_assignor=None, topic_partitions=[],
    )  # fmt: skip


def streams_heartbeat(group_id: str, epoch: int = 0) -> Any:
    return messages.StreamsGroupHeartbeatRequest(
        group_id=group_id, member_id="m", member_epoch=epoch, endpoint_information_epoch=0, instance_id=None,
        rack_id=None, rebalance_timeout_ms=1, topology=None, active_tasks=[], standby_tasks=[], warmup_tasks=[],
        process_id="p", user_endpoint=None, client_tags=[], task_offsets=None, task_end_offsets=None,
        shutdown_application=False,
    )  # fmt: skip


def topics_of(request: type[Any], *names: str) -> list[Any]:
    topic = getattr(request, f"{request.__name__}Topic")
    partition = getattr(topic, f"{request.__name__}Partition")
    offset = {"committed_offset": 3, "committed_leader_epoch": -1, "committed_metadata": ""}
    return [topic(name=name, partitions=[partition(partition_index=2, **offset)]) for name in names]


def commit(group_id: str, *names: str, generation: int = -1) -> Any:
    return consumer.OffsetCommitRequest(
        group_id=group_id, generation_id_or_member_epoch=generation, member_id="", group_instance_id=None,
        retention_time_ms=-1, topics=topics_of(consumer.OffsetCommitRequest, *names),
    )  # fmt: skip


def commit_in_transaction(group_id: str, *names: str, generation: int = -1) -> Any:
    return producer.TxnOffsetCommitRequest(
        transactional_id="tx", group_id=group_id, producer_id=1, producer_epoch=0, generation_id=generation,
        member_id="", group_instance_id=None, topics=topics_of(producer.TxnOffsetCommitRequest, *names),
    )  # fmt: skip


def codes(response: Any) -> dict[str, list[int]]:
    return {topic.name: [each.error_code for each in topic.partitions] for topic in response.topics}


@pytest.mark.parametrize("version", range(10))
def test_a_classic_member_cannot_join_a_share_group(version: int) -> None:
    passage, found = admit(join("share"), version)
    assert passage.frame is None
    assert found.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (found.member_id, found.generation_id, found.leader, found.members) == ("", -1, "", [])
    assert admit(join("classic"), version)[1] is None


@pytest.mark.parametrize("version", [0, 1])
def test_a_consumer_member_cannot_join_a_share_group(version: int) -> None:
    _, found = admit(consumer_heartbeat("share"), version)
    assert (found.error_code, found.error_message) == (NOT_FOUND, "Group share is not a consumer group.")
    assert admit(consumer_heartbeat("new"), version)[1] is None


def test_a_streams_member_cannot_join_a_share_group() -> None:
    _, found = admit(streams_heartbeat("share"), 0)
    assert (found.error_code, found.error_message) == (NOT_FOUND, "Group share is not a streams group.")
    assert admit(streams_heartbeat("new"), 0)[1] is None


@pytest.mark.parametrize("version", range(2, 10))
def test_offsets_are_not_committed_for_a_share_group(version: int) -> None:
    _, found = admit(commit("share", "orders", "bills"), version)
    assert codes(found) == {"orders": [NOT_FOUND], "bills": [NOT_FOUND]}
    assert admit(commit("new", "orders"), version)[1] is None


@pytest.mark.parametrize("version", range(6))
def test_a_transaction_commits_no_offsets_for_a_share_group(version: int) -> None:
    _, found = admit(commit_in_transaction("share", "orders"), version)
    assert codes(found) == {"orders": [NOT_FOUND]}
    assert admit(commit_in_transaction("new", "orders"), version)[1] is None


@pytest.mark.parametrize(
    ("request_of_member", "versions"),
    [
        (consumer_heartbeat("share", 3), (0, 1)),
        (consumer_heartbeat("share", -1), (0, 1)),
        (streams_heartbeat("share", 3), (0,)),
        (commit("share", "orders", generation=0), range(2, 10)),
        (commit_in_transaction("share", "orders", generation=0), range(3, 6)),
    ],
)
def test_requests_of_joined_members_are_forwarded(request_of_member: Any, versions: Iterable[int]) -> None:
    for version in versions:
        assert admit(request_of_member, version)[1] is None


def test_access_control_is_applied_before_the_group_type() -> None:
    rights = alice_may("Read group *", "Read topic orders")
    _, found = admit(commit("share", "orders", "secret"), 8, rights)
    assert codes(found) == {"orders": [NOT_FOUND], "secret": [TOPIC]}
    _, found = admit(join("share"), 5, alice_may("Read topic orders"))
    assert found.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_request_with_truncated_group_id_is_malformed() -> None:
    frame = request_frame(join("share"), 5)
    header = read_header(frame)
    groups: Any = ShareGroups()

    async def admitted() -> None:
        await PassthroughRequests(Cluster(), {}, EVERYBODY, groups).admit(ALICE, header, frame[: header.end + 4])

    with pytest.raises(MalformedRequestError, match="malformed JoinGroupRequest of version 5"):
        asyncio.run(admitted())
