"""Reads records of a log without acquiring them for a share group."""

import time
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaTimeoutError

from sharegroup.kafka_clients.client_settings import ClientSettings

_POLL_MS = 200


def read_records(
    settings: ClientSettings, key: TopicPartition, start: int | None, limit: int, timeout_ms: int
) -> list[Any]:
    """Return up to `limit` records between the offset `start` and the current end of the log.

    If `start` is None or lower than the log's start offset, the log's start offset is used. Raises KafkaTimeoutError if
    reading takes longer than `timeout_ms`, and other errors of kafka-python.
    """
    consumer = KafkaConsumer(**settings, group_id=None, enable_auto_commit=False, max_poll_records=limit)
    deadline = time.monotonic() + timeout_ms / 1000
    try:
        consumer.assign([key])
        first, end = consumer.beginning_offsets([key])[key], consumer.end_offsets([key])[key]
        consumer.seek(key, min(max(first, start or 0), end))
        found: list[Any] = []
        while len(found) < limit and consumer.position(key) < end:
            if time.monotonic() > deadline:
                raise KafkaTimeoutError(f"{key.topic}-{key.partition}: records were not read within {timeout_ms} ms")
            found += consumer.poll(timeout_ms=_POLL_MS).get(key, [])
        return found[:limit]
    finally:
        consumer.close()
