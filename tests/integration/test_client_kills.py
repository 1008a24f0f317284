"""A process with the share consumer for Python is killed at any moment: nothing is lost, and attempts are counted."""

from __future__ import annotations

import random
import re
import signal
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaError

from sharegroup.kafka_clients.admin import ShareGroupAdmin
from sharegroup.storage.reading.sql import run_query
from sharegroup.testing.delivery_audit import audit
from sharegroup.testing.logged_process import LoggedProcess
from tests.harness.share_group_job import ShareGroupJobRun
from tests.integration.client_groups import Group, NewGroup
from tests.integration.waiting import wait_until

pytestmark = pytest.mark.thorough

#: A dead member may acquire a record twice: Kafka may also complete its last fetch after its end. So no record reaches
#: the limit.
KILLS, LIMIT, RECORDS = 4, 10, 400
#: The last moment of a life. A life without a kill has about a thousand.
LAST_MOMENT = 150


class Life(NamedTuple):
    """What one process has printed: the delivery counts of the records that it handled, and confirmed offsets."""

    handled: dict[int, list[int]]
    acknowledged: set[int]


def life_of(log: Path) -> Life:
    handled: dict[int, list[int]] = {}
    text = log.read_text()
    for offset, count in re.findall(r"^handled (\d+) (\d+)$", text, re.MULTILINE):
        handled.setdefault(int(offset), []).append(int(count))
    return Life(handled, set(map(int, re.findall(r"^acknowledged (\d+)$", text, re.MULTILINE))))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_killed_members_lose_nothing_and_their_attempts_count(
    seed: int, new_client_group: NewGroup, admin: ShareGroupAdmin, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Lives of one member end at random moments; the last one finishes the rest."""
    group = new_client_group(1, RECORDS, share_delivery_count_limit=str(LIMIT))
    randomness = random.Random(seed)
    logs = [tmp_path / f"life-{number}.log" for number in range(KILLS + 1)]
    for log in logs[:-1]:
        with member_of(group, randomness.randint(1, LAST_MOMENT), log) as member:
            assert member.wait() == -signal.SIGKILL, member.log_tail()
    with member_of(group, 0, logs[-1]) as last:
        wait_until(lambda: is_finished(group, admin), "all records are finished")
        assert last.terminate() == 0, last.log_tail()

    lives = [life_of(log) for log in logs]
    handled = {offset: [count for life in lives for count in life.handled.get(offset, ())] for offset in range(RECORDS)}
    assert [offset for offset, counts in handled.items() if not counts] == []
    for counts in handled.values():
        assert counts == sorted(set(counts))
        assert counts[-1] <= LIMIT
    assert max(counts[-1] for counts in handled.values()) > 1, "no record was in hand at a kill"
    for number, life in enumerate(lives):
        later = {offset for other in lives[number + 1 :] for offset in other.handled}
        assert not life.acknowledged & later
    if group.served.is_gateway:
        check_tables(group, request.getfixturevalue("share_group_job"), handled)


def member_of(group: Group, moment: int, log: Path) -> LoggedProcess:
    command = [sys.executable, "-m", "tests.integration.mortal_member", group.served.bootstrap_servers]
    return LoggedProcess("the member", [*command, group.id, group.topic, str(moment)], log)


def is_finished(group: Group, admin: ShareGroupAdmin) -> bool:
    partition = TopicPartition(group.topic, 0)
    try:
        return admin.list_group_offsets(group.id, [partition])[partition].lag == 0
    except KafkaError:
        return False


def check_tables(group: Group, job: ShareGroupJobRun, handled: dict[int, list[int]]) -> None:
    """Each record is accepted once, the job counts each attempt, and the members saw no other counts."""
    tables = str(job.tables_path)
    wait_until(lambda: not audit(tables, group.id, {(group.topic, 0): RECORDS}), "the tables are complete")
    rows = run_query(
        tables,
        "SELECT first_offset, last_offset, delivery_count FROM delivery_log "
        f"WHERE group_id = '{group.id}' AND cause = 'fetch'",
    ).to_pylist()
    for offset, counts in handled.items():
        attempts = {row["delivery_count"] for row in rows if row["first_offset"] <= offset <= row["last_offset"]}
        assert attempts == set(range(1, len(attempts) + 1))
        assert set(counts) <= attempts
        assert counts[-1] == len(attempts)
