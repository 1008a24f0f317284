"""A rolling upgrade: this version's job starts on what a job of the version before left.

When a format changes so that this job cannot go on from that checkpoint, it has to say what to do: then this test says
so in its place, and the fixture is made anew by the version that is the one before from then on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from sharegroup.errors import ErrorCode
from sharegroup.tables import table_path
from sharegroup.tables.schemas import DELIVERY_LOG, SHARE_GROUP_JOB
from sharegroup.testkit.raw_member import RawMember
from sharegroup.testkit.share_group_job import ShareGroupJobRun
from tests.integration.earlier_job import GROUP, IN_FLIGHT, PREFIX, TOPIC, make_topics, unpack
from tests.integration.waiting import wait_until

if TYPE_CHECKING:
    from sharegroup.testkit.embedded_kafka import EmbeddedKafka

pytestmark = pytest.mark.thorough


@pytest.mark.timeout(300)
def test_a_job_goes_on_from_the_checkpoint_of_the_version_before(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """The state of its operators is in the checkpoint: the locks that it knows are over by now."""
    unpack(tmp_path)
    make_topics(kafka.bootstrap_servers, tmp_path)
    as_left = {"topic.deletion.grace.ms": 86_400_000}  # the topic that it read is not on this broker
    with ShareGroupJobRun(tmp_path, kafka.bootstrap_servers, prefix=PREFIX, job=as_left, master="local[1]") as job:
        tables = str(job.tables_path)

        def rows_of(cause: str) -> set[tuple[int, int, str, int]]:
            log = DeltaTable(table_path(tables, DELIVERY_LOG)).to_pyarrow_table().to_pylist()
            return {
                (row["first_offset"], row["last_offset"], row["from_state"], row["delivery_count"])
                for row in log
                if row["cause"] == cause
            }

        job.start()
        job.await_running()
        locked = {row for row in IN_FLIGHT if row[2] == "ACQUIRED"}
        wait_until(lambda: rows_of("lock_timeout") == locked, "the locks that were in the checkpoint run out")
        starts = DeltaTable(table_path(tables, SHARE_GROUP_JOB)).to_pyarrow_table().to_pylist()
        for query in ("group_coordinator", "share_partition"):
            assert len({row["query_id"] for row in starts if row["query"] == query}) == 1, "the same checkpoint"
            assert len([row for row in starts if row["query"] == query]) == 2

        other = RawMember(job.client(), GROUP)
        other.topic_ids = {TOPIC: _topic_id(tables)}
        refused = other.acknowledge(TOPIC, 0, [(0, 2, 1)])
        assert refused.error_code == ErrorCode.INVALID_RECORD_STATE


def _topic_id(tables: str) -> str:
    (topic_id,) = set(DeltaTable(table_path(tables, DELIVERY_LOG)).to_pyarrow_table()["topic_id"].to_pylist())
    return str(topic_id)
