"""Administrators' requests through both queries and their tables, while the job dies and loses its checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from sharegroup.config import parse_config
from sharegroup.protocol.rows.share_group_requests import (
    AlterConfigsRequest,
    AlterOffsetsRequest,
    DeleteGroupRequest,
    DeleteOffsetsRequest,
    HeartbeatRequest,
    StartOffset,
    TopicDeletedNotice,
    TopicMetadata,
)
from sharegroup.protocol.rows.share_partition_requests import FetchRequest
from sharegroup.storage import read_group, read_group_configs, read_groups, read_share_group_offsets
from sharegroup.storage.reading.state_table import read_states
from sharegroup.storage.rows import DeltaTables, Row
from sharegroup.storage.schemas import SHARE_GROUP_STATE, SHARE_GROUPS, SHARE_PARTITIONS, TableSpec, table_path
from sharegroup.types import ConfigSource
from tests.params import thorough
from tests.tables.two_queries import AGAIN_ID, GROUP, TOPIC_ID, TwoQueries

TOPICS = {"orders": TopicMetadata(TOPIC_ID, 2)}
EARLIEST = parse_config({"groups": {GROUP: {"share.auto.offset.reset": "earliest"}}}, "test")
LOCK = "share.record.lock.duration.ms"

Steps = list[Callable[[], Any]]


#: The first fields of a request for the group: id, group and reply-to.
NAMED = ("x", GROUP, "me")
ALTER_OFFSETS = AlterOffsetsRequest(*NAMED, offsets=(StartOffset("orders", 0, 7),), topics=TOPICS)
DELETE_OFFSETS = DeleteOffsetsRequest(*NAMED, topic_names=("orders",))
DELETE_GROUP = DeleteGroupRequest(*NAMED)


def alter_configs(configs: Mapping[str, str | None]) -> AlterConfigsRequest:
    return AlterConfigsRequest(*NAMED, configs=configs)


def heartbeat(epoch: int, topic_id: str = TOPIC_ID) -> HeartbeatRequest:
    names, topics = ("orders",) if epoch >= 0 else None, {"orders": TopicMetadata(topic_id, 2)}
    return HeartbeatRequest(*NAMED, member_id="m1", member_epoch=epoch, subscribed_topic_names=names, topics=topics)


def fetch(partition: int = 0, topic_id: str = TOPIC_ID) -> FetchRequest:
    named = f"f{partition}", GROUP, "orders", topic_id, partition, "m1", -1, "me"
    return FetchRequest(*named, max_records=100)


def join(job: TwoQueries) -> list[Any]:
    """Join and fetch from both partitions; return what was acquired of each."""
    job.groups(heartbeat(0))
    job.partitions()
    job.groups()
    (assigned,) = job.groups(heartbeat(0))
    assert assigned["assignment"] == {"orders": ["id-orders", [0, 1]]}
    return [response["acquired"] for response in job.partitions(fetch(0), fetch(1))]


def run(steps: Steps, job: TwoQueries, dies_after: int) -> None:
    """Run the steps, with a job that dies after one of them (-1: it does not die)."""
    for number, step in enumerate(steps):
        step()
        if number == dies_after:
            job.lose_checkpoint()
    for _ in range(2):  # the remaining work of a job that died
        job.partitions()
        job.groups()


def used(root: Path) -> TwoQueries:
    """Return a job whose group had records in flight, and whose member has left."""
    job = TwoQueries(root, EARLIEST)
    assert join(job) == [[[0, 9, 1]], [[0, 9, 1]]]
    job.groups(heartbeat(-1))
    return job


@pytest.mark.parametrize("dies_after", [0, *thorough(-1, 1, 2)])
def test_a_group_continues_at_altered_offsets(tmp_path: Path, dies_after: int) -> None:
    job = used(tmp_path)
    run([lambda: job.groups(ALTER_OFFSETS), job.partitions, job.groups], job, dies_after)
    offsets = read_share_group_offsets(str(tmp_path), GROUP)
    assert [(row.partition, row.start_offset, row.state_epoch) for row in offsets] == [(0, 7, 5), (1, 0, 2)]
    assert join(job)[0] == [[7, 9, 1]]


def test_an_altered_offset_and_its_lag_are_known_before_the_reset(tmp_path: Path) -> None:
    job = used(tmp_path)
    before = read_share_group_offsets(str(tmp_path), GROUP)
    assert [tuple(row) for row in before] == [("orders", "id-orders", p, 0, 1, 0, 2) for p in (0, 1)]
    job.groups(ALTER_OFFSETS)
    altered = read_share_group_offsets(str(tmp_path), GROUP)
    assert altered == (("orders", "id-orders", 0, 7, -1, 0, 5), before[1])
    job.partitions()
    assert read_share_group_offsets(str(tmp_path), GROUP)[0] == ("orders", "id-orders", 0, 7, 1, 0, 5)


@pytest.mark.parametrize("dies_after", [1, *thorough(-1, 0, 2)])
@pytest.mark.parametrize("delete", [DELETE_OFFSETS, DELETE_GROUP], ids=lambda request: request.type)
def test_deleted_states_start_again(
    tmp_path: Path, delete: DeleteOffsetsRequest | DeleteGroupRequest, dies_after: int
) -> None:
    job = used(tmp_path)
    run([lambda: job.groups(delete), job.partitions, job.groups], job, dies_after)
    is_kept = isinstance(delete, DeleteOffsetsRequest)
    assert job.table(SHARE_PARTITIONS) == []
    assert [row.group_id for row in read_groups(str(tmp_path))] == ([GROUP] if is_kept else [])
    assert len(job.table(SHARE_GROUPS)) == is_kept
    assert read_share_group_offsets(str(tmp_path), GROUP) == ()
    tombstones = [row for row in job.table(SHARE_GROUP_STATE) if row["record_type"] == "Tombstone"]
    assert {row["partition"] for row in tombstones} == {0, 1}
    assert join(job) == [[[0, 9, 1]], [[0, 9, 1]]]  # by share.auto.offset.reset, and the first delivery


@pytest.mark.parametrize("dies_after", [1, *thorough(-1, 0, 2)])
def test_a_topic_subscribed_to_during_its_deletion_starts_again(tmp_path: Path, dies_after: int) -> None:
    job = used(tmp_path)
    steps: Steps = [lambda: job.groups(DELETE_OFFSETS), lambda: job.groups(heartbeat(0)), job.partitions]
    run(steps, job, dies_after)
    assert [row["status"] for row in job.table(SHARE_PARTITIONS)] == ["initialized"] * 2
    assert [response["acquired"] for response in job.partitions(fetch(0), fetch(1))] == [[[0, 9, 1]], [[0, 9, 1]]]


@pytest.mark.parametrize("dies_after", [1, 2, *thorough(-1, 0, 3)])
def test_a_recreated_topic_starts_again(tmp_path: Path, dies_after: int) -> None:
    job = TwoQueries(tmp_path, EARLIEST)
    join(job)
    again = heartbeat(0, AGAIN_ID)
    steps: Steps = [
        lambda: job.groups(TopicDeletedNotice(*NAMED, topic_ids=(TOPIC_ID,))),
        lambda: job.groups(again),
        job.partitions,
        job.groups,
    ]
    run(steps, job, dies_after)
    (assigned,) = job.groups(again)
    assert assigned["assignment"] == {"orders": [AGAIN_ID, [0, 1]]}
    fetched = job.partitions(fetch(0, AGAIN_ID), fetch(1, AGAIN_ID))
    assert [response["acquired"] for response in fetched] == [[[0, 9, 1]], [[0, 9, 1]]]
    offsets = read_share_group_offsets(str(tmp_path), GROUP)
    assert [(row.topic_id, row.partition, row.start_offset) for row in offsets] == [(AGAIN_ID, 0, 0), (AGAIN_ID, 1, 0)]
    assert {row["topic_id"] for row in job.table(SHARE_PARTITIONS)} == {AGAIN_ID}
    assert {key.topic_id for key in read_states(DeltaTable(table_path(str(tmp_path), SHARE_GROUP_STATE)))} == {AGAIN_ID}


@pytest.mark.parametrize("dies_after", [0, *thorough(-1, 1)])
def test_a_config_is_in_force_in_both_queries(tmp_path: Path, dies_after: int) -> None:
    job = TwoQueries(tmp_path, EARLIEST)
    configs: dict[str, str | None] = {LOCK: "40000", "share.heartbeat.interval.ms": "7000"}
    run([lambda: job.groups(alter_configs(configs)), job.partitions], job, dies_after)
    job.groups(heartbeat(0))
    job.partitions()
    job.groups()
    (response,) = job.groups(heartbeat(0))
    assert response["heartbeat_interval_ms"] == 7_000
    (fetched,) = job.partitions(fetch(0))
    assert fetched["lock_deadline_ms"] == job.now_ms + 40_000
    assert read_group_configs(str(tmp_path)) == {GROUP: configs}
    of_file = read_group_configs(str(tmp_path), ConfigSource.STATIC_BROKER_CONFIG)
    assert of_file == {GROUP: {"share.auto.offset.reset": "earliest"}}

    job.groups(alter_configs({LOCK: "50000"}))
    job.groups(alter_configs({"share.heartbeat.interval.ms": None}))
    (fetched,) = job.partitions(fetch(1))
    assert fetched["lock_deadline_ms"] == job.now_ms + 50_000
    assert read_group_configs(str(tmp_path)) == {GROUP: {LOCK: "50000"}}


def test_a_group_is_described_from_its_tables(tmp_path: Path) -> None:
    job = TwoQueries(tmp_path, EARLIEST)
    join(job)
    group = read_group(str(tmp_path), GROUP)
    assert group is not None
    assert [tuple(row) for row in read_groups(str(tmp_path))] == [(GROUP, "Stable")]
    assert group[:4] == (GROUP, "Stable", 3, 3)
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.subscribed_topic_names) == ("m1", 3, ("orders",))
    assert member.assignment == {"orders": ("id-orders", (0, 1))}
    assert [tuple(row) for row in group.share_partitions] == [
        ("orders", "id-orders", partition, "initialized", 2, -1) for partition in (0, 1)
    ]
    assert group.topic_ids == {"orders": "id-orders"}
    job.groups(heartbeat(-1))
    job.groups(DELETE_GROUP)
    assert (read_group(str(tmp_path), GROUP), read_groups(str(tmp_path))) == (None, ())
    assert read_group(str(tmp_path), "unknown") is None
    assert read_share_group_offsets(str(tmp_path), "unknown") == ()


class WrittenBetween(DeltaTables):
    """Tables that run `write` once, as soon as one of them was read."""

    def __init__(self, tables_path: str, write: Callable[[], object]) -> None:
        super().__init__(tables_path)
        self._writes = [write]

    def rows(self, spec: TableSpec, group_ids: Collection[str] | None = None) -> list[Row]:
        found = super().rows(spec, group_ids)
        while self._writes:
            self._writes.pop()()
        return found


@pytest.mark.parametrize("member_id", ["m1", "m2"])
def test_no_member_is_ahead_of_its_group_if_written_between_two_reads(tmp_path: Path, member_id: str) -> None:
    """Another member joins, or the only one leaves: the description matches the members that it contains."""
    job = TwoQueries(tmp_path, EARLIEST)
    join(job)
    row = heartbeat(0 if member_id == "m2" else -1)
    tables = WrittenBetween(str(tmp_path), lambda: job.groups(dataclasses.replace(row, member_id=member_id)))
    group = read_group(tables, GROUP)
    assert group is not None
    assert group.group_state == ("Stable" if group.members else "Empty")
    assert group.group_epoch > 3
    assert all(member.member_epoch <= group.group_epoch for member in group.members)
