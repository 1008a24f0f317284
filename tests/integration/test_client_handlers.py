"""Handler loops of the Python client, through our gateway and at Kafka's own share groups."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

from kafka import KafkaProducer, TopicPartition

from sharegroup.client import Record, Reject, Release, Retry
from sharegroup.kafka_clients.admin import ShareGroupAdmin
from tests.integration.client_groups import NewGroup, page_example
from tests.integration.waiting import wait_until

PARTITIONS, RECORDS = 2, 50


def test_handler_finishes_each_record(new_client_group: NewGroup, admin: ShareGroupAdmin) -> None:
    group = new_client_group(PARTITIONS, RECORDS)
    consumer = group.consumer()
    calls: Counter[tuple[int, int]] = Counter()
    lock = threading.Lock()
    finished = set()

    @consumer.handler(concurrency=8, max_in_hand=(40, "1MB"), on_error=Retry.exponential(0.01, 1))
    def handle(record: Record[Any]) -> None:
        key = record.partition, record.offset
        with lock:
            calls[key] += 1
        if record.offset % 10 == 1 and record.delivery_count == 1:
            raise Release("another member may do it")
        if record.offset % 10 == 2 and calls[key] == 1:
            raise ValueError("fails once")
        with lock:
            finished.add(key)
            if len(finished) == PARTITIONS * RECORDS:
                consumer.stop()
        if record.offset % 10 == 3:
            raise Reject("bad record")

    consumer.run()
    again = {key for key, count in calls.items() if count == 2}
    assert again == {(partition, offset) for partition, offset in finished if offset % 10 in (1, 2)}
    assert set(calls.values()) == {1, 2}

    def lags() -> set[int | None]:
        partitions = [TopicPartition(group.topic, number) for number in range(PARTITIONS)]
        return {found.lag for found in admin.list_group_offsets(group.id, partitions).values()}

    wait_until(lambda: lags() == {0}, "all records are finished")


def test_the_example_runs(new_client_group: NewGroup) -> None:
    group = new_client_group(1)
    with KafkaProducer(bootstrap_servers=group.served.kafka.bootstrap_servers) as producer:
        for amount in (5, -1, 2_000_000, 7):
            producer.send(group.topic, b'{"amount": %d}' % amount)
        producer.flush()
    example = page_example(1, group)
    printed = set()

    def note(*values: Any) -> None:
        printed.add(values)
        if len(printed) == 3:
            variables["consumer"].stop()

    variables: dict[str, Any] = {"print": note}
    exec(example, variables)
    assert printed == {(group.topic, 0, 1, 5), (group.topic, 2, 2, 2_000_000), (group.topic, 3, 1, 7)}


def test_lock_is_renewed_while_a_handler_runs(new_client_group: NewGroup) -> None:
    """The handler waits for two renewals of its own lock."""
    group = new_client_group(1, 1, share_record_lock_duration_ms="30000")
    consumer = group.consumer()
    deliveries: list[int] = []
    ends: set[int] = set()

    @consumer.handler()
    def handle(record: Record[Any]) -> None:
        deliveries.append(record.delivery_count)
        while len(ends) < 3 and not record.cancelled.wait(0.1):
            ends.add(record.delivery.lock_until_ms)
        consumer.stop()

    consumer.run()
    assert deliveries == [1]
    assert len(ends) == 3
