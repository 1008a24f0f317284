"""Share consumers that keep their place through restarts, by their client.id: `share.client.id.as.instance.id`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException

from sharegroup.errors import ErrorCode
from sharegroup.storage import read_group
from sharegroup.testing.logged_process import LoggedProcess
from tests.integration.java_tool import tool_command
from tests.integration.share_members import Group, Member, Record, keys, poll_in_turns
from tests.integration.test_gateway_share_consumer import EXPLICIT
from tests.integration.test_gateway_tools import CONSOLE
from tests.integration.waiting import wait_until

if TYPE_CHECKING:
    from sharegroup.testing.gateway_process import GatewayProcess
    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

RECORDS = 10

#: A process that works on what it gets until it is killed.
WORKER = """
import signal
import sys
from confluent_kafka import ShareConsumer
servers, group_id, topic, client_id = sys.argv[1:]
consumer = ShareConsumer({
    "bootstrap.servers": servers, "group.id": group_id, "client.id": client_id,
    "share.acknowledgement.mode": "explicit",
})
consumer.subscribe([topic])
count = 0
while count < 10:
    count += sum(message.error() is None for message in consumer.poll(timeout=0.2))
print("has", count, "records", flush=True)
signal.pause()
"""


@pytest.fixture
def group(gateway: GatewayProcess, share_group_job: ShareGroupJobRun, new_topic: NewTopic) -> Group:
    """A group that takes client ids for names, and reads a topic with records."""
    return Group(share_group_job, gateway.bootstrap_servers, new_topic(1, RECORDS), "named")


@pytest.fixture
def worker(gateway: GatewayProcess, group: Group, tmp_path: Path) -> Iterator[LoggedProcess]:
    """A process of worker-1 that has all records, and has acknowledged none."""
    arguments = [gateway.bootstrap_servers, group.id, group.topic, "worker-1"]
    process = LoggedProcess("the worker", [sys.executable, "-c", WORKER, *arguments], tmp_path / "worker.log")
    process.start()
    process.await_log(f"has {RECORDS} records")
    yield process
    process.kill()


@pytest.fixture
def stored_id(group: Group, share_group_job: ShareGroupJobRun) -> Callable[[], str]:
    """The id that the tables have for worker-1."""

    def found() -> str:
        description = read_group(str(share_group_job.tables_path), group.id)
        assert description is not None
        (member_id,) = [member.member_id for member in description.members if member.client_id == "worker-1"]
        return member_id

    return found


def test_a_worker_that_is_killed_and_started_again_gets_what_it_had_before_anybody_else(
    group: Group, worker: LoggedProcess, stored_id: Callable[[], str]
) -> None:
    member_id = stored_id()
    worker.kill()
    with group.member(client_id="worker-2", **EXPLICIT) as other:
        wait_until(lambda: other.poll() or group.member_count() == 2, "another worker is there")
        with group.member(client_id="worker-1", **EXPLICIT) as again:
            poll_in_turns([other, again], lambda: len(again.deliveries) == RECORDS)
            assert not other.deliveries
            assert list(again.deliveries.values()) == [[2]] * RECORDS
            assert stored_id() == member_id
            for key in keys(1, RECORDS):
                again.consumer.acknowledge_offset(group.topic, *key)
            again.poll_until(lambda: again.accepted == keys(1, RECORDS))
    wait_until(lambda: group.member_count() == 0, "both have left for good")
    assert group.await_finished().outcomes == {"accepted": RECORDS}


def test_of_two_clients_with_one_name_the_latest_is_served_and_the_other_one_is_told(group: Group) -> None:
    held: list[Record] = []
    with group.member(client_id="worker-1", **EXPLICIT) as first:
        first.poll_until(lambda: len(held) == RECORDS, held.append)
        with group.member(client_id="worker-1", **EXPLICIT) as latest:
            latest.poll_until(lambda: len(latest.deliveries) == RECORDS, latest.acknowledge)
            for record in held:
                first.acknowledge(record)
            assert refusals(first) == {ErrorCode.FENCED_INSTANCE_ID}
            latest.poll_until(lambda: latest.accepted == keys(1, RECORDS))
            assert group.member_count() == 1
            with pytest.raises(KafkaException) as fenced:
                poll_in_turns([first, latest], lambda: False)
            assert fenced.value.args[0].code() == ErrorCode.FENCED_INSTANCE_ID
    assert group.await_finished().outcomes == {"accepted": RECORDS}


def refusals(member: Member) -> set[int]:
    """What the member's acknowledgements are refused with, or the member itself, if that was told before."""
    try:
        answers = member.consumer.commit_sync().values()
    except KafkaException as error:
        return {error.args[0].code()}
    return {error.args[0].code() for error in answers}


@pytest.mark.thorough
def test_a_java_client_ends_when_another_one_takes_its_name(
    gateway: GatewayProcess, group: Group, tmp_path: Path
) -> None:
    arguments = [
        "--bootstrap-server", gateway.bootstrap_servers, "--topic", group.topic, "--group", group.id,
        "--command-property", "client.id=worker-1",
    ]  # fmt: skip
    console = LoggedProcess("the Java client", tool_command(CONSOLE, arguments), tmp_path / "console.log").start()
    try:
        console.await_log(f"record {RECORDS - 1}")
        with group.member(client_id="worker-1") as latest:
            latest.poll_until(lambda: console.exit_code is not None)
        assert "FencedInstanceIdException" in console.log_path.read_text()
    finally:
        console.kill()
