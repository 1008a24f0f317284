"""What only a live client shows: a config and a join at once, a topic made again, hostile neighbours, bad names."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import AcknowledgeType
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka.protocol.admin import DeleteGroupsRequest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from sharegroup.kafka_clients.connections import headers as wire
from sharegroup.protocol.messages import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.integration.fuzzed_frames import mutated, send_all
from tests.integration.lone_gateway import port_of
from tests.integration.share_members import Group, Member, Record, keys, once, poll_in_turns
from tests.integration.waiting import wait_until
from tests.processes.served_clients import Client

if TYPE_CHECKING:
    from kafka import KafkaProducer

    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from sharegroup.testing.gateway_process import GatewayProcess
    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

GROUPS_OF_A_ROUND = 10
RECORDS = 50


# -- a config, and a join at once --------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("rounds", [2, pytest.param(5, marks=pytest.mark.long)])
def test_a_group_that_is_told_to_start_at_the_earliest_and_joined_at_once_does_so(
    gateway: GatewayProcess, new_topic: NewTopic, unique_name: Callable[[str], str], rounds: int
) -> None:
    """Rounds of ten new groups, whose members join as soon as the config has been answered."""
    topic, admin = new_topic(1, 10), AdminClient({"bootstrap.servers": gateway.bootstrap_servers})
    earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)

    def set_and_join(name: str, member: Member) -> None:
        group = ConfigResource(ResourceType.GROUP, name, incremental_configs=[earliest])
        (answered,) = admin.incremental_alter_configs([group]).values()
        answered.result(60)
        member.join()

    def round_of_groups() -> None:
        with contextlib.ExitStack() as stack:
            members = []
            for name in [unique_name("group") for _ in range(GROUPS_OF_A_ROUND)]:
                member = Member(gateway.bootstrap_servers, name, topic, joins_later=True)
                members.append(stack.enter_context(member))
                set_and_join(name, member)
            poll_in_turns(members, lambda: all(member.deliveries.keys() == keys(1, 10) for member in members))
            assert all(once(member) for member in members)

    for _ in range(rounds):
        round_of_groups()


# -- a topic made again ------------------------------------------------------------------------------------------------


def test_a_topic_made_again_under_a_member_is_read_from_its_start(
    kafka: EmbeddedKafka,
    gateway: GatewayProcess,
    share_group_job: ShareGroupJobRun,
    producer: KafkaProducer,
    new_topic: NewTopic,
) -> None:
    """The new log gets longer than the old one's start offset, and shorter than its end."""
    group = Group(share_group_job, gateway.bootstrap_servers, new_topic(1, 40), "quick_heartbeats")
    received: list[bytes] = []
    with group.member() as member:
        member.poll_until(lambda: member.accepted == keys(1, 40))
        kafka.admin_client().delete_topics([group.topic])
        wait_until(lambda: group.topic not in kafka.topics(), "the topic is gone")
        kafka.create_topic(group.topic)
        wanted = [b"again %d" % number for number in range(20)]
        for value in wanted:
            producer.send(group.topic, value, partition=0)
        producer.flush()
        member.poll_until(lambda: set(wanted) <= set(received), lambda record: received.append(record.value))
        assert sorted(received) == sorted(wanted)
        producer.send(group.topic, b"last", partition=0)
        producer.flush()
        member.poll_until(lambda: received[-1] == b"last", lambda record: received.append(record.value))


# -- hostile neighbours ------------------------------------------------------------------------------------------------

ATTACKERS, FRAMES_OF_AN_ATTACKER = 20, 100
#: Their clients join the group, and acknowledge what another member holds.
ATTACKERS_IDS = [str(uuid.UUID(int=number)) for number in range(1, 6)]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.thorough
def test_what_a_member_holds_is_safe_from_its_neighbours(
    gateway: GatewayProcess, share_group_job: ShareGroupJobRun, new_topic: NewTopic, seed: int
) -> None:
    """Valid requests and broken ones for its group and topic, in others' names: its records stay its own."""
    group = Group(share_group_job, gateway.bootstrap_servers, new_topic(1, RECORDS))
    held: list[Record] = []
    with group.member(share_acknowledgement_mode="explicit") as member:
        member.poll_until(lambda: len(held) == RECORDS, held.append)
        attack(port_of(gateway), group, seed)
        for record in held:
            member.acknowledge(record, AcknowledgeType.ACCEPT)
        assert set(member.consumer.commit_sync().values()) == {None}
        assert member.accepted == keys(1, RECORDS)
        assert once(member)
    found = group.await_finished()
    assert (found.outcomes, found.deliveries) == ({"accepted": RECORDS}, {1: RECORDS})
    assert (found.redelivered, found.lock_timeouts) == (0, 0)


def attack(port: int, group: Group, seed: int) -> None:
    choice = random.Random(seed)

    async def all_at_once() -> None:
        client = await Client(port, []).connect()
        asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=group.topic)])
        topic_id = (await client.ask(asked, MetadataResponse, 12)).topics[0].topic_id
        await client.close_all()
        await asyncio.gather(*(send_all(port, hostile_frames(choice, group, topic_id)) for _ in range(ATTACKERS)))

    asyncio.run(all_at_once())


def hostile_frames(choice: random.Random, group: Group, topic_id: uuid.UUID) -> list[bytes]:
    """Of one connection: it opens a share session, so that some of what follows is in order."""
    member_id = choice.choice(ATTACKERS_IDS)
    frames = [
        _encoded(_heartbeat(choice, group, member_id, 0)),
        _encoded(_fetch(choice, group, member_id, topic_id, 0)),
    ]
    makers = (_heartbeat, _fetch, _acknowledge, _acknowledge, _acknowledge, _administration)
    for epoch in range(1, FRAMES_OF_AN_ATTACKER):
        session_epoch = epoch if choice.random() < 0.5 else choice.choice([-1, 0, 1, 2, 2**31 - 1])
        maker = choice.choice(makers)
        if maker in (_fetch, _acknowledge):
            request = maker(choice, group, member_id, topic_id, session_epoch)
        else:
            request = maker(choice, group, member_id, choice.choice([-1, 0, 1]))
        frame = _encoded(request)
        frames.append(mutated(frame[4:], choice) if choice.random() < 0.3 else frame)
    return frames


def _encoded(request: Any) -> bytes:
    low, high = request.valid_versions
    return bytes(wire.encode_request(request, min(high, max(low, 2)), 7, "hostile"))


def _heartbeat(choice: random.Random, group: Group, member_id: str, epoch: int) -> Any:
    names = choice.choice([None, [], [group.topic], [group.topic, "elsewhere"]])
    return ShareGroupHeartbeatRequest(
        group_id=group.id, member_id=member_id, member_epoch=epoch, rack_id=None, subscribed_topic_names=names
    )


def _administration(choice: random.Random, group: Group, member_id: str, _epoch: int) -> Any:
    """What an administrator may not do to a group that has members."""
    alter = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
    delete = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
    moved = alter(
        topic_name=group.topic,
        partitions=[alter.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=RECORDS)],
    )
    return choice.choice(
        [
            AlterShareGroupOffsetsRequest(group_id=group.id, topics=[moved]),
            DeleteShareGroupOffsetsRequest(group_id=group.id, topics=[delete(topic_name=group.topic)]),
            DeleteGroupsRequest(groups_names=[group.id]),
        ]
    )


def _fetch(choice: random.Random, group: Group, member_id: str, topic_id: uuid.UUID, session_epoch: int) -> Any:
    named = ShareFetchRequest.FetchTopic
    partition = named.FetchPartition
    entry = partition(partition_index=0, acknowledgement_batches=_batches(choice, partition.AcknowledgementBatch))
    return ShareFetchRequest(
        group_id=group.id,
        member_id=member_id,
        share_session_epoch=session_epoch,
        max_wait_ms=choice.choice([0, 50]),
        min_bytes=choice.choice([0, 1]),
        max_bytes=1_000_000,
        max_records=choice.choice([0, 1, 500]),
        batch_size=500,
        share_acquire_mode=choice.choice([0, 1]),
        is_renew_ack=choice.random() < 0.2,
        topics=[named(topic_id=topic_id, partitions=[entry])],
        forgotten_topics_data=[],
    )


def _acknowledge(choice: random.Random, group: Group, member_id: str, topic_id: uuid.UUID, session_epoch: int) -> Any:
    named = ShareAcknowledgeRequest.AcknowledgeTopic
    partition = named.AcknowledgePartition
    entry = partition(partition_index=0, acknowledgement_batches=_batches(choice, partition.AcknowledgementBatch))
    return ShareAcknowledgeRequest(
        group_id=group.id,
        member_id=member_id,
        share_session_epoch=session_epoch,
        is_renew_ack=choice.random() < 0.2,
        topics=[named(topic_id=topic_id, partitions=[entry])],
    )


def _batches(choice: random.Random, batch: Any) -> list[Any]:
    found = []
    for _ in range(choice.randrange(3)):
        first = choice.randrange(-1, RECORDS)
        last = choice.randrange(first, RECORDS + 10)
        kinds = (
            [choice.randrange(5)] if choice.random() < 0.7 else [choice.randrange(5) for _ in range(last - first + 1)]
        )
        found.append(batch(first_offset=first, last_offset=last, acknowledge_types=kinds))
    return found


# -- a name that no topic can have -------------------------------------------------------------------------------------

INVALID_TOPIC_EXCEPTION, INVALID_REQUEST = 17, 42


@pytest.mark.parametrize("name", ["no/such topic", "", ".", "..", "x" * 250])
def test_a_topic_name_that_no_topic_can_have_is_refused(
    gateway: GatewayProcess, unique_name: Callable[[str], str], name: str
) -> None:
    asked = ShareGroupHeartbeatRequest(
        group_id=unique_name("group"),
        member_id=str(uuid.uuid4()),
        member_epoch=0,
        rack_id=None,
        subscribed_topic_names=["orders", name],
    )

    async def ask() -> Any:
        client = await Client(port_of(gateway), []).connect()
        try:
            return await client.ask(asked, ShareGroupHeartbeatResponse, 1)
        finally:
            await client.close_all()

    answer = asyncio.run(ask())
    assert answer.error_code in (INVALID_TOPIC_EXCEPTION, INVALID_REQUEST)
    assert answer.assignment is None
