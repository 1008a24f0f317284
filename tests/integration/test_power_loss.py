"""The machine of the job loses power in the middle of a commit: files are torn, and the job comes back by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.job.lead.checkpoint_mark import MARK
from sharegroup.types import AcknowledgeType, AcquiredRange
from tests.harness.raw_member import RawMember
from tests.harness.share_group_job import ShareGroupJobRun
from tests.tables.torn_tables import entries, tear

if TYPE_CHECKING:
    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.integration.conftest import NewTopic

pytestmark = pytest.mark.long

QUERIES = ("group_coordinator", "share_partition")


def tear_checkpoint(folder: Path) -> None:
    """Spark syncs nothing: its newest files are empty. The machine has started again since they were written."""
    for name in ("offsets", "commits", "state/0/0"):
        newest = max((folder / name).iterdir(), key=lambda path: path.stat().st_mtime)
        newest.write_bytes(b"")
    (folder / "metadata").write_bytes(b"")
    mark = folder / MARK
    mark.write_text(json.dumps(json.loads(mark.read_text()) | {"boot_id": "the start before"}))


def test_a_job_comes_back_from_torn_tables_and_checkpoints(
    kafka: EmbeddedKafka, new_topic: NewTopic, tmp_path: Path
) -> None:
    with ShareGroupJobRun(tmp_path, kafka.bootstrap_servers, prefix="power-loss-", master="local[1]") as job:
        job.start()
        job.await_running()
        topic = new_topic(1, 20)
        member = RawMember(job.client(), job.new_group("restart_lock"))
        member.join({topic: 1})
        assert member.fetch(topic, 0, 12).acquired == (AcquiredRange(0, 11, 1),)
        assert member.acknowledge(topic, 0, [(0, 3, AcknowledgeType.ACCEPT)]).error_code == ErrorCode.NONE
        assert job.process.terminate() == 0

        # The job dies when step 2 of a batch is in the table; what is torn is this commit, of which nobody was told.
        job.start(f"share_partition:2:{job.next_batch('share_partition')}")
        request = member.acknowledge_request(topic, 0, [(4, 7, AcknowledgeType.ACCEPT)])
        member.client.send(request)
        assert job.process.wait() != 0
        tear(entries(tmp_path / "tables" / "share_group_state")[-1], "empty")
        for query in QUERIES:
            tear_checkpoint(tmp_path / "checkpoint" / query)

        job.start()
        assert member.client.await_response(request.id).error_code == ErrorCode.NONE
        acquired = member.fetch(topic, 0, 100).acquired  # with those whose locks have run out meanwhile
        assert (min(acquired).first_offset >= 8, max(acquired)) == (True, AcquiredRange(12, 19, 1))
        assert "table share_group_state: version" in job.log
        assert "is lost, probably by a power loss: its log entry is empty" in job.log
        for query in QUERIES:
            assert f"query {query}: the checkpoint may be damaged" in job.log
        assert job.process.terminate() == 0
