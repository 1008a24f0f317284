"""Serves the sample data to Kafka clients, with a broker that has the topic and a gateway that reads the tables.

    with SampleCluster(Path("/data")) as cluster:
        ShareGroupAdmin(cluster.bootstrap_servers).list_group_offsets("billing")

No job is running. Responses therefore contain the state in the tables, and clients cannot change the state or acquire
records.
"""

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml
from kafka import KafkaProducer

from sharegroup.kafka_clients.topic_lookup import lookup_topic_id
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess
from sharegroup.testing.samples.sample_history import PARTITIONS, TOPIC, LogEnd, write_sample_history


class SampleCluster:
    """A broker with sample records, tables with a sample history, and a gateway, but no job.

    They run from `start` to `stop`, or inside a `with` block. `directory` must be empty.

    Attributes:
        tables_path: the directory of the tables. It remains after `stop`.
        log_ends: the log end offsets at each step of the sample history; empty before the start.
        bootstrap_servers: the gateway's address; empty before the start.
    """

    def __init__(self, directory: Path) -> None:
        self.tables_path = str(directory / "tables")
        self.log_ends: list[LogEnd] = []
        self.bootstrap_servers = ""
        self._config = directory / "share_group.yaml"
        self._kafka = EmbeddedKafka(heap="-Xmx256m")
        self._gateway = GatewayProcess(self._config, directory / "gateway.log")

    def start(self) -> Self:
        """Start the broker and the gateway, and wait until the gateway's ports are open.

        Raises EmbeddedKafkaError or LoggedProcessError if one of them does not start.
        """
        self._kafka.start()
        try:
            self._kafka.create_topic(TOPIC, PARTITIONS)
            of_broker = lookup_topic_id({"bootstrap_servers": self._kafka.bootstrap_servers}, TOPIC)
            self.log_ends = write_sample_history(self.tables_path, topic_id=of_broker)
            self._write_records(self.log_ends)
            job = {"bootstrap.servers": self._kafka.bootstrap_servers, "tables.path": self.tables_path}
            self._config.write_text(yaml.safe_dump({"job": job}))
            self.bootstrap_servers = self._gateway.start().bootstrap_servers
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop the gateway and the broker."""
        self._gateway.kill()
        self._kafka.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _write_records(self, log_ends: Iterable[LogEnd]) -> None:
        producer = KafkaProducer(bootstrap_servers=self._kafka.bootstrap_servers, linger_ms=20)
        for partition in range(PARTITIONS):
            steps = [end for end in log_ends if end.partition == partition]
            for before, end in pairwise([steps[0]._replace(log_end_offset=0), *steps]):
                for offset in range(before.log_end_offset, end.log_end_offset):
                    at_ms = round(end.time.timestamp() * 1000)
                    producer.send(TOPIC, f"invoice {offset}".encode(), partition=partition, timestamp_ms=at_ms)
        producer.flush()
        producer.close()
