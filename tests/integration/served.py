"""Two servers of share groups that administrators' clients must find alike: our gateway, and Kafka itself."""

from __future__ import annotations

from typing import NamedTuple

from kafka import KafkaProducer

from sharegroup.testing.embedded_kafka import EmbeddedKafka
from tests.integration.share_members import Member


class Served(NamedTuple):
    """A server by its address; topics are made on `kafka`, which is the server itself or the broker behind it."""

    is_gateway: bool
    bootstrap_servers: str
    kafka: EmbeddedKafka

    def new_topic(self, name: str, partitions: int = 1, records: int = 0) -> str:
        """A topic with that many records in each of its partitions; its name."""
        self.kafka.create_topic(name, partitions)
        self.append(name, partitions, records)
        return name

    def append(self, topic: str, partitions: int, records: int) -> None:
        """More records in each of a topic's partitions."""
        producer = KafkaProducer(bootstrap_servers=self.kafka.bootstrap_servers)
        for partition in range(partitions):
            for number in range(records):
                producer.send(topic, b"record %d" % number, partition=partition)
        producer.close()

    def member(self, group_id: str, topic: str) -> Member:
        """A member of a group, by confluent-kafka."""
        return Member(self.bootstrap_servers, group_id, topic, client_id="teller")
