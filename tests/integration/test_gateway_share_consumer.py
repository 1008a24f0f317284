"""confluent-kafka's ShareConsumer through the gateway, on a broker that has no share groups."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import psutil
import pytest
from confluent_kafka import AcknowledgeType, Producer

from sharegroup.errors import ErrorCode
from tests.integration.share_members import Group, Member, Record, delivered, keys, once, poll_in_turns

if TYPE_CHECKING:
    from kafka import KafkaProducer

    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from sharegroup.testing.gateway_process import GatewayProcess
    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

NewGroup = Callable[..., Group]

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
EXPLICIT = {"share_acknowledgement_mode": "explicit"}
#: Delivery attempts before a record is archived: Kafka's default.
LIMIT = 5


@pytest.fixture
def new_group(gateway: GatewayProcess, share_group_job: ShareGroupJobRun) -> NewGroup:
    """`new_group(topic, kind)`"""
    return lambda topic, kind="earliest": Group(share_group_job, gateway.bootstrap_servers, topic, kind)


def produce_batches(producer: KafkaProducer, topic: str, batches: int) -> None:
    """Batches of ten records, because a batch goes to one member as a whole."""
    for _ in range(batches):
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0)
        producer.flush()


def test_implicit_acknowledgement(new_topic: NewTopic, new_group: NewGroup) -> None:
    group = new_group(new_topic(4, 300))
    with group.member() as member:
        member.poll_until(lambda: member.accepted == keys(4, 300))
        assert once(member)
        assert {value for (_, offset), value in member.values.items() if offset == 299} == {b"record 299"}
    assert group.await_finished().outcomes == {"accepted": 1_200}


def test_a_gateway_loads_no_pandas(gateway: GatewayProcess, new_topic: NewTopic, new_group: NewGroup) -> None:
    group = new_group(new_topic(1, 10))  # so that it has read tables, and records
    with group.member() as member:
        member.poll_until(lambda: member.accepted == keys(1, 10))
    libraries = [mapped.path for mapped in psutil.Process(gateway.pid).memory_maps()]
    assert any("/pyarrow/" in path for path in libraries)
    assert not any("/pandas/" in path for path in libraries)


def test_explicit_acknowledgement(new_topic: NewTopic, new_group: NewGroup) -> None:
    group = new_group(new_topic(2, 100))
    kinds = {0: REJECT, 1: RELEASE}

    def handle(record: Record) -> None:
        kind = kinds.get(record.offset % 10, ACCEPT) if record.delivery_count == 1 else ACCEPT
        member.acknowledge(record, kind)

    with group.member(**EXPLICIT) as member:
        member.poll_until(lambda: len(member.answers) == 200 and len(released(member)) == 20, handle)
        assert released(member) == {key for key in keys(2, 100) if key[1] % 10 == 1}
        assert {tuple(counts) for counts in member.deliveries.values()} == {(1,), (1, 2)}
        member.consumer.commit_sync()
    found = group.await_finished()
    assert found.outcomes == {"accepted": 180, "rejected": 20}
    assert found.deliveries == {1: 180, 2: 20}


def released(member: Member) -> set[tuple[int, int]]:
    return {key for key, counts in member.deliveries.items() if len(counts) > 1}


def test_close_waits_for_the_answer_to_a_commit_before_it(new_topic: NewTopic, new_group: NewGroup) -> None:
    group = new_group(new_topic(1, 3))
    with group.member(**EXPLICIT) as member:
        member.poll_until(lambda: len(member.deliveries) == 3, member.acknowledge)
        member.consumer.commit_async()
    assert member.answers == {key: [None] for key in keys(1, 3)}
    assert group.await_finished().deliveries == {1: 3}


def test_a_record_that_nobody_can_handle_is_archived_at_the_limit(new_topic: NewTopic, new_group: NewGroup) -> None:
    group = new_group(new_topic(1, 10))
    with group.member(**EXPLICIT) as member:
        member.poll_until(
            lambda: len(member.answers.get((0, 3), ())) == LIMIT,
            lambda record: member.acknowledge(record, RELEASE if record.offset == 3 else ACCEPT),
        )
        assert member.deliveries.pop((0, 3)) == [1, 2, 3, 4, 5]
        assert once(member)
    assert group.await_finished().outcomes == {"accepted": 9, "archived at the limit": 1}


def test_a_lock_that_runs_out(new_topic: NewTopic, new_group: NewGroup) -> None:
    group = new_group(new_topic(1, 10), "short_lock")
    held: list[Record] = []
    taken: list[Record] = []
    with group.member(**EXPLICIT) as late, group.member(**EXPLICIT) as other:
        late.poll_until(lambda: len(held) == 10, held.append)
        other.poll_until(lambda: len(taken) == 10, taken.append)
        before = {record.key: record.delivery_count for record in held}
        assert all(record.delivery_count > before[record.key] for record in taken)
        for record in held:
            late.acknowledge(record)
        (answer,) = late.consumer.commit_sync().values()
        assert answer.args[0].code() == ErrorCode.INVALID_RECORD_STATE
        for record in taken:
            other.acknowledge(record)
        other.poll_until(lambda: other.accepted == keys(1, 10), other.acknowledge)
    found = group.await_finished()
    assert found.outcomes == {"accepted": 10}
    assert found.lock_timeouts >= 10


def test_members_share_a_partition(producer: KafkaProducer, new_topic: NewTopic, new_group: NewGroup) -> None:
    group = new_group(new_topic(1))
    produced = 0
    with contextlib.ExitStack() as stack:
        members = [stack.enter_context(group.member(max_poll_records=20)) for _ in range(3)]
        while not all(member.deliveries for member in members):
            produce_batches(producer, group.topic, 10)
            produced += 100
            poll_in_turns(members, lambda total=produced: sum(len(member.accepted) for member in members) == total)
        assert once(*members)
    assert group.await_finished().outcomes == {"accepted": produced}


@pytest.mark.thorough
def test_a_slow_member_holds_up_nobody(producer: KafkaProducer, new_topic: NewTopic, new_group: NewGroup) -> None:
    """It was fast, so the gateway has read ahead for it; the locks are longer than the test's patience."""
    group = new_group(new_topic(1))
    produced = 0
    with contextlib.ExitStack() as stack:
        slow, *fast = members = [stack.enter_context(group.member(max_poll_records=10)) for _ in range(4)]
        while len(slow.deliveries) < 50:
            produce_batches(producer, group.topic, 30)
            produced += 300
            poll_in_turns(members, lambda total=produced: delivered(members) == total)
        before = len(slow.deliveries)
        produce_batches(producer, group.topic, 30)
        slow.poll_until(lambda: len(slow.deliveries) > before)
        poll_in_turns(fast, lambda: delivered(members) == produced + 300)
        assert len(slow.deliveries) <= before + 20
        assert once(*members)


def test_a_member_that_closes_leaves_the_rest_to_others(
    producer: KafkaProducer, new_topic: NewTopic, new_group: NewGroup
) -> None:
    group = new_group(new_topic(1))
    produce_batches(producer, group.topic, 10)
    held: list[Record] = []
    with group.member(max_poll_records=10, **EXPLICIT) as first:
        first.poll_until(lambda: bool(held), held.append)
        for record in held[:5]:
            first.acknowledge(record)
        first.consumer.commit_sync()
        accepted = {record.key for record in held[:5]}
        assert first.accepted == accepted
    with group.member() as again:
        again.poll_until(lambda: again.accepted == keys(1, 100) - accepted)
        for key, counts in again.deliveries.items():  # what never reached the first member was not delivered
            assert counts == [2 if key in first.deliveries else 1], key
    assert group.await_finished().outcomes == {"accepted": 100}


def test_subscribed_before_the_topic_exists(
    kafka: EmbeddedKafka, producer: KafkaProducer, new_group: NewGroup, unique_name: Callable[[str], str]
) -> None:
    group = new_group(unique_name("later"), "quick_heartbeats")
    with group.member() as member:
        member.poll_until(lambda: group.member_count() == 1)
        kafka.create_topic(group.topic)
        produce_batches(producer, group.topic, 1)
        member.poll_until(lambda: member.accepted == keys(1, 10))
    assert group.await_finished().outcomes == {"accepted": 10}


def test_read_committed(
    gateway: GatewayProcess, new_topic: NewTopic, new_group: NewGroup, unique_name: Callable[[str], str]
) -> None:
    """The transactions go through the gateway too."""
    group = new_group(new_topic(1), "read_committed")
    writer = Producer(
        {"bootstrap.servers": gateway.bootstrap_servers, "transactional.id": unique_name("writer"), "log_level": 1}
    )
    writer.init_transactions()
    for number in range(6):
        writer.begin_transaction()
        for _ in range(10):
            writer.produce(group.topic, b"committed" if number % 2 else b"aborted", partition=0)
        writer.flush()
        if number % 2:
            writer.commit_transaction()
        else:
            writer.abort_transaction()
    with group.member() as member:
        member.poll_until(lambda: len(member.accepted) == 30)
        assert Counter(member.values.values()) == {b"committed": 30}
        assert once(member)
    assert group.await_finished().outcomes == {"accepted": 30, "gone": 36}
