"""Nonsense, and requests that mean others' records, while members hold locks: a job, logins and rights behind it.

Strangers send it without a login, and a user who has rights to other things sends it behind his. Members who go by the
rules are judged from outside meanwhile, by the simulation's judge, and by the tables in the end.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sharegroup.storage import read_group, read_group_configs
from sharegroup.testing.gateway_process import GatewayProcess
from tests.integration.fuzzed_frames import mutated, requests, send_all
from tests.integration.lone_gateway import gateway_to_job
from tests.integration.outside_judge import OutsideJudge
from tests.integration.secured_clients import Secrets
from tests.integration.share_members import Group, Member, keys, once
from tests.integration.waiting import wait_until

if TYPE_CHECKING:
    from kafka import KafkaProducer

    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.harness.share_group_job import ShareGroupJobRun
    from tests.integration.conftest import NewTopic

pytestmark = pytest.mark.long

ALICE, MALLORY = "alice", "mallory"
ROUNDS, CLIENTS, FRAMES_OF_A_CLIENT = 10, 40, 25
#: Of the gateway's memory, whatever comes.
MAX_BYTES = 400 * 1_048_576
#: Of the group kind that is used here, in ms.
LOCK_MS = SESSION_MS = 600_000
HELD, MEANWHILE = 100, 200
LOGIN = {
    "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": ALICE,
    "sasl_password": f"{ALICE}'s secret", "share_acknowledgement_mode": "explicit",
}  # fmt: skip
ACL = [
    {"principal": "User:alice", "resource": "topic", "name": "*", "operations": ["Read"]},
    {"principal": "User:alice", "resource": "group", "prefix": "all_at_once-", "operations": ["Read"]},
    {"principal": "User:mallory", "resource": "topic", "prefix": "topic-mallorys", "operations": ["All"]},
    {"principal": "User:mallory", "resource": "group", "name": "mallorys", "operations": ["All"]},
]


@pytest.fixture(scope="module")
def gateway(share_group_job: ShareGroupJobRun, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """With users and rights, to the main job."""
    directory = tmp_path_factory.mktemp("fuzzed-gateway")
    secrets = Secrets(directory, (ALICE, MALLORY), ACL)
    keys = {
        "gateway.sasl.users.location": secrets.path("users.yaml"),
        "gateway.acls.location": secrets.path("acl.yaml"),
        # Who sends nonsense as a login is not to wait here, and neither is who logs in from the same address.
        "gateway.connection.failed.authentication.delay.ms": 0,
    }
    with gateway_to_job(share_group_job, directory, keys) as process:
        yield process
    assert "Traceback" not in process.log_path.read_text()


class Attack(threading.Thread):
    """Sends rounds of frames to a port, until it is told to stop or all are sent."""

    def __init__(self, port: int, aims: dict[str, list[object]]) -> None:
        super().__init__()
        self._port, self._aims = port, aims
        self.rounds = self.connections = 0
        self.problem: BaseException | None = None

    def run(self) -> None:
        try:
            self._attack()
        except BaseException as error:  # noqa: BLE001 - raised where the test waits
            self.problem = error

    def _attack(self) -> None:
        @settings(
            derandomize=True, max_examples=ROUNDS, deadline=None, database=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(st.lists(requests(self._aims), min_size=40, max_size=40), st.integers(0, 2**64))
        def attack(valid: list[bytes], seed: int) -> None:
            choice = random.Random(seed)
            frames = [
                [mutated(choice.choice(valid), choice) for _ in range(FRAMES_OF_A_CLIENT)] for _ in range(CLIENTS)
            ]
            self.connections += asyncio.run(self._send(frames))
            self.rounds += 1

        attack()

    async def _send(self, frames: list[list[bytes]]) -> int:
        logins = [None, f"\0{MALLORY}\0{MALLORY}'s secret".encode()]
        sent = (send_all(self._port, of_client, logins[at % 2]) for at, of_client in enumerate(frames))
        return sum(await asyncio.gather(*sent))


def aims_at(group: Group, member_ids: list[str], kafka: EmbeddedKafka, own_topic: str) -> dict[str, list[object]]:
    """What is there, by the names of the fields that would mean it: half of it is the attacker's own."""
    described = {topic["name"]: topic for topic in kafka.admin_client().describe_topics([group.topic, own_topic])}
    ids = [described[name]["topic_id"] for name in (group.topic, own_topic)]
    groups: list[object] = [group.id, "mallorys"]
    names: list[object] = [group.topic, own_topic]
    members: list[object] = [*member_ids, "mallorys-member"]
    return {
        "group_id": groups, "group_ids": groups, "groups_names": groups, "coordinator_keys": groups, "key": groups,
        "resource_name": [*groups, *names], "resource_type": [2, 32], "member_id": members, "member_epoch": [0, 1, -1],
        "share_session_epoch": [0, 1, -1], "topic_id": list(ids), "name": names, "topic_name": names,
        "subscribed_topic_names": names, "partition_index": [0, 1], "first_offset": [0, 10], "last_offset": [9, 50],
        "acknowledge_types": [0, 1, 2, 3, 4], "max_wait_ms": [0, 50], "start_offset": [0, 20],
    }  # fmt: skip


def test_nobody_elses_records_are_touched(
    gateway: GatewayProcess,
    share_group_job: ShareGroupJobRun,
    kafka: EmbeddedKafka,
    producer: KafkaProducer,
    new_topic: NewTopic,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    tables, port = str(share_group_job.tables_path), int(gateway.bootstrap_servers.rpartition(":")[2])
    kafka.create_topic("topic-mallorys")
    group = Group(share_group_job, gateway.bootstrap_servers, new_topic(2, HELD // 2), "all_at_once")
    process = psutil.Process(gateway.pid)
    with (
        OutsideJudge(group, kafka.bootstrap_servers, LOCK_MS, SESSION_MS) as judge,
        group.member(**LOGIN) as holder,
        group.member(joins_later=True, **LOGIN) as worker,
    ):
        judge.joined("holder")
        held = []
        while not held:
            held = holder.poll()
        judge.given("holder", held)
        worker.join()
        judge.joined("worker")

        def work() -> None:
            records = worker.poll()
            judge.given("worker", records)
            for record in records:
                judge.acknowledges("worker", record)
                worker.acknowledge(record)
            judge.hear("worker", worker)

        def is_worked_off() -> bool:
            work()
            return len(held) + len(worker.accepted) == HELD

        wait_until(is_worked_off, "what is not held is acknowledged")
        wait_until(lambda: group.member_count() == 2, "both are members")
        found = read_group(tables, group.id)
        assert found is not None
        attack = Attack(port, aims_at(group, [member.member_id for member in found.members], kafka, "topic-mallorys"))
        attack.start()
        wait_until(lambda: attack.rounds > 0 or attack.problem is not None, "the attack is on")
        number = 0
        while attack.is_alive() or number < MEANWHILE:
            if number < MEANWHILE:
                producer.send(group.topic, b"%d" % number, partition=number % 2)
                number += 1
            work()
        attack.join()
        if attack.problem is not None:
            raise attack.problem
        assert attack.rounds >= ROUNDS
        assert attack.connections > ROUNDS * CLIENTS  # much of it is nonsense, and ends the connection
        wait_until(lambda: is_all_but_held(work, worker, len(held)), "everything but what is held is acknowledged")
        for record in held:
            judge.acknowledges("holder", record)
            holder.acknowledge(record)

        def is_answered() -> bool:
            judge.given("holder", holder.poll())
            judge.hear("holder", holder)
            return len(holder.accepted) == len(held)

        wait_until(is_answered, "what was held is acknowledged")
        assert judge.violations == []
        assert judge.acknowledged == HELD + MEANWHILE
        assert once(holder, worker)
        assert holder.accepted | worker.accepted == keys(2, (HELD + MEANWHILE) // 2)
        now = read_group(tables, group.id)
        assert now is not None
        assert {member.member_id for member in now.members} == {member.member_id for member in found.members}
        assert process.memory_info().rss < MAX_BYTES
    finished = group.await_finished()
    assert (finished.outcomes, finished.lock_timeouts) == ({"accepted": HELD + MEANWHILE}, 0)
    assert group.id not in read_group_configs(tables)


def is_all_but_held(work: object, worker: Member, held: int) -> bool:
    """Whether the worker has done all that the holder has not."""
    assert callable(work)
    work()
    return len(worker.accepted) == HELD + MEANWHILE - held


def test_the_judge_would_see_it(
    gateway: GatewayProcess, share_group_job: ShareGroupJobRun, kafka: EmbeddedKafka, new_topic: NewTopic
) -> None:
    """It is not told that a member has gone, whose records go to another then: so it looks when someone takes them."""
    group = Group(share_group_job, gateway.bootstrap_servers, new_topic(1, 5), "all_at_once")
    with OutsideJudge(group, kafka.bootstrap_servers, LOCK_MS, SESSION_MS) as judge:
        held = []
        with group.member(**LOGIN) as holder:
            judge.joined("holder")
            while not held:
                held = holder.poll()
            judge.given("holder", held)
        with group.member(**LOGIN) as other:
            judge.joined("other")
            given: set[object] = set()

            def is_given() -> bool:
                records = other.poll()
                judge.given("other", records)
                given.update(record.key for record in records)
                return given >= {record.key for record in held}

            wait_until(is_given, "another has what was held")
        assert [violation.rule for violation in judge.violations] == ["held by another"]  # told once a share-partition
