"""Members of the Python client, of librdkafka and of Java share the work of one group."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kafka import KafkaProducer

from sharegroup.testing.logged_process import LoggedProcess
from tests.integration.client_groups import NewGroup
from tests.integration.java_tool import tool_command
from tests.integration.served import Served
from tests.integration.waiting import wait_until

CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
ROUND, PARTITIONS = 30, 3


@pytest.mark.thorough
def test_clients_of_three_kinds_share_the_work(new_client_group: NewGroup, served: Served, tmp_path: Path) -> None:
    """Rounds of records until each member has some; each record is delivered to one of them, once."""
    group = new_client_group(PARTITIONS)
    arguments = ["--bootstrap-server", served.bootstrap_servers, "--topic", group.topic, "--group", group.id]
    java = LoggedProcess("the Java member", tool_command(CONSOLE, arguments), tmp_path / "java.log").start()
    values: dict[str, list[str]] = {"python": [], "librdkafka": [], "java": []}
    produced = 0
    try:
        with (
            KafkaProducer(bootstrap_servers=served.kafka.bootstrap_servers) as producer,
            group.consumer(max_poll_records=5) as python,
            served.member(group.id, group.topic) as librdkafka,
        ):

            def have_all() -> bool:
                values["python"] += [record.value.decode() for record in python.poll(0.1)]
                values["librdkafka"] += [record.value.decode() for record in librdkafka.poll()]
                values["java"] = re.findall(r"^value \d+$", java.log_path.read_text(), re.MULTILINE)
                return sum(map(len, values.values())) >= produced

            while not all(values.values()):
                for number in range(produced, produced + ROUND):
                    producer.send(group.topic, b"value %d" % number, partition=number % PARTITIONS)
                producer.flush()
                produced += ROUND
                wait_until(have_all, "each record is delivered")
    finally:
        java.kill()
    delivered = sorted(value for part in values.values() for value in part)
    assert delivered == sorted(f"value {number}" for number in range(produced))
