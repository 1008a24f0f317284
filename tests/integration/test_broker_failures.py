"""Brokers of a replicated cluster that fail and come back, under a job, two gateways and members of each kind.

After each test every record was finished once by each group, no record came after its acknowledgement had been answered
without an error, and no query of the job has failed.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.integration.loaded_cluster import BROKERS, LoadedCluster, await_in_sync, loaded_cluster
from tests.integration.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.harness.embedded_kafka_cluster import EmbeddedKafkaCluster
    from tests.integration.steady_load import SteadyLoad

pytestmark = pytest.mark.thorough

#: How long a fault lasts that nobody can see the effect of.
FAULT_S = 10


@pytest.fixture(scope="module")
def loaded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadedCluster]:
    with loaded_cluster(spark, tmp_path_factory.mktemp("failures")) as loaded:
        yield loaded


@pytest.fixture
def cluster(loaded: LoadedCluster) -> EmbeddedKafkaCluster:
    return loaded.cluster


@pytest.fixture
def load(loaded: LoadedCluster) -> SteadyLoad:
    return loaded.load


@contextmanager
def min_insync_replicas(cluster: EmbeddedKafkaCluster, value: int) -> Iterator[None]:
    """`min.insync.replicas` of all topics, inside the block."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})

    def set_to(value: int) -> None:
        entry = ConfigEntry("min.insync.replicas", str(value), incremental_operation=AlterConfigOpType.SET)
        resources = [
            ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
            for topic in admin.list_topics(timeout=60).topics
        ]
        for future in admin.incremental_alter_configs(resources).values():
            future.result(60)

    set_to(value)
    try:
        yield
    finally:
        set_to(2)


def test_a_killed_broker_comes_back(cluster: EmbeddedKafkaCluster, load: SteadyLoad) -> None:
    with load.writing():
        cluster.brokers[1].kill()
        load.await_deliveries()
        cluster.brokers[1].start()
        await_in_sync(cluster)
        load.await_deliveries()


@pytest.mark.long
def test_a_paused_broker_comes_back(cluster: EmbeddedKafkaCluster, load: SteadyLoad) -> None:
    with load.writing():
        cluster.brokers[2].pause()
        time.sleep(FAULT_S)  # the length of the pause
        cluster.brokers[2].resume()
        await_in_sync(cluster)
        load.await_deliveries()


@pytest.mark.long
def test_all_brokers_are_restarted_one_after_the_other(cluster: EmbeddedKafkaCluster, load: SteadyLoad) -> None:
    with load.writing():
        for broker in cluster.brokers:  # one of them is the active controller
            broker.shut_down()
            broker.start()
            await_in_sync(cluster)
        load.await_deliveries()


@pytest.mark.long
def test_a_broker_is_replaced_by_an_empty_one(cluster: EmbeddedKafkaCluster, load: SteadyLoad) -> None:
    with load.writing():
        cluster.brokers[0].shut_down()
        cluster.brokers[0].erase()
        load.await_deliveries()
        cluster.brokers[0].start()
        await_in_sync(cluster)
        load.await_deliveries()


@pytest.mark.long
def test_a_broker_whose_disk_is_full_ends_and_comes_back(cluster: EmbeddedKafkaCluster, load: SteadyLoad) -> None:
    """No file of its process may grow, so each write fails, as on a full disk."""
    with load.writing():
        resource.prlimit(cluster.brokers[1].pid, resource.RLIMIT_FSIZE, (0, 0))
        wait_until(lambda: not cluster.brokers[1].is_running, "the broker ends", PATIENCE_S)
        load.await_deliveries()
        cluster.brokers[1].kill()
        cluster.brokers[1].start()
        await_in_sync(cluster)
        load.await_deliveries()


@pytest.mark.long
def test_min_insync_replicas_is_not_met_for_a_while(cluster: EmbeddedKafkaCluster, load: SteadyLoad) -> None:
    with load.writing():
        with min_insync_replicas(cluster, BROKERS):
            cluster.brokers[2].shut_down()
            time.sleep(FAULT_S)  # nothing is appended meanwhile
            cluster.brokers[2].start()
            load.await_deliveries()
        await_in_sync(cluster)


@pytest.mark.long
def test_two_of_three_brokers_are_away_for_a_while(cluster: EmbeddedKafkaCluster, load: SteadyLoad) -> None:
    """Too few replicas for appends, and too few controllers for new leaders."""
    with load.writing():
        for broker in cluster.brokers[:2]:
            broker.kill()
        time.sleep(FAULT_S)  # nothing is appended meanwhile
        for broker in cluster.brokers[:2]:
            broker.start()
        await_in_sync(cluster)
        load.await_deliveries()
