"""Counts the rows of a request topic that the job has not read yet."""

from collections.abc import Mapping
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from sharegroup.kafka_clients.kafka_clients import KafkaUnavailableError, offsets_consumer
from sharegroup.protocol.json_text import from_json


def count_unread_rows(settings: Mapping[str, Any], topic: str, positions: Mapping[int, int], group_id: str) -> int:
    """Return the number of a group's rows in a request topic from `positions` on.

    `positions` are {partition: offset of the first unread row}. Partitions without a position are read from their
    start. A missing topic has no rows. Raises KafkaUnavailableError if the topic cannot be read.
    """
    try:
        consumer = offsets_consumer(settings)
        try:
            return _count(consumer, topic, positions, group_id)
        finally:
            consumer.close()
    except KafkaError as error:
        raise KafkaUnavailableError(f"cannot read topic {topic}: {error}") from error


def _count(consumer: KafkaConsumer, topic: str, positions: Mapping[int, int], group_id: str) -> int:
    partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
    starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    begin = {partition: max(positions.get(partition.partition, 0), starts[partition]) for partition in partitions}
    waiting = [partition for partition in partitions if begin[partition] < ends[partition]]
    consumer.assign(waiting)
    for partition in waiting:
        consumer.seek(partition, begin[partition])
    found = 0
    while any(consumer.position(partition) < ends[partition] for partition in waiting):
        for records in consumer.poll(timeout_ms=1_000).values():
            found += sum(_names(record.value, group_id) for record in records)
    return found


def _names(value: bytes | None, group_id: str) -> bool:
    try:
        row = from_json(value or b"")
    except ValueError:
        return False
    return isinstance(row, dict) and row.get("group_id") == group_id
