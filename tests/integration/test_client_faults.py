"""The share consumer for Python when sessions, memberships, connections and topics end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka.protocol.api_message import ApiMessage

from sharegroup.client import AcknowledgeType, ShareConsumer, ShareGroupsUnsupportedError
from sharegroup.errors import ErrorCode
from sharegroup.kafka_clients.admin import ShareGroupAdmin
from sharegroup.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupHeartbeatRequest
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from tests.integration.client_groups import EXPLICIT, Group, NewGroup, Wire, keys, poll_records
from tests.integration.served import Served
from tests.params import thorough

ACCEPT = AcknowledgeType.ACCEPT


def test_acknowledgement_with_a_wrong_session_epoch_fails(new_client_group: NewGroup) -> None:
    wire = Wire()
    with new_client_group(1, 5).consumer(connector=wire, **EXPLICIT) as consumer:
        for record in poll_records(consumer, 5):
            consumer.acknowledge(record)
        wire.tamper_once(ShareAcknowledgeRequest, share_session_epoch=77)
        (result,) = consumer.commit_sync().values()
        assert result is not None
        assert result.code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        again = poll_records(consumer, 5)  # a gateway releases the locks with the session; Kafka lets them end
        assert {record.delivery_count for record in again} == {2}
        for record in again:
            consumer.acknowledge(record)
        assert list(consumer.commit_sync().values()) == [None]


@pytest.mark.thorough
def test_unknown_session_is_opened_again(new_client_group: NewGroup, served: Served) -> None:
    wire = Wire()
    group = new_client_group(1, 5)
    with group.consumer(connector=wire) as consumer:
        poll_records(consumer, 5)
        assert list(consumer.commit_sync().values()) == [None]
        wire.tamper_once(ShareFetchRequest, member_id="another-member", share_session_epoch=3)
        served.append(group.topic, 1, 5)
        assert keys(poll_records(consumer, 5)) == [(0, offset) for offset in range(5, 10)]


def test_lost_connections_end_the_sessions_and_are_reported(new_client_group: NewGroup) -> None:
    wire = Wire()
    with new_client_group(1, 5).consumer(connector=wire, **EXPLICIT) as consumer:
        for record in poll_records(consumer, 5):
            consumer.acknowledge(record)
        consumer._thread.run(_cut(wire))
        (result,) = consumer.commit_sync().values()
        assert result is not None
        assert result.code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.SHARE_SESSION_NOT_FOUND)
        again = poll_records(consumer, 5)
        assert {record.delivery_count for record in again} == {2}
        for record in again:
            consumer.acknowledge(record)
        assert list(consumer.commit_sync().values()) == [None]


async def _cut(wire: Wire) -> None:
    for connection in wire.connections:
        connection.close()


@pytest.mark.parametrize(
    "fields",
    [
        {"member_epoch": 9_999},
        *thorough({"member_id": "another-member", "member_epoch": 5}),
    ],
    ids=["fenced", "unknown"],
)
def test_fenced_member_joins_again(new_client_group: NewGroup, served: Served, fields: dict[str, object]) -> None:
    wire = Wire()
    epochs: list[int] = []
    group = new_client_group(1, 5)
    with group.consumer(connector=wire) as consumer:
        poll_records(consumer, 5)

        def tamper(request: ApiMessage) -> None:
            if isinstance(request, ShareGroupHeartbeatRequest):
                if not epochs:
                    for name, value in fields.items():
                        setattr(request, name, value)
                epochs.append(request.member_epoch)

        wire.tamper = tamper
        consumer.subscribe([group.topic, "another-topic"])  # sends a heartbeat at once
        while len(epochs) < 2:
            consumer.poll(0.2)
        assert epochs[1] == 0
        served.append(group.topic, 1, 5)
        assert keys(poll_records(consumer, 5)) == [(0, offset) for offset in range(5, 10)]


@pytest.mark.thorough
def test_deleted_topic_leaves_the_others_alone(
    new_client_group: NewGroup,
    served: Served,
    unique_name: Callable[[str], str],
) -> None:
    group = new_client_group(1, 5)
    deleted = served.new_topic(unique_name("deleted"), 1, 5)
    with group.consumer(topics=[group.topic, deleted]) as consumer:
        poll_records(consumer, 10)
        consumer.commit_sync()
        served.kafka.admin_client().delete_topics([deleted])
        served.append(group.topic, 1, 5)
        assert [record.topic for record in poll_records(consumer, 5)] == [group.topic] * 5
        assert list(consumer.commit_sync().values()) == [None]


@pytest.mark.thorough
def test_topic_may_be_made_after_the_subscription(
    new_client_group: NewGroup,
    admin: ShareGroupAdmin,
    served: Served,
    unique_name: Callable[[str], str],
) -> None:
    group = new_client_group()
    later = unique_name("later")
    with Group(served, group.id, later).consumer() as consumer:
        while not group.has_members(admin):
            consumer.poll(0.2)
        served.new_topic(later, 1, 5)
        assert len(poll_records(consumer, 5)) == 5


def test_broker_without_share_groups_is_named(kafka: EmbeddedKafka, unique_name: Callable[[str], str]) -> None:
    with (
        ShareConsumer(kafka.bootstrap_servers, group_id=unique_name("group"), topics=["orders"]) as consumer,
        pytest.raises(ShareGroupsUnsupportedError, match="share groups"),
    ):
        consumer.poll(60)
