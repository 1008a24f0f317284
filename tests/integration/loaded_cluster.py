"""Three brokers with replicated topics, a job, two gateways, and members of each kind under a steady load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from sharegroup.testing.gateway_process import GatewayProcess
from sharegroup.testing.ports import free_port
from tests.harness.embedded_kafka_cluster import EmbeddedKafkaCluster
from tests.harness.share_group_job import ShareGroupJobRun
from tests.integration.steady_load import SteadyLoad
from tests.integration.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKERS = 3
_TOPIC, _PARTITIONS = "steady", 6


class LoadedCluster(NamedTuple):
    """All services run. `metrics_ports` has the port with the metrics of each gateway."""

    cluster: EmbeddedKafkaCluster
    job: ShareGroupJobRun
    gateways: list[GatewayProcess]
    metrics_ports: list[int]
    load: SteadyLoad


@contextmanager
def loaded_cluster(spark: SparkSession, directory: Path) -> Iterator[LoadedCluster]:
    """Start everything, and stop it at the end of the block. The brokers have no share groups of their own."""
    properties = {"broker.session.timeout.ms": "6000"}
    times = {"group.share.session.timeout.ms": 45_000, "group.share.record.lock.duration.ms": 30_000}
    with EmbeddedKafkaCluster(
        BROKERS, controllers=3, replication=3, min_insync_replicas=2, properties=properties,
        features={"share.version": 0},
    ) as cluster:  # fmt: skip
        cluster.create_topic(_TOPIC, _PARTITIONS)
        with ShareGroupJobRun(directory, cluster.bootstrap_servers, group=times) as job:
            job.start()
            job.await_running()
            ports = [free_port(), free_port()]
            one, two = (
                GatewayProcess(job.config_path, directory / f"gateway-{port}.log", options=[f"--metrics-port={port}"])
                for port in ports
            )
            with one, two:
                servers = [one.bootstrap_servers, two.bootstrap_servers]
                with SteadyLoad(spark, job, servers, _TOPIC, _PARTITIONS, directory) as load:
                    yield LoadedCluster(cluster, job, [one, two], ports, load)


def await_in_sync(cluster: EmbeddedKafkaCluster) -> None:
    """Wait until each partition of all topics has a replica in sync on each broker."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})

    def are_in_sync() -> bool:
        try:
            topics = admin.list_topics(timeout=5).topics.values()
        except KafkaException:
            return False
        return {len(part.isrs) for topic in topics for part in topic.partitions.values()} == {BROKERS}

    wait_until(are_in_sync, f"{BROKERS} replicas in sync", PATIENCE_S)
