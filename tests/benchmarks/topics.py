"""Topics full of records, made fast."""

from __future__ import annotations

import os
from collections.abc import Iterable

from confluent_kafka import Producer

from sharegroup.kafka_clients import topic_lookup

_POLL_EACH = 10_000


def fill(
    bootstrap_servers: str, topic: str, partitions: int, records: int, size: int, batch_size: int = 1 << 20
) -> None:
    """`records` in total, of `size` random bytes each, evenly over the partitions, in batches of `batch_size` bytes."""
    noise = os.urandom(1 << 20)
    span = len(noise) - size
    values = ((index % partitions, None, noise[(at := index * 37 % span) : at + size]) for index in range(records))
    produce(bootstrap_servers, topic, values, batch_size)


def produce(
    bootstrap_servers: str, topic: str, rows: Iterable[tuple[int, bytes | None, bytes]], batch_size: int = 1 << 20
) -> None:
    """Rows of (partition, key, value); returns when the broker has all of them."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "linger.ms": 20,
            "batch.size": batch_size,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 1 << 20,
        }
    )
    failed: list[str] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(str(error))

    for count, (partition, key, value) in enumerate(rows):
        while True:
            try:
                producer.produce(topic, value, key, partition, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        if count % _POLL_EACH == 0:
            producer.poll(0)
    producer.flush()
    if failed:
        raise RuntimeError(f"{len(failed)} rows were not produced: {failed[0]}")


def topic_id(bootstrap_servers: str, topic: str) -> str:
    return topic_lookup.lookup_topic_id({"bootstrap_servers": bootstrap_servers}, topic)
