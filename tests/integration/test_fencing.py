"""One job leads: a second one on the same tables takes the lead, and the first one stops before it does harm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.types import AcknowledgeType, AcquiredRange
from tests.harness.raw_member import RawMember, RequestClient
from tests.harness.share_group_job import ShareGroupJobRun
from tests.integration.waiting import wait_until
from tests.integration.whole_log import whole_delivery_log

if TYPE_CHECKING:
    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.integration.conftest import NewTopic

pytestmark = pytest.mark.long

EXIT_STALE, EXIT_FENCED = 1, 3
#: Two jobs that start at once share the machine with each other.
_STARTS_S = 400


def exit_codes_once_one_has_ended(*jobs: ShareGroupJobRun) -> list[int | None]:
    ended = "one of the jobs ends"
    wait_until(lambda: any(job.process.exit_code is not None for job in jobs), ended, _STARTS_S)
    return [job.process.exit_code for job in jobs]


class Jobs:
    """Jobs on the same tables and topics; each has its own file, log and, by name, checkpoint."""

    def __init__(self, bootstrap_servers: str, directory: Path, prefix: str) -> None:
        self._bootstrap_servers, self._directory, self._prefix = bootstrap_servers, directory, prefix
        self._numbers = iter(range(10))

    def another(self, checkpoint: str) -> ShareGroupJobRun:
        return ShareGroupJobRun(
            self._directory,
            self._bootstrap_servers,
            prefix=self._prefix,
            name=f"job-{next(self._numbers)}",
            job={"checkpoint.path": str(self._directory / checkpoint)},
            master="local[1]",
        )


def test_of_two_jobs_that_start_at_once_one_runs_and_one_is_fenced(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    jobs = Jobs(kafka.bootstrap_servers, tmp_path, "at-once-")
    with jobs.another("one") as one, jobs.another("other") as other, jobs.another("third") as third:
        for job in (one, other):
            job.start()
        codes = exit_codes_once_one_has_ended(one, other)
        assert sorted(map(str, codes)) == [str(EXIT_FENCED), "None"]
        first, fenced = (one, other) if codes[0] is None else (other, one)
        assert "FENCED_LEADER_EPOCH" in fenced.log
        first.await_running()

        # One that has nothing to commit hears of a later one, too.
        third.start()
        assert first.process.wait() == EXIT_FENCED
        third.await_running()
        assert third.process.terminate() == 0


def test_of_two_jobs_on_the_same_tables_one_is_fenced_and_the_other_serves(
    kafka: EmbeddedKafka, new_topic: NewTopic, tmp_path: Path
) -> None:
    jobs = Jobs(kafka.bootstrap_servers, tmp_path, "fencing-")
    with jobs.another("one") as first, jobs.another("other") as second, jobs.another("other") as third:
        first.start()
        first.await_running()
        client = RequestClient(kafka.bootstrap_servers, first.config.job)
        member = RawMember(client, first.new_group())
        topic = new_topic(1, 30)
        member.join({topic: 1})
        assert member.fetch(topic, 0, 10).acquired == (AcquiredRange(0, 9, 1),)

        # With another checkpoint: the first one notices when it next commits, or looks who leads.
        second.start()
        second.await_running()
        accepted = member.acknowledge(topic, 0, [(0, 4, AcknowledgeType.ACCEPT)])
        assert accepted.error_code == ErrorCode.NONE
        assert first.process.wait() == EXIT_FENCED
        assert "FENCED_LEADER_EPOCH" in first.log

        # With the same checkpoint: whichever of the two is fenced, one goes on.
        third.start()
        third.await_running()
        assert member.acknowledge(topic, 0, [(5, 9, AcknowledgeType.ACCEPT)]).error_code == ErrorCode.NONE
        assert sorted(map(str, exit_codes_once_one_has_ended(second, third))) == [str(EXIT_FENCED), "None"]
        assert member.fetch(topic, 0, 10).acquired == (AcquiredRange(10, 19, 1),)
        assert member.acknowledge(topic, 0, [(10, 19, AcknowledgeType.ACCEPT)]).error_code == ErrorCode.NONE

        # A checkpoint that the tables have left behind is not gone on from.
        first.start()
        assert first.process.wait() == EXIT_STALE
        assert "remove that checkpoint" in first.log

        assert member.fetch(topic, 0, 100).acquired == (AcquiredRange(20, 29, 1),)
        log = whole_delivery_log(first.tables_path).to_pyarrow_table().to_pylist()
        assert sorted((row["first_offset"], row["last_offset"], row["cause"]) for row in log) == [
            (0, 4, "accept"),
            (0, 9, "fetch"),
            (5, 9, "accept"),
            (10, 19, "accept"),
            (10, 19, "fetch"),
            (20, 29, "fetch"),
        ]
        client.close()
