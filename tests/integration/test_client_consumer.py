"""The share consumer for Python, through our gateway and at Kafka's own share groups."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from sharegroup.client import (
    AcknowledgeType,
    AsyncShareConsumer,
    CommitResults,
    ConcurrentUseError,
    IllegalStateError,
    Record,
    RequestError,
    TopicIdPartition,
    WakeupError,
)
from sharegroup.errors import ErrorCode
from sharegroup.kafka_clients.admin import ShareGroupAdmin
from tests.integration.client_groups import EXPLICIT, NewGroup, Wire, keys, page_example, poll_records, polled
from tests.integration.served import Served
from tests.integration.waiting import wait_until

ACCEPT, RELEASE, REJECT, RENEW = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
)


def test_implicit_mode_delivers_each_record_once(new_client_group: NewGroup) -> None:
    group = new_client_group(2, 100)
    with group.consumer() as consumer:
        records = poll_records(consumer, 200)
        assert keys(records) == [(partition, offset) for partition in range(2) for offset in range(100)]
        assert {record.delivery_count for record in records} == {1}
        assert {record.value for record in records if record.offset == 7} == {b"record 7"}
        assert consumer.subscription() == {group.topic}
        assert set(consumer.commit_sync().values()) <= {None}
        timeout_ms = consumer.acquisition_lock_timeout_ms()
        assert timeout_ms is not None
        assert timeout_ms > 0


def test_explicit_acknowledgements(new_client_group: NewGroup) -> None:
    group = new_client_group(1, 30)
    kinds = {0: REJECT, 1: RELEASE}
    with group.consumer(**EXPLICIT) as consumer:
        counts: dict[int, list[int]] = {}
        for record in polled(consumer):
            counts.setdefault(record.offset, []).append(record.delivery_count)
            is_first = record.delivery_count == 1
            consumer.acknowledge(record, kinds.get(record.offset % 10, ACCEPT) if is_first else ACCEPT)
            if sum(map(len, counts.values())) == 33:
                break
        assert {offset for offset, seen in counts.items() if seen == [1, 2]} == {1, 11, 21}
        (source,) = consumer.commit_sync()
        assert (source.topic, source.partition) == (group.topic, 0)


def test_records_must_be_acknowledged_before_the_next_poll(new_client_group: NewGroup) -> None:
    with new_client_group(1, 3).consumer(**EXPLICIT) as consumer:
        records = poll_records(consumer, 1)
        with pytest.raises(IllegalStateError, match="All records must be acknowledged"):
            consumer.poll()
        for record in records:
            consumer.acknowledge_offset(record.topic, record.partition, record.offset)
        assert list(consumer.commit_sync().values()) == [None]
        with pytest.raises(IllegalStateError, match="is not waiting to be acknowledged"):
            consumer.acknowledge(records[0])


def test_implicit_mode_refuses_acknowledge(new_client_group: NewGroup) -> None:
    with new_client_group(1, 1).consumer() as consumer:
        (record,) = poll_records(consumer, 1)
        with pytest.raises(IllegalStateError, match="Implicit acknowledgement"):
            consumer.acknowledge(record)


def test_renewed_record_is_returned_again(new_client_group: NewGroup) -> None:
    with new_client_group(1, 1).consumer(**EXPLICIT) as consumer:
        (record,) = poll_records(consumer, 1)
        first_until_ms = record.delivery.lock_until_ms
        consumer.acknowledge(record, RENEW)
        (again,) = poll_records(consumer, 1)
        assert (again.offset, again.delivery_count) == (0, 1)
        assert first_until_ms is not None
        assert again.delivery.lock_until_ms is not None
        assert again.delivery.lock_until_ms > first_until_ms
        consumer.acknowledge(again)
        assert list(consumer.commit_sync().values()) == [None]


def test_record_limit_is_exact(new_client_group: NewGroup) -> None:
    with new_client_group(2, 10).consumer(share_acquire_mode="record_limit", max_poll_records=3) as consumer:
        sizes = []
        records: list[Record[Any]] = []
        while len(records) < 20:
            batch = consumer.poll()
            sizes.append(len(batch))
            records += batch
        assert max(sizes) <= 3
        assert len(set(keys(records))) == 20


def test_iteration_accepts_only_what_it_yielded(new_client_group: NewGroup) -> None:
    group = new_client_group(1, 10)
    with group.consumer() as consumer:
        for record in consumer:
            if record.offset == 3:
                break
        consumer.commit_sync()
    with group.consumer() as consumer:
        assert keys(poll_records(consumer, 6)) == [(0, offset) for offset in range(4, 10)]


def test_unused_records_cost_no_delivery_attempt_at_a_gateway(new_client_group: NewGroup) -> None:
    """Kafka skips the tagged field of the release, so the next delivery is the second one there."""
    group, wire = new_client_group(1, 10), Wire()
    unused: set[int] = set()

    def note_unused(request: Any) -> None:
        for topic in getattr(request, "topics", None) or ():
            for part in getattr(topic, "partitions", None) or ():
                for batch in getattr(part, "acknowledgement_batches", None) or ():
                    if batch.is_unused:
                        unused.update(range(batch.first_offset, batch.last_offset + 1))

    wire.tamper = note_unused
    with group.consumer(connector=wire) as consumer:
        for record in consumer:
            if record.offset == 3:
                break
        consumer.commit_sync()
    with group.consumer() as consumer:
        found = {record.offset: record.delivery_count for record in poll_records(consumer, 6)}
    again = 1 if group.served.is_gateway else 2
    assert unused
    assert found == {offset: again if offset in unused else 1 for offset in range(4, 10)}


def test_asyncio_consumer(new_client_group: NewGroup) -> None:
    group = new_client_group(2, 20)

    async def consume() -> tuple[set[tuple[int, int]], CommitResults]:
        seen: set[tuple[int, int]] = set()
        async with AsyncShareConsumer(
            group.served.bootstrap_servers,
            group_id=group.id,
            topics=[group.topic],
            share_acknowledgement_mode="explicit",
        ) as consumer:
            async for record in consumer:
                seen.add((record.partition, record.offset))
                consumer.acknowledge(record)
                if len(seen) == 40:
                    break
            return seen, await consumer.commit_sync()

    seen, results = asyncio.run(consume())
    assert len(seen) == 40
    assert set(results.values()) == {None}


def test_commit_callback_receives_the_offsets(new_client_group: NewGroup) -> None:
    calls: list[tuple[dict[TopicIdPartition, set[int]], RequestError | None, threading.Thread]] = []
    refusals: list[IllegalStateError] = []
    with new_client_group(1, 5).consumer() as consumer:

        def note(offsets: dict[TopicIdPartition, set[int]], error: RequestError | None) -> None:
            calls.append((offsets, error, threading.current_thread()))
            try:
                consumer.poll()
            except IllegalStateError as refusal:
                refusals.append(refusal)

        consumer.set_acknowledgement_commit_callback(note)
        poll_records(consumer, 5)
        consumer.commit_async()
        while {offset for call in calls for offsets in call[0].values() for offset in offsets} != set(range(5)):
            consumer.poll(0.2)
        assert {(error, thread) for _, error, thread in calls} == {(None, threading.current_thread())}
        assert len(refusals) == len(calls)


def test_closing_releases_what_was_not_acknowledged(new_client_group: NewGroup) -> None:
    group = new_client_group(1, 10)
    with group.consumer(**EXPLICIT) as consumer:
        records = poll_records(consumer, 10)
        for record in records[:5]:
            consumer.acknowledge(record)
    with group.consumer() as consumer:
        again = poll_records(consumer, 5)
    assert keys(again) == [(0, offset) for offset in range(5, 10)]
    assert {record.delivery_count for record in again} == {2}


def test_unsubscribe_leaves_the_group(new_client_group: NewGroup, admin: ShareGroupAdmin) -> None:
    group = new_client_group(1, 1)

    def is_empty() -> bool:
        return admin.describe_groups([group.id])[group.id].group_state == "Empty"

    with group.consumer() as consumer:
        poll_records(consumer, 1)
        (member,) = admin.describe_groups([group.id])[group.id].members
        assert member.member_id == consumer.member_id
        consumer.unsubscribe()
        assert consumer.subscription() == set()
        wait_until(is_empty, "the member has left")
        with pytest.raises(IllegalStateError, match="not subscribed"):
            consumer.poll()
        consumer.subscribe([group.topic])
        poll_records(consumer, 1)
    wait_until(is_empty, "the member has left")
    with pytest.raises(IllegalStateError, match="closed"):
        consumer.poll()


def test_wakeup_ends_a_poll_from_another_thread(new_client_group: NewGroup, admin: ShareGroupAdmin) -> None:
    group = new_client_group(1)
    with group.consumer() as consumer:

        def wake_member() -> None:
            wait_until(lambda: group.has_members(admin), "the member joined")
            consumer.wakeup()

        watcher = threading.Thread(target=wake_member)
        watcher.start()
        with pytest.raises(WakeupError):
            consumer.poll(120)
        watcher.join()
        assert consumer.poll(0) == []


def test_two_threads_may_not_use_a_consumer(new_client_group: NewGroup, admin: ShareGroupAdmin) -> None:
    group = new_client_group(1)
    with group.consumer() as consumer:

        def poll() -> None:
            with pytest.raises(WakeupError):
                consumer.poll(120)

        other = threading.Thread(target=poll)
        other.start()
        wait_until(lambda: group.has_members(admin), "the member joined")
        with pytest.raises(ConcurrentUseError):
            consumer.poll()
        consumer.wakeup()
        other.join()


def test_undecodable_records_are_rejected_with_their_reasons(new_client_group: NewGroup, served: Served) -> None:
    group = new_client_group(1)
    with KafkaProducer(bootstrap_servers=served.kafka.bootstrap_servers) as producer:
        for value in (b"1", b"no", b"3"):
            producer.send(group.topic, value)
        producer.flush()
    with group.consumer(value_deserializer=json.loads) as consumer:
        assert [record.value for record in poll_records(consumer, 2)] == [1, 3]
        assert list(consumer.commit_sync().values()) == [None]
        (bad,) = consumer.undecodable
        assert (bad.source.topic, bad.offset) == (group.topic, 1)
        assert "JSONDecodeError" in bad.reason
    with group.consumer() as consumer:  # the rejected record is not delivered again
        served.append(group.topic, 1, 1)
        assert keys(poll_records(consumer, 1)) == [(0, 3)]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_and_headers(new_client_group: NewGroup, served: Served, compression: str) -> None:
    group = new_client_group(1)
    writer = Producer({"bootstrap.servers": served.kafka.bootstrap_servers, "compression.type": compression})
    for number in range(50):
        writer.produce(group.topic, b"x" * 500, key=b"%d" % number, headers=[("kind", b"test")])
    writer.flush()
    with group.consumer() as consumer:
        records = poll_records(consumer, 50)
    assert [record.key for record in records] == [b"%d" % number for number in range(50)]
    assert {(record.value, tuple(record.headers)) for record in records} == {(b"x" * 500, (("kind", b"test"),))}


@pytest.mark.thorough
def test_aborted_transactions_are_not_delivered(
    new_client_group: NewGroup, served: Served, unique_name: Callable[[str], str]
) -> None:
    group = new_client_group(1, share_isolation_level="read_committed")
    writer = Producer({"bootstrap.servers": served.kafka.bootstrap_servers, "transactional.id": unique_name("writer")})
    writer.init_transactions()
    for number in range(4):
        writer.begin_transaction()
        for _ in range(5):
            writer.produce(group.topic, b"committed" if number % 2 else b"aborted", partition=0)
        writer.flush()
        writer.commit_transaction() if number % 2 else writer.abort_transaction()
    with group.consumer() as consumer:
        records = poll_records(consumer, 10)
        assert {record.value for record in records} == {b"committed"}
        assert list(consumer.commit_sync().values()) == [None]


@pytest.mark.thorough
def test_members_share_a_partition(new_client_group: NewGroup, served: Served) -> None:
    group = new_client_group(1)
    with group.consumer(max_poll_records=10) as first, group.consumer(max_poll_records=10) as second:
        seen: dict[str, list[Record[Any]]] = {"first": [], "second": []}
        produced = 0
        while not all(seen.values()):
            served.append(group.topic, 1, 20)
            produced += 20
            while sum(map(len, seen.values())) < produced:
                seen["first"] += first.poll(0.2)
                seen["second"] += second.poll(0.2)
    assert len(set(keys([*seen["first"], *seen["second"]]))) == produced


@pytest.mark.thorough
def test_late_acknowledgement_is_refused(
    served: Served, new_client_group: NewGroup, request: pytest.FixtureRequest
) -> None:
    if not served.is_gateway:
        pytest.skip("this broker's shortest lock is 15 s")
    group = new_client_group(1, 5)._replace(id=request.getfixturevalue("share_group_job").new_group("short_lock"))
    with group.consumer(**EXPLICIT) as late, group.consumer(**EXPLICIT) as other:
        held = poll_records(late, 5)
        taken = poll_records(other, 5)
        for record in held:
            late.acknowledge(record)
        (result,) = late.commit_sync().values()
        assert result is not None
        assert result.code == ErrorCode.INVALID_RECORD_STATE
        assert min(record.delivery_count for record in taken) > 1


def test_metrics_count_what_happened(new_client_group: NewGroup) -> None:
    with new_client_group(1, 20).consumer() as consumer:
        poll_records(consumer, 20)
        consumer.commit_sync()
        metrics = consumer.metrics()
    fetches = metrics["consumer-share-fetch-manager-metrics"]
    assert fetches["records-consumed-total"] == 20
    assert fetches["bytes-consumed-total"] > 0
    assert (fetches["acknowledgements-send-total"], fetches["acknowledgements-error-total"]) == (20, 0)
    assert metrics["consumer-share-coordinator-metrics"]["rebalance-total"] == 1
    assert metrics["consumer-share-metrics"]["last-poll-seconds-ago"] >= 0


def test_client_instance_id_needs_a_broker_that_collects_metrics(new_client_group: NewGroup) -> None:
    with (
        new_client_group(1).consumer() as consumer,
        pytest.raises(RequestError, match="does not support GetTelemetrySubscriptions"),
    ):
        consumer.client_instance_id()


def test_example_of_the_documentation(new_client_group: NewGroup, served: Served) -> None:
    class SeenAllError(Exception):
        """Ends the example's loop, which has no end."""

    printed: list[tuple[Any, ...]] = []

    def note(*values: Any) -> None:
        printed.append(values)
        if len(printed) == 3:
            raise SeenAllError

    group = new_client_group(1)
    with KafkaProducer(bootstrap_servers=served.kafka.bootstrap_servers) as producer:
        for amount in (5, -1, 7):
            producer.send(group.topic, b'{"amount": %d}' % amount)
        producer.flush()
    example = page_example(0, group)
    with pytest.raises(SeenAllError):
        exec(example, {"print": note})
    assert printed == [(group.topic, offset, 1, amount) for offset, amount in enumerate((5, -1, 7))]


def test_consume_command_prints_records_and_rejects_them(new_client_group: NewGroup, served: Served) -> None:
    group = new_client_group(1, 3)
    options = ["--bootstrap-server", served.bootstrap_servers, "--formatter-property", "print.offset=true"]
    command = [sys.executable, "-m", "sharegroup.cli", "consume", group.id, group.topic, *options, "--max-messages=3"]
    found = subprocess.run([*command, "--reject"], capture_output=True, text=True, timeout=120, check=True)
    assert found.stdout.splitlines() == [f"Offset:{number}\trecord {number}" for number in range(3)]
    assert "Processed a total of 3 messages" in found.stderr
    with group.consumer() as consumer:
        served.append(group.topic, 1, 1)
        assert keys(poll_records(consumer, 1)) == [(0, 3)]
