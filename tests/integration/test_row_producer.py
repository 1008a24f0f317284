"""Rows that are too large for a topic, which only the broker knows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from kafka import KafkaConsumer, TopicPartition

from sharegroup.errors import ErrorCode
from sharegroup.kafka_clients.client_settings import python_properties
from sharegroup.kafka_clients.kafka_clients import KafkaRowProducer
from sharegroup.protocol.rows.response_rows import encode_response
from sharegroup.protocol.rows.share_partition_responses import FetchResponse
from sharegroup.types import AcquiredRange

if TYPE_CHECKING:
    from collections.abc import Callable

    from sharegroup.testing.embedded_kafka import EmbeddedKafka


def test_in_place_of_what_the_broker_refuses_comes_an_error(
    kafka: EmbeddedKafka, unique_name: Callable[[str], str]
) -> None:
    topic, settings = unique_name("responses"), python_properties(kafka.bootstrap_servers, {})
    kafka.create_topic(topic, config={"max.message.bytes": "20000"})
    producer = KafkaRowProducer(settings, topic, topic)
    for name, ranges in ("a", 5_000), ("b", 3_000):
        acquired = tuple(AcquiredRange(2 * n, 2 * n, 1) for n in range(ranges))
        response = FetchResponse("small", "me", "g", "orders", "orders-0123456789abcde", 0, "m")
        large = replace(response, id=name, acquired=acquired)
        producer.send(map(encode_response, (response, large, response)), [])
    producer.close()
    consumer = KafkaConsumer(**settings, auto_offset_reset="earliest", group_id=None, enable_auto_commit=False)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    codes: dict[str, set[int]] = {}
    while consumer.position(partition) < consumer.end_offsets([partition])[partition]:
        for records in consumer.poll(1_000).values():
            for record in records:
                row = json.loads(record.value)
                codes.setdefault(row["id"], set()).add(row["error_code"])
    consumer.close()
    assert codes == {"small": {0}, "a": {ErrorCode.UNKNOWN_SERVER_ERROR}, "b": {ErrorCode.UNKNOWN_SERVER_ERROR}}
