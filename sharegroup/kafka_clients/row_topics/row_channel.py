"""A member's connections to Kafka: it writes request rows, reads its response rows, and describes topics."""

import functools
import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kafka import KafkaProducer

from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.job_clock import ClockUnknownError, JobClock
from sharegroup.kafka_clients.response_partitions import METADATA_AGE_MS, ResponsePartitions, responses_consumer
from sharegroup.kafka_clients.topic_lookup import TopicLookup
from sharegroup.log_fields import LogFields
from sharegroup.protocol.rows.response_rows import Response, decode_responses
from sharegroup.protocol.rows.share_group_requests import ShareGroupRequest, TopicMetadata
from sharegroup.protocol.rows.share_partition_requests import SharePartitionRequest

logger = logging.getLogger(__name__)

APPEND_TIMEOUT_S = 30


class RowTopics(NamedTuple):
    """The names of the job's three topics."""

    share_group_requests: str
    share_partition_requests: str
    responses: str


class RowChannel:
    """Sends request rows to the job and reads the responses.

    `settings` are kafka-python's. `reply_to` is the key of the member's responses.

    `send` is thread-safe. The other methods must be called from one thread.
    """

    def __init__(self, settings: ClientSettings, topics: RowTopics, reply_to: str) -> None:
        self._topics = topics
        self._key = reply_to.encode()
        self._producer = KafkaProducer(
            **{"metadata_max_age_ms": METADATA_AGE_MS, **settings}, acks="all", enable_idempotence=True, linger_ms=1
        )
        self._consumer = responses_consumer(settings)
        self._partitions = ResponsePartitions(topics.responses, self._key)
        self._topics_of_cluster = TopicLookup(settings)
        self._clock = JobClock()

    def open(self) -> bool:
        """Start to read responses from the end. Return False if the job has not created its topics."""
        return self._partitions.start_reading(self._consumer)

    def poll(self, timeout_ms: int) -> list[Response]:
        """Return the new responses to the member. If there are no new rows, wait for up to `timeout_ms`.

        Rows for other readers are not decoded. Invalid rows are logged and skipped.
        """
        responses: list[Response] = []
        self._partitions.follow_partition_count(self._consumer)
        for partition, messages in self._consumer.poll(timeout_ms=timeout_ms).items():
            self._partitions.record_positions(partition, messages)
            for message in messages:
                if message.key == self._key:
                    try:
                        responses += decode_responses(message.value)
                    except ValueError as error:
                        logger.warning(
                            "skipped an invalid response row: %(topic)s-%(partition)d, offset %(offset)d: %(error)s",
                            LogFields(
                                topic=partition.topic,
                                partition=partition.partition,
                                offset=message.offset,
                                error=error,
                            ),
                        )
        return responses

    def send(self, requests: Sequence[ShareGroupRequest | SharePartitionRequest], wait: bool = False) -> None:
        """Produce request rows. With `wait`, wait until the brokers have stored them, or raise KafkaError."""
        futures = []
        for request in requests:
            is_group = isinstance(request, ShareGroupRequest)
            topic = self._topics.share_group_requests if is_group else self._topics.share_partition_requests
            sent = self._producer.send(topic, key=request.kafka_key, value=request.encode())
            futures.append(sent.add_callback(functools.partial(self._learn_time, self._clock.local_ms())))
        if wait:
            for future in futures:
                future.get(timeout=APPEND_TIMEOUT_S)

    def brokers_ahead_ms(self) -> int:
        """Return by how many ms the clock of the most advanced broker is ahead of this machine's steady clock.

        Before the first append, this machine's wall clock is used instead of the broker's clock.
        """
        try:
            return self._clock.now().latest_ms - self._clock.local_ms()
        except ClockUnknownError:  # without appends the member holds no records, so no lock depends on this estimate
            return int(time.time() * 1000) - self._clock.local_ms()

    def _learn_time(self, sent_ms: int, appended: Any) -> None:
        """Pass the time of an append to the clock. `appended` is kafka-python's metadata of the stored row."""
        if appended.timestamp >= 0:
            self._clock.record_append((appended.topic, appended.partition), sent_ms, appended.timestamp)

    def topic_names(self) -> set[str]:
        """Return the topics that exist and may be described. Raises KafkaError."""
        return self._topics_of_cluster.list_names()

    def topics_metadata(self, names: Iterable[str]) -> dict[str, TopicMetadata]:
        """Return {topic: metadata} for the topics in `names` that exist. Raises KafkaError."""
        return self._topics_of_cluster.describe_topics(names)

    def close(self) -> None:
        """Send the pending rows, then close the connections."""
        self._producer.close(timeout=APPEND_TIMEOUT_S)
        self._consumer.close()
        self._topics_of_cluster.close()
