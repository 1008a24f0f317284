"""Clients that know nothing but a gateway's address, on brokers of several releases (`make clients`: all of them).

Where there are two brokers, the leaders change places while a client writes and another reads, and there are two
gateways: one for who writes, one for who reads. Nobody may find the way to a broker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, TopicPartition

from sharegroup.spark.jars import QUICK_START, jars, java
from sharegroup.testing.embedded_kafka import EmbeddedKafka
from sharegroup.testing.gateway_process import GatewayProcess
from tests.harness.embedded_kafka_cluster import EmbeddedKafkaCluster
from tests.harness.share_group_job import ShareGroupJobRun
from tests.integration.client_programs import CLIENTS, NEWEST, Program, Python
from tests.integration.java_tool import run_tool
from tests.integration.lone_gateway import check_end
from tests.integration.waiting import wait_until

pytestmark = pytest.mark.thorough

RECORDS, PARTITIONS = 25, 2
RELEASES = (NEWEST, "3.9", "3.7", "2.8")

#: What `make test` has time for.
QUICK = ("java-848", "librdkafka-classic", "kafka-python", "kcat")


def long(test: Callable[..., None]) -> Callable[..., None]:
    """It is one of `make clients`, where the first test of a release waits for its brokers and job."""
    return pytest.mark.long(test)


class Upstream(NamedTuple):
    """Brokers of one release, and what stands in front of them; `is_newest`: they have all protocols."""

    kafka: EmbeddedKafka | EmbeddedKafkaCluster
    job: ShareGroupJobRun
    gateways: list[GatewayProcess]
    is_newest: bool = True

    @property
    def ports(self) -> set[int]:
        """Where clients may connect: at the gateways, and at the ports at which these stand in for each other."""
        addresses = [address for one in self.gateways for address in (*one.addresses.values(), one.standby_address)]
        return {int(address.rpartition(":")[2]) for address in addresses}

    def leaders(self, topic: str) -> dict[int, int]:
        """{partition: broker}, as the brokers say."""
        admin = AdminClient({"bootstrap.servers": self.kafka.bootstrap_servers})
        partitions = admin.list_topics(topic, timeout=60).topics[topic].partitions
        return {number: partition.leader for number, partition in partitions.items()}

    def move_leaders(self, topic: str) -> None:
        """Each partition goes to the other broker, if there is one; it goes with all its records."""
        if isinstance(self.kafka, EmbeddedKafka):
            return
        wanted = {partition: 3 - leader for partition, leader in self.leaders(topic).items()}
        replicas = {TopicPartition(topic, partition): [broker] for partition, broker in wanted.items()}
        moved = self.kafka.brokers[-1].admin_client().alter_partition_reassignments(replicas)
        assert set(moved.values()) == {None}
        wait_until(lambda: self.leaders(topic) == wanted, "the partitions have moved")


@pytest.fixture(scope="module", params=RELEASES)
def upstream(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstream]:
    """Two brokers of a release, a job, two gateways."""
    directory = tmp_path_factory.mktemp("any-client")
    with (
        EmbeddedKafkaCluster(brokers=2, version=request.param) as cluster,
        ShareGroupJobRun(directory, cluster.bootstrap_servers) as job,
    ):
        job.start_warm(cluster.create_topic)
        gateways = [GatewayProcess(job.config_path, directory / f"gateway-{number}.log") for number in range(2)]
        with gateways[0], gateways[1]:
            yield Upstream(cluster, job, gateways, request.param == NEWEST)
            for gateway in gateways:
                check_end(gateway)


@pytest.mark.parametrize("name", QUICK)
def test_a_client_writes_and_reads(
    kafka: EmbeddedKafka,
    share_group_job: ShareGroupJobRun,
    gateway: GatewayProcess,
    name: str,
    tmp_path: Path,
    unique_name: Callable[[str], str],
) -> None:
    write_and_read(Upstream(kafka, share_group_job, [gateway]), name, tmp_path, unique_name)


@long
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_writes_and_reads_while_leaders_move(
    upstream: Upstream, name: str, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    if name.endswith("-848") and not upstream.is_newest:
        pytest.skip("brokers of this release have no such protocol")
    write_and_read(upstream, name, tmp_path, unique_name)


def write_and_read(upstream: Upstream, name: str, tmp_path: Path, unique_name: Callable[[str], str]) -> None:
    client, topic = CLIENTS[name], unique_name("topic")
    group = upstream.job.new_group() if name.endswith("-share") else unique_name("group")
    upstream.kafka.create_topic(topic, PARTITIONS)
    values = [f"record {number}" for number in range(2 * RECORDS)]
    reading = client.read(upstream.gateways[0].bootstrap_servers, topic, group, len(values))
    writing = client.write(upstream.gateways[-1].bootstrap_servers, topic)
    with Program(reading, tmp_path, "reader") as reader, Program(writing, tmp_path, "writer") as writer:
        writer.say(*values[:RECORDS])
        reader.await_lines(RECORDS)
        upstream.move_leaders(topic)
        writer.say(*values[RECORDS:-1])
        reader.await_lines(len(values) - 1)
        for program in (reader, writer):
            assert program.peers() <= upstream.ports
        writer.say(values[-1])
        writer.end()
        reader.end()
    assert sorted(reader.lines()) == sorted(values)


@long
def test_kafkas_tools(upstream: Upstream, unique_name: Callable[[str], str]) -> None:
    """A topic's life, and a group's, by the tools that administrators know."""
    at, topic = ("--bootstrap-server", upstream.gateways[0].bootstrap_servers), unique_name("topic")
    topics, groups = "org.apache.kafka.tools.TopicCommand", "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    run_tool(topics, *at, "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=3600000")
    run_tool(topics, *at, "--alter", "--topic", topic, "--partitions", "3")
    described = run_tool(topics, *at, "--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "retention.ms=3600000" in described
    run_tool("org.apache.kafka.tools.ProducerPerformance", *at, "--topic", topic, "--num-records", "300",
             "--record-size", "10", "--throughput", "-1", "--transactional-id", unique_name("writer"))  # fmt: skip
    group = unique_name("group")
    run_tool(groups, *at, "--group", group, "--topic", topic, "--reset-offsets", "--to-earliest", "--execute")
    described = run_tool(groups, *at, "--group", group, "--describe")
    lags = re.findall(rf"^{group}\s+{topic}\s+\d\s+0\s+\d+\s+(\d+)", described, re.MULTILINE)
    ends = run_tool("org.apache.kafka.tools.GetOffsetShell", *at, "--topic", topic).splitlines()
    assert len(lags) == len(ends) == 3
    assert sum(int(lag) for lag in lags) == sum(int(end.rpartition(":")[2]) for end in ends) >= 300
    run_tool(groups, *at, "--group", group, "--delete")
    run_tool(topics, *at, "--delete", "--topic", topic)
    wait_until(lambda: topic not in run_tool(topics, *at, "--list").split(), "the topic is gone")


@long
def test_kafka_streams(upstream: Upstream, tmp_path: Path) -> None:
    """Kafka's own example, whose topics have these names: it makes topics of its own, and counts words.

    Where brokers have it, its groups have a protocol of their own (KIP-1071).
    """
    protocol = "streams" if upstream.is_newest else "classic"
    source, sink = "streams-plaintext-input", "streams-wordcount-output"
    upstream.kafka.create_topic(source, PARTITIONS)
    upstream.kafka.create_topic(sink)
    settings = tmp_path / "streams.properties"
    settings.write_text(
        f"bootstrap.servers={upstream.gateways[0].bootstrap_servers}\ngroup.protocol={protocol}\n"
        f"state.dir={tmp_path}/state\ncommit.interval.ms=100\n"
    )
    class_path = ":".join(str(jar) for jar in jars("streams"))
    demo = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
    writing = Python("librdkafka").write(upstream.gateways[-1].bootstrap_servers, source)
    with (
        Program([java(), *QUICK_START, "-cp", class_path, demo, str(settings)], tmp_path, "streams") as streams,
        Program(writing, tmp_path, "writer") as writer,
    ):
        writer.say(*RECORDS * ["all streams lead"])
        await_counts(upstream, sink, {"all": RECORDS, "streams": RECORDS, "lead": RECORDS})
        upstream.move_leaders(source)
        upstream.move_leaders(sink)
        writer.say(*RECORDS * ["to kafka streams"])
        await_counts(upstream, sink, {"streams": 2 * RECORDS, "to": RECORDS, "kafka": RECORDS})
        assert streams.peers() <= upstream.ports
        writer.end()


def await_counts(upstream: Upstream, topic: str, expected: dict[str, int]) -> None:
    """Wait until the topic's newest values are these, 8 bytes each."""
    consumer = KafkaConsumer(
        topic, bootstrap_servers=upstream.kafka.bootstrap_servers, auto_offset_reset="earliest", group_id=None
    )
    counts: dict[str, int] = {}

    def are_there() -> bool:
        for records in consumer.poll(timeout_ms=500).values():
            counts.update((record.key.decode(), int.from_bytes(record.value, "big")) for record in records)
        return all(counts.get(word) == count for word, count in expected.items())

    try:
        wait_until(are_there, f"{expected} in {topic}, not {counts}")
    finally:
        consumer.close()
