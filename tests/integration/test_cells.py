"""Two cells on one broker and one gateway before both; then a group moves from one to the other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient

from sharegroup.errors import ErrorCode
from sharegroup.kafka_clients.row_topics.unread_rows import count_unread_rows
from sharegroup.storage import read_groups
from sharegroup.storage.schemas import SHARE_GROUP_STATE, SHARE_GROUPS
from sharegroup.storage.writing.delta_table import DeltaTableWriter
from sharegroup.testing.gateway_process import GatewayProcess
from sharegroup.types import AcquiredRange
from tests.harness.raw_member import RawMember
from tests.harness.share_group_job import ShareGroupJobRun
from tests.integration.share_members import Member, keys
from tests.integration.waiting import wait_until

if TYPE_CHECKING:
    from sharegroup.testing.embedded_kafka import EmbeddedKafka
    from tests.integration.conftest import NewTopic

pytestmark = pytest.mark.thorough

RECORDS = 20
#: Of a kind that begins at a topic's start.
MOVES, STAYS = "earliest-0", "earliest-1"
EXIT_FAILED = 1


def is_at_rest(job: ShareGroupJobRun, group_id: str) -> bool:
    """Whether it has no member, what came of that is sent (step 4 of the batch), and the job has read all of it."""
    tables, settings = str(job.tables_path), {"bootstrap_servers": job.bootstrap_servers}
    if {row.group_id: row.group_state for row in read_groups(tables)}[group_id] != "Empty":
        return False
    if not all(
        job.is_committed(query, job.next_batch(query) - 1) for query in ("group_coordinator", "share_partition")
    ):
        return False
    unread = 0
    for spec, topic in zip((SHARE_GROUPS, SHARE_GROUP_STATE), job.config.job.topics, strict=False):
        info = DeltaTableWriter(tables, spec).last_info or {}
        positions = {int(partition): offset for partition, offset in info.get("positions", {}).items()}
        unread += count_unread_rows(settings, topic, positions, group_id)
    return not unread


def test_two_cells_behind_one_gateway(kafka: EmbeddedKafka, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic(1, RECORDS)

    def job_of(cell: str, home_of_moves: str = "a") -> ShareGroupJobRun:
        cells = {"cell.names": "a,b", "group.cells": {MOVES: home_of_moves, STAYS: "b"}}
        return ShareGroupJobRun(
            tmp_path, kafka.bootstrap_servers, prefix="cells-", name=f"job-{cell}{home_of_moves}",
            master="local[1]", cells=cells, cell=cell,
        )  # fmt: skip

    with ExitStack() as resources:
        of_a, of_b = (resources.enter_context(job_of(cell)) for cell in "ab")
        for job in (of_a, of_b):
            job.start()
        for job in (of_a, of_b):
            job.await_running()
        gateway = resources.enter_context(GatewayProcess(of_a.config_path, tmp_path / "gateway.log"))
        for group_id in (MOVES, STAYS):
            with Member(gateway.bootstrap_servers, group_id, topic) as member:
                member.poll_until(lambda member=member: member.accepted == keys(1, RECORDS))  # type: ignore[misc]

        # Each in its own tables, and the gateway tells of all.
        listed = {job: [row.group_id for row in read_groups(str(job.tables_path))] for job in (of_a, of_b)}
        assert listed == {of_a: [MOVES], of_b: [STAYS]}
        admin = KafkaAdminClient(bootstrap_servers=gateway.bootstrap_servers)
        listed_by_gateway = {group["group_id"] for group in admin.list_groups()}
        admin.close()
        assert {MOVES, STAYS} <= listed_by_gateway

        # Whoever has another map is told so.
        stray = RawMember(of_b.client(), MOVES)
        assert stray.fetch(topic, 0, 1).error_code == ErrorCode.NOT_COORDINATOR

        assert gateway.terminate() == 0
        wait_until(lambda: is_at_rest(of_a, MOVES), "the member of the group that moves has left, and all is read")
        for job in (of_a, of_b):
            assert job.process.terminate() == 0

        # The configuration alone moves nothing: the job does not start.
        after = resources.enter_context(job_of("b", "b"))
        after.start()
        assert after.process.wait() == EXIT_FAILED
        assert f"cell a have groups that the configuration assigns to another cell: {MOVES}." in after.log
        command = [sys.executable, "-m", "sharegroup.cli", "move-group", "--config", str(after.config_path)]
        for part in ("moved to cell b. Remove", "is already in cell b"):
            moved = subprocess.run([*command, "--group", MOVES, "--from", "a"], capture_output=True, text=True)
            assert moved.returncode == 0, moved.stderr
            assert part in moved.stdout
        shutil.rmtree(after.checkpoint_path)
        after.start()
        client = after.client()
        client.send_value(topic, b"after the move")
        moved_member = RawMember(client, MOVES)
        moved_member.join({topic: 1})
        assert moved_member.fetch(topic, 0, 100).acquired == (AcquiredRange(RECORDS, RECORDS, 1),)
