"""Where a group starts in a topic, and how far it may read: the log's ends as the group sees them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from sharegroup.errors import ErrorCode
from sharegroup.storage.reading.state_table import read_states
from sharegroup.types import AcquiredRange, SharePartitionKey
from tests.harness.raw_member import RawMember, RequestClient
from tests.integration.waiting import PATIENCE_S, wait_until
from tests.integration.whole_log import whole_delivery_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

HOUR_MS = 3_600_000


@pytest.fixture
def client(share_group_job: ShareGroupJobRun) -> RequestClient:
    return share_group_job.client()


@pytest.fixture
def admin(kafka: EmbeddedKafka) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    yield admin
    admin.close()


@pytest.fixture
def member_of(share_group_job: ShareGroupJobRun, client: RequestClient) -> Callable[[str], RawMember]:
    """A member of a new group of that kind."""
    return lambda kind: RawMember(client, share_group_job.new_group(kind))


def produce(
    producer: KafkaProducer, topic: str, count: int, partition: int = 0, timestamp_ms: int | None = None
) -> None:
    for number in range(count):
        producer.send(topic, b"%d" % number, partition=partition, timestamp_ms=timestamp_ms)
    producer.flush()


def test_a_group_starts_at_the_end_by_default_but_at_the_beginning_of_partitions_added_later(
    kafka: EmbeddedKafka,
    member_of: Callable[[str], RawMember],
    new_topic: NewTopic,
    producer: KafkaProducer,
    admin: KafkaAdminClient,
) -> None:
    topic, member = new_topic(1, 20), member_of("latest")
    member.join({topic: 1})
    produce(producer, topic, 5)
    assert member.fetch(topic, 0, 100).acquired == (AcquiredRange(20, 24, 1),)

    admin.create_partitions({topic: 2})
    wait_until(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 2, "the broker learns of it")
    admin.wait_for_topics([topic], timeout_ms=PATIENCE_S * 1000)
    later = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)  # the other one still knows the old metadata
    produce(later, topic, 7, partition=1)
    later.close()
    member.heartbeat({topic: 2})
    while member.assignment != {topic: [0, 1]}:
        assert member.heartbeat().error_code == ErrorCode.NONE

    assert member.fetch(topic, 1, 100).acquired == (AcquiredRange(0, 6, 1),)


def test_a_group_may_start_at_the_beginning_or_some_time_ago(
    member_of: Callable[[str], RawMember], new_topic: NewTopic, producer: KafkaProducer
) -> None:
    topic = new_topic()
    now_ms = int(time.time() * 1000)
    produce(producer, topic, 10, timestamp_ms=now_ms - 2 * HOUR_MS)
    produce(producer, topic, 5, timestamp_ms=now_ms)

    acquired = {}
    for kind in ("earliest", "by_duration"):
        member = member_of(kind)
        member.join({topic: 1})
        acquired[kind] = member.fetch(topic, 0, 100).acquired

    assert acquired == {"earliest": (AcquiredRange(0, 14, 1),), "by_duration": (AcquiredRange(10, 14, 1),)}


def test_read_committed_ends_at_the_last_stable_offset(
    kafka: EmbeddedKafka, member_of: Callable[[str], RawMember], new_topic: NewTopic, unique_name: Callable[[str], str]
) -> None:
    topic, careful, careless = new_topic(1, 3), member_of("read_committed"), member_of("earliest")
    in_transaction = KafkaProducer(
        bootstrap_servers=kafka.bootstrap_servers, transactional_id=unique_name("tx"), transaction_timeout_ms=600_000
    )
    in_transaction.init_transactions()
    in_transaction.begin_transaction()
    produce(in_transaction, topic, 4)
    for member in (careful, careless):
        member.join({topic: 1})

    assert careful.fetch(topic, 0, 100).acquired == (AcquiredRange(0, 2, 1),)
    assert careless.fetch(topic, 0, 100).acquired == (AcquiredRange(0, 6, 1),)
    assert careful.fetch(topic, 0, 100, max_wait_ms=1_000).acquired == ()

    in_transaction.commit_transaction()
    in_transaction.close()
    assert careful.fetch(topic, 0, 100).acquired == (AcquiredRange(3, 7, 1),)  # 7 is the marker of the commit


def test_records_that_the_log_has_lost_leave_the_window(
    share_group_job: ShareGroupJobRun,
    member_of: Callable[[str], RawMember],
    new_topic: NewTopic,
    admin: KafkaAdminClient,
) -> None:
    topic, member = new_topic(1, 50), member_of("earliest")
    member.join({topic: 1})
    assert member.fetch(topic, 0, 10).acquired == (AcquiredRange(0, 9, 1),)

    admin.delete_records({TopicPartition(topic, 0): 20})

    def start_offset() -> int:
        states = read_states(DeltaTable(str(share_group_job.tables_path / "share_group_state")))
        return states[SharePartitionKey(member.group_id, topic, member.topic_ids[topic], 0)].header.start_offset

    wait_until(lambda: start_offset() == 20, "the start offset moves")
    assert member.fetch(topic, 0, 10).acquired == (AcquiredRange(20, 29, 1),)


def test_a_topic_made_again_under_its_name_is_another_one_and_is_read_from_its_start(
    kafka: EmbeddedKafka,
    share_group_job: ShareGroupJobRun,
    client: RequestClient,
    member_of: Callable[[str], RawMember],
    new_topic: NewTopic,
    producer: KafkaProducer,
    admin: KafkaAdminClient,
) -> None:
    topic, member = new_topic(1, 30), member_of("earliest")
    member.join({topic: 1})
    assert member.fetch(topic, 0, 20).acquired == (AcquiredRange(0, 19, 1),)
    assert member.acknowledge(topic, 0, [(0, 9, 1)]).error_code == ErrorCode.NONE
    old = member.topic_ids[topic]

    admin.delete_topics([topic])
    wait_until(lambda: topic not in kafka.topics(), "the topic is deleted")
    kafka.create_topic(topic)
    produce(producer, topic, 50)

    def code_of_old() -> int:
        return member.fetch(topic, 0, 10, max_wait_ms=100).error_code

    wait_until(lambda: code_of_old() == ErrorCode.UNKNOWN_TOPIC_ID, "the old topic is known to be gone")
    assert member.acknowledge(topic, 0, [(10, 19, 1)]).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    again = RawMember(client, member.group_id)
    again.join({topic: 1})
    assert again.topic_ids[topic] != old
    assert again.fetch(topic, 0, 100).acquired == (AcquiredRange(0, 49, 1),)

    log = whole_delivery_log(share_group_job.tables_path).to_pyarrow_table().to_pylist()
    of_old = [row for row in log if row["topic_id"] == old and row["cause"] == "topic_deleted"]
    assert [(row["first_offset"], row["last_offset"]) for row in of_old] in ([(10, 19)], [(10, 29)])


def test_a_member_without_heartbeats_loses_its_records_to_the_others(
    member_of: Callable[[str], RawMember], client: RequestClient, new_topic: NewTopic
) -> None:
    topic, silent = new_topic(1, 10), member_of("short_session")
    silent.join({topic: 1})
    assert silent.fetch(topic, 0, 100).acquired == (AcquiredRange(0, 9, 1),)
    other = RawMember(client, silent.group_id)
    other.join({topic: 1})

    demand = client.send(other.fetch_request(topic, 0, 100))
    while demand not in client.responses:
        assert other.heartbeat().error_code == ErrorCode.NONE

    assert client.responses[demand].acquired == (AcquiredRange(0, 9, 2),)
    assert silent.heartbeat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_lock_that_runs_out_is_redelivered_and_its_acknowledgement_is_late(
    share_group_job: ShareGroupJobRun,
    member_of: Callable[[str], RawMember],
    client: RequestClient,
    new_topic: NewTopic,
) -> None:
    topic, slow = new_topic(1, 10), member_of("short_lock")
    slow.join({topic: 1})
    held = slow.fetch(topic, 0, 100)
    other = RawMember(client, slow.group_id)
    other.join({topic: 1})

    again = other.fetch(topic, 0, 100)

    assert again.acquired == (AcquiredRange(0, 9, 2),)
    lock_ms = share_group_job.config.group_config(slow.group_id).record_lock_duration_ms
    assert again.lock_deadline_ms >= held.lock_deadline_ms + lock_ms
    assert slow.acknowledge(topic, 0, [(0, 9, 1)]).error_code == ErrorCode.INVALID_RECORD_STATE
