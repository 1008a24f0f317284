"""Kafka clients from the job's `kafka` properties, which have Java's names, and the three topics of the job."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from sharegroup.errors import ShareGroupError
from sharegroup.protocol.response_rows import NEW_LEADER_KEY


class KafkaUnavailableError(ShareGroupError):
    """The brokers did not do what was asked in time; the cause is kept."""


def spark_options(bootstrap_servers: str, kafka: Mapping[str, str]) -> dict[str, str]:
    """Options of Spark's Kafka reader for the same properties.

    After each poll Spark asks for the log's ends on the same connection, where the broker lets it wait behind the fetch
    that the poll has sent ahead: half a second at Kafka's default of fetch.max.wait.ms, in each task that has read all
    there is. Spark only polls for records that are there, so a fetch never has to wait.
    """
    options = {"fetch.max.wait.ms": "1", **kafka, "bootstrap.servers": bootstrap_servers}
    return {f"kafka.{name}": value for name, value in options.items()}


def create_topics(settings: Mapping[str, Any], topics: Mapping[str, int], replication: int, retention_ms: int) -> None:
    """Create the missing ones of `topics` (name -> partitions), with the broker's clock as their rows' time.

    Raises KafkaUnavailableError.
    """
    admin = None
    try:
        admin = KafkaAdminClient(**settings)
        present = set(admin.list_topics())
        config = {
            "message.timestamp.type": "LogAppendTime",
            "cleanup.policy": "delete",
            "retention.ms": str(retention_ms),
        }
        missing = [
            NewTopic(name, num_partitions=partitions, replication_factor=replication, topic_configs=config)
            for name, partitions in topics.items()
            if name not in present
        ]
        if missing:
            admin.create_topics(missing)
            admin.wait_for_topics([topic.name for topic in missing])
    except TopicAlreadyExistsError:
        pass  # another job or member created it in between
    except KafkaError as error:
        raise KafkaUnavailableError(f"cannot create the topics {', '.join(topics)}: {error}") from error
    finally:
        if admin is not None:
            admin.close()


class RowProducer:
    """Produces rows to the job's topics and waits until the broker has them (acks=all, idempotent)."""

    def __init__(self, settings: Mapping[str, Any], responses_topic: str, requests_topic: str) -> None:
        self._producer = KafkaProducer(
            **settings, acks="all", enable_idempotence=True, linger_ms=1, compression_type=None
        )
        self._responses_topic = responses_topic
        self._requests_topic = requests_topic

    def send(self, responses: Iterable[Mapping[str, Any]], requests: Iterable[tuple[str, str]]) -> None:
        """Produce requests to the other query, then responses keyed by `reply_to`; return when all are durable.

        Requests go first: a release that a re-joining member caused is in its topic before the member hears that it
        joined. Responses that nobody waits for (no `reply_to`) are left out. Raises KafkaUnavailableError.
        """
        self._flush([(self._requests_topic, key, value.encode()) for key, value in requests])
        self._flush(
            (self._responses_topic, response["reply_to"], json.dumps(response, separators=(",", ":")).encode())
            for response in responses
            if response["reply_to"]
        )

    def announce_leader(self) -> None:
        """Tell all who read responses that a job begins to serve share-partitions. Raises KafkaUnavailableError."""
        try:
            partitions = self._producer.partitions_for(self._responses_topic)
            futures = [
                self._producer.send(self._responses_topic, key=NEW_LEADER_KEY, value=b"{}", partition=partition)
                for partition in partitions
            ]
            for future in futures:
                future.get(timeout=30)
        except KafkaError as error:
            raise KafkaUnavailableError(f"cannot produce to Kafka: {error}") from error

    def close(self) -> None:
        """Close the connections."""
        self._producer.close()

    def _flush(self, rows: Iterable[tuple[str, str, bytes]]) -> None:
        try:
            futures = [self._producer.send(topic, key=key.encode(), value=value) for topic, key, value in rows]
            if futures:
                self._producer.flush()
            for future in futures:
                future.get(timeout=30)
        except KafkaError as error:
            raise KafkaUnavailableError(f"cannot produce to Kafka: {error}") from error


def offsets_consumer(settings: Mapping[str, Any], read_committed: bool = False, **more: Any) -> KafkaConsumer:
    """A consumer without a group, for looking at offsets; `read_committed` makes the end the last stable offset."""
    isolation = "read_committed" if read_committed else "read_uncommitted"
    return KafkaConsumer(**settings, group_id=None, enable_auto_commit=False, isolation_level=isolation, **more)
