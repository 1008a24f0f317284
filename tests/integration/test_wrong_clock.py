"""The wall clock of the job's machine, or of a Spark member's, is wrong while it runs and when it starts: nothing ends
early or stalls."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from sharegroup.testing.delivery_audit import audit
from sharegroup.types import AcknowledgeType, AcquiredRange
from tests.harness.raw_member import RawMember
from tests.harness.share_group_job import ShareGroupJobRun
from tests.harness.submitted_job import SubmittedJob
from tests.integration.shifted_clock import ShiftedClock, find_compiler
from tests.integration.waiting import wait_until
from tests.integration.whole_log import whole_delivery_log

if TYPE_CHECKING:
    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.integration.conftest import NewTopic

pytestmark = pytest.mark.long

HOUR_S, DAY_S = 3_600, 86_400
#: By which the job's clock is wrong, one after the other; locks and sessions are ten minutes long.
JUMPS_S = (HOUR_S, 0, -HOUR_S, DAY_S, -DAY_S, 0)
RECORDS = 10


class Group:
    """Two members of a group with long locks, and two of one whose locks of four seconds nobody acknowledges."""

    def __init__(self, job: ShareGroupJobRun, topic: str) -> None:
        client = job.client()
        self.client, self.topic = client, topic
        long, short = job.new_group(), job.new_group("short_lock")
        self.worker, self.other = RawMember(client, long), RawMember(client, long)
        self.sleeper, self.heir = RawMember(client, short), RawMember(client, short)
        for member in (self.worker, self.other, self.sleeper, self.heir):
            member.join({topic: 1})

    def append(self) -> None:
        self.client.send_values(self.topic, [b"record"] * RECORDS)


def check_all_goes_on(group: Group, first: int) -> None:
    """What was acquired before is acknowledged, records are given out, sessions go on, and short locks run out.

    The worker holds the records from `first` on, which it was given before the clock was set.
    """
    accepted = group.worker.acknowledge(group.topic, 0, [(first, first + RECORDS - 1, AcknowledgeType.ACCEPT)])
    assert accepted.error_code == 0, accepted
    for member in (group.worker, group.other, group.sleeper, group.heir):
        assert member.heartbeat().error_code == 0
    group.append()
    now_ms = round(time.time() * 1000)
    fetched = group.worker.fetch(group.topic, 0, RECORDS)
    assert fetched.acquired == (AcquiredRange(first + RECORDS, first + 2 * RECORDS - 1, 1),)
    assert now_ms + 600_000 <= fetched.lock_deadline_ms < now_ms + 720_000

    # A lock that nobody acknowledges ends, and one that is acknowledged in time holds.
    assert group.sleeper.fetch(group.topic, 0, 2 * RECORDS).acquired
    (again,) = group.heir.fetch(group.topic, 0, 2 * RECORDS, max_wait_ms=30_000).acquired
    assert again.delivery_count == 2
    batch = again.first_offset, again.last_offset, AcknowledgeType.ACCEPT
    assert group.heir.acknowledge(group.topic, 0, [batch]).error_code == 0


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler here to build a clock that a test sets")
def test_a_wrong_wall_clock_ends_no_lock_and_stalls_nothing(
    kafka: EmbeddedKafka, new_topic: NewTopic, tmp_path: Path
) -> None:
    clock, topic = ShiftedClock(tmp_path), new_topic(1, 0)
    clock.set(HOUR_S)
    with ShareGroupJobRun(
        tmp_path, kafka.bootstrap_servers, prefix="wrong-clock-", environment=clock.environment
    ) as job:
        job.start()
        job.await_running()
        group = Group(job, topic)
        group.append()
        group.worker.fetch(topic, 0, RECORDS)
        first = 0
        for ahead_s in JUMPS_S:
            clock.set(ahead_s)
            check_all_goes_on(group, first)
            first += RECORDS

        job.process.kill()
        clock.set(-HOUR_S)
        job.start()
        job.await_running()
        check_all_goes_on(group, first)

        log = whole_delivery_log(job.tables_path).to_pyarrow_table().to_pylist()
        of_worker = [row for row in log if row["group_id"] == group.worker.group_id]
        assert {row["cause"] for row in of_worker} == {"fetch", "accept"}


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler here to build a clock that a test sets")
@pytest.mark.parametrize("starts_ahead_s", [DAY_S, -DAY_S])
def test_a_spark_member_with_a_wrong_wall_clock_loses_and_delays_nothing(
    kafka: EmbeddedKafka, new_topic: NewTopic, share_group_job: ShareGroupJobRun, tmp_path: Path, starts_ahead_s: int
) -> None:
    """Locks last ten seconds, so a batch that runs is renewed by the member's clock."""
    clock, job, sink = ShiftedClock(tmp_path), share_group_job, tmp_path / "sink"
    group, topic = job.new_group("renewed_lock"), new_topic(1, 0)
    names = job.config.job
    clock.set(starts_ahead_s)
    with SubmittedJob(
        "jobs/consume_acquired_batches.py",
        [
            *("--bootstrap-servers", job.bootstrap_servers, "--group-id", group, "--topics", topic),
            *("--sink", str(sink), "--checkpoint", str(tmp_path / "checkpoint")),
            f"--share-group-requests-topic={names.group_requests_topic}",
            f"--share-partition-requests-topic={names.partition_requests_topic}",
            f"--share-group-responses-topic={names.responses_topic}",
        ],
        tmp_path / "member.log",
        environment=clock.environment,
    ) as member:
        client = job.client()
        for turn, ahead_s in enumerate((starts_ahead_s, *JUMPS_S), 1):
            clock.set(ahead_s)
            client.send_values(topic, [b"record"] * RECORDS)

            def is_there(rows: int = turn * RECORDS) -> bool:
                assert member.exit_code is None, member.log_tail()
                return DeltaTable.is_deltatable(str(sink)) and DeltaTable(str(sink)).count() == rows

            wait_until(is_there, f"the records of turn {turn}, with the clock {ahead_s} s ahead", 240)
        assert member.terminate() == 0

    def of_group() -> list[dict[str, Any]]:
        log = whole_delivery_log(job.tables_path).to_pyarrow_table().to_pylist()
        return [row for row in log if row["group_id"] == group]

    ends = {(topic, 0): RECORDS * (1 + len(JUMPS_S))}
    wait_until(lambda: not audit(str(job.tables_path), group, ends), "all is finished")
    assert {row["cause"] for row in of_group()} <= {"fetch", "accept", "renew", "unacquire"}
    assert max(row["delivery_count"] for row in of_group()) == 1
