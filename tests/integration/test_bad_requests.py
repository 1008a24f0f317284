"""Wrong rows in the request topics: answered where there is someone to answer, logged, and nothing else."""

from __future__ import annotations

import json
import re
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer

from sharegroup.errors import ErrorCode
from sharegroup.types import AcknowledgeType, AcquiredRange
from tests.harness.raw_member import RawMember, RequestClient
from tests.integration.whole_log import whole_delivery_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

BURST = 200_000
NONSENSE = (
    b"{not json",
    b"[1, 2]",
    b'"text"',
    b"\xff\xfe",
    b"",
    b'{"type": "fetch"}',
    b'{"id": 7}',
    b'{"id": "half a pair", "reply_to": "\\ud800"}',
    b"[" * 5000,
)


@pytest.fixture
def client(share_group_job: ShareGroupJobRun) -> RequestClient:
    return share_group_job.client()


@pytest.fixture
def member(share_group_job: ShareGroupJobRun, client: RequestClient, new_topic: NewTopic) -> RawMember:
    """A member that holds offsets 0..9 of its topic's one partition, of 100."""
    member = RawMember(client, share_group_job.new_group())
    topic = new_topic(1, 100)
    member.join({topic: 1})
    assert len(member.fetch(topic, 0, 10).acquired) == 1
    return member


def topic_of(member: RawMember) -> str:
    (topic,) = member.assignment
    return topic


def rows_of(job: ShareGroupJobRun, table: str, group_id: str) -> list[dict[str, Any]]:
    whole_delivery_log(job.tables_path)
    rows = DeltaTable(str(job.tables_path / table)).to_pyarrow_table().to_pylist()
    return [row for row in rows if row["group_id"] == group_id]


def test_rows_that_name_no_requester_are_rejected_with_their_coordinates(
    share_group_job: ShareGroupJobRun, client: RequestClient, member: RawMember
) -> None:
    before = rows_of(share_group_job, "delivery_log", member.group_id)
    topics = (share_group_job.config.job.partition_requests_topic, share_group_job.config.job.group_requests_topic)
    queries = dict(zip(("share_partition", "group_coordinator"), topics, strict=True))
    rows = [(query, *client.send_value(topic, value)) for query, topic in queries.items() for value in NONSENSE]

    for query, partition, offset in rows:
        share_group_job.await_log(
            f"query {query} rejected the request in partition {partition} at offset {offset} of its request topic: "
        )

    assert member.heartbeat().error_code == ErrorCode.NONE
    assert member.acknowledge(topic_of(member), 0, [(0, 0, AcknowledgeType.ACCEPT)]).error_code == ErrorCode.NONE
    assert len(rows_of(share_group_job, "delivery_log", member.group_id)) == len(before) + 1
    for query in queries:
        counts = re.findall(
            rf"query {query} rejected (\d+) requests in batch \d+, (\d+) since its start", share_group_job.log
        )
        assert int(counts[-1][1]) == sum(int(of_batch) for of_batch, _ in counts) >= len(NONSENSE)


def test_rows_without_a_needed_field_are_answered_and_rejected(
    share_group_job: ShareGroupJobRun, client: RequestClient, member: RawMember
) -> None:
    topic = topic_of(member)
    group_row = member.heartbeat_request(None, member.epoch)
    partition_rows = (
        member.fetch_request(topic, 0, 1),
        member.acknowledge_request(topic, 0, [(1, 1, AcknowledgeType.ACCEPT)]),
        member.unacquire_request(topic, 0, [(1, 1)]),
    )
    config = share_group_job.config.job
    cases = [(config.group_requests_topic, json.loads(group_row.encode()), ["group_id", "type"])]
    for request in partition_rows:
        row = json.loads(request.encode())
        needed = row.keys() - {"id", "reply_to", "member_epoch", "is_renew_ack", "acquired"}
        cases.append((config.partition_requests_topic, row, sorted(needed)))
    for request_topic, row, names in cases:  # not all at once: the log names only so many of a batch
        expected = []
        for name in names:
            lacking = {key: value for key, value in row.items() if key != name} | {"id": client.next_id()}
            partition, offset = client.send_value(request_topic, json.dumps(lacking).encode(), b"any key")
            line = (
                f"rejected the request in partition {partition} at offset {offset} of its request topic: "
                "INVALID_REQUEST: "
            )
            expected.append((lacking["id"], name, line))
        for request_id, name, logged in expected:
            response = client.await_response(request_id)
            assert response.error_code == ErrorCode.INVALID_REQUEST, (name, response)
            assert name in (response.error_message or ""), (name, response)
            share_group_job.await_log(logged)
    assert len(rows_of(share_group_job, "delivery_log", member.group_id)) == 1


def test_rows_of_an_aborted_transaction_do_not_count(
    kafka: EmbeddedKafka, share_group_job: ShareGroupJobRun, member: RawMember, unique_name: Callable[[str], str]
) -> None:
    topic = topic_of(member)
    accepts = member.acknowledge_request(topic, 0, [(0, 0, AcknowledgeType.ACCEPT)])
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id=unique_name("tx"))
    producer.init_transactions()
    producer.begin_transaction()
    requests_topic = share_group_job.config.job.partition_requests_topic
    producer.send(requests_topic, key=accepts.kafka_key, value=accepts.encode()).get(timeout=30)
    producer.abort_transaction()
    producer.close()

    assert member.acknowledge(topic, 0, [(0, 0, AcknowledgeType.RELEASE)]).error_code == ErrorCode.NONE
    assert member.fetch(topic, 0, 1).acquired == (AcquiredRange(0, 0, 2),)


def test_requests_that_name_what_is_not_there_get_kafkas_errors(client: RequestClient, member: RawMember) -> None:
    """All of them wait at the same time: an unknown share-partition may still be about to be loaded."""
    topic = topic_of(member)
    stranger = RawMember(client, member.group_id)
    elsewhere = RawMember(client, f"no-such-group-{uuid.uuid4().hex}")
    accept = [(0, 0, AcknowledgeType.ACCEPT)]
    stranger.epoch = elsewhere.epoch = 1
    requests = {
        "unknown topic": (member.fetch_request("no-such-topic", 0, 1, 0), ErrorCode.UNKNOWN_TOPIC_ID),
        "unknown partition": (member.acknowledge_request(topic, 7, accept), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        "unknown group": (elsewhere.acknowledge_request(topic, 0, accept), ErrorCode.UNKNOWN_TOPIC_ID),
        "heartbeat to an unknown group": (elsewhere.heartbeat_request(None, 1), ErrorCode.GROUP_ID_NOT_FOUND),
        "heartbeat of an unknown member": (stranger.heartbeat_request(None, 1), ErrorCode.UNKNOWN_MEMBER_ID),
        "heartbeat of another epoch": (member.heartbeat_request(None, 99), ErrorCode.FENCED_MEMBER_EPOCH),
        "acknowledging another's records": (
            stranger.acknowledge_request(topic, 0, accept),
            ErrorCode.INVALID_RECORD_STATE,
        ),
        "acknowledging what was never fetched": (
            member.acknowledge_request(topic, 0, [(50, 59, AcknowledgeType.ACCEPT)]),
            ErrorCode.INVALID_REQUEST,
        ),
        "acknowledging more than was fetched": (
            member.acknowledge_request(topic, 0, [(5, 14, AcknowledgeType.ACCEPT)]),
            ErrorCode.INVALID_REQUEST,
        ),
        "ranges that overlap": (
            member.acknowledge_request(topic, 0, [(0, 5, AcknowledgeType.ACCEPT), (3, 6, AcknowledgeType.RELEASE)]),
            ErrorCode.INVALID_REQUEST,
        ),
        "an acknowledge type that Kafka has not": (
            member.acknowledge_request(topic, 0, [(0, 0, 9)]),
            ErrorCode.INVALID_REQUEST,
        ),
    }
    client.send_all(request for request, _ in requests.values())

    answered = {name: client.await_response(request.id).error_code for name, (request, _) in requests.items()}

    assert answered == {name: int(code) for name, (_, code) in requests.items()}


def test_no_refused_request_changed_anything_and_an_old_session_is_refused(
    share_group_job: ShareGroupJobRun, client: RequestClient, member: RawMember
) -> None:
    topic, old_epoch = topic_of(member), member.epoch
    refused = member.acknowledge(topic, 0, [(0, 9, AcknowledgeType.ACCEPT), (50, 59, AcknowledgeType.ACCEPT)])
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    member.leave()
    member.epoch = old_epoch
    assert member.fetch(topic, 0, 10).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH

    member.epoch = 0
    member.join({topic: 1})
    again = member.fetch(topic, 0, 10)

    assert [tuple(r) for r in again.acquired] == [(0, 9, 2)]
    causes = [row["cause"] for row in rows_of(share_group_job, "delivery_log", member.group_id)]
    assert sorted(causes) == ["fetch", "fetch", "member_left"]


@pytest.mark.thorough
def test_a_burst_of_requests_is_worked_off_in_bounded_batches_and_members_are_served_again(
    share_group_job: ShareGroupJobRun, client: RequestClient, member: RawMember, record_property: Any
) -> None:
    topic = topic_of(member)
    row = json.loads(member.acknowledge_request(topic, 0, [(60, 60, AcknowledgeType.ACCEPT)]).encode())
    kinds = (
        row | {"reply_to": ""},  # well-formed and wrong: holds no such record
        row | {"reply_to": "", "group_id": "a group that is not there"},
        {"no": "request"},
    )
    values = [json.dumps(kind).encode() for kind in kinds]
    before = share_group_job.next_batch("share_partition")
    begin = time.monotonic()
    client.send_values(
        share_group_job.config.job.partition_requests_topic, (values[n % len(values)] for n in range(BURST))
    )
    sent = time.monotonic()

    answer = member.acknowledge(topic, 0, [(0, 0, AcknowledgeType.ACCEPT)])

    served = time.monotonic()
    record_property("seconds to send", round(sent - begin, 1))
    record_property("seconds until a member was served", round(served - sent, 1))
    print(f"{BURST} rows sent in {sent - begin:.1f} s, the next request answered {served - sent:.1f} s later")
    assert answer.error_code == ErrorCode.NONE
    batches = share_group_job.next_batch("share_partition") - before
    assert batches >= BURST // share_group_job.config.job.max_requests_per_batch
