"""What may be pruned: never what recovery needs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from sharegroup.job.commit.table_rows import stamp_rows
from sharegroup.storage.schemas import DELIVERY_LOG, SHARE_GROUP_STATE, TableSpec, table_path
from sharegroup.storage.upkeep.retention import delivery_log_predicate, state_predicate
from sharegroup.storage.upkeep.state_base_upkeep import StateBaseUpkeep
from sharegroup.storage.writing.delta_table import open_or_create
from sharegroup.storage.writing.versioned_table import Upkeep

NOW = datetime(2024, 5, 20, 1, tzinfo=UTC)
WEEK_MS = 7 * 86_400_000
UPKEEP = Upkeep(timedelta(hours=24), 1_000)


def write(root: Path, spec: TableSpec, days_ago: int, **values: Any) -> None:
    row = {"group_id": "g", "topic": "orders", "topic_id": "orders-1", "partition": 0} | values
    now_ms = int((NOW - timedelta(days=days_ago)).timestamp() * 1000)
    batch_id = open_or_create(str(root), spec).version()
    stamped = stamp_rows([row], leader_epoch=1, batch_id=batch_id, now_ms=now_ms)
    table = pa.Table.from_pylist(stamped, schema=spec.schema)
    write_deltalake(table_path(str(root), spec), table, mode="append")


def snapshot(root: Path, days_ago: int, partition: int = 0, record_type: str = "ShareSnapshot", **values: Any) -> None:
    """Write a record: a snapshot, or an update of the record before it."""
    epoch = 100 - days_ago - (record_type == "ShareUpdate")
    numbers = {"snapshot_epoch": epoch, "state_epoch": 0, "start_offset": 5, "end_offset": 9}
    numbers |= {"delivery_complete_count": 0, "state_batches": []}
    write(root, SHARE_GROUP_STATE, days_ago, partition=partition, record_type=record_type, **numbers | values)


def of_log(root: Path, retention_ms: int = WEEK_MS) -> str | None:
    return delivery_log_predicate(open_or_create(str(root), DELIVERY_LOG), retention_ms, NOW)


def of_state(root: Path, least_records: int = 1) -> str | None:
    """Return the predicate after the base was written, if it is due."""
    state = open_or_create(str(root), SHARE_GROUP_STATE)
    return state_predicate(state, StateBaseUpkeep(str(root), None, least_records).run(state, UPKEEP), NOW)


def test_new_tables_have_nothing_to_prune(tmp_path: Path) -> None:
    assert of_log(tmp_path) is None
    assert of_state(tmp_path) is None


@pytest.mark.parametrize(("days_ago", "pruned"), [(7, False), (8, False), (9, True)])
def test_the_delivery_log_keeps_its_retention(tmp_path: Path, days_ago: int, pruned: bool) -> None:
    write(tmp_path, DELIVERY_LOG, days_ago)
    assert of_log(tmp_path) == ("day < '2024-05-12'" if pruned else None)


def test_the_longest_retention_can_be_reckoned_with(tmp_path: Path) -> None:
    write(tmp_path, DELIVERY_LOG, 9)
    assert of_log(tmp_path, 36_500 * 86_400_000) is None


def test_state_is_kept_for_two_days_after_a_newer_snapshot(tmp_path: Path) -> None:
    for days_ago in (5, 2, 0):
        snapshot(tmp_path, days_ago)
    assert of_state(tmp_path) == "day < '2024-05-18'"


def test_an_unmanaged_share_partition_keeps_its_state(tmp_path: Path) -> None:
    for days_ago in (9, 6, 0):
        snapshot(tmp_path, days_ago)
    snapshot(tmp_path, 9, partition=1)
    snapshot(tmp_path, 6, partition=1)  # its topic was deleted then
    snapshot(tmp_path, 5, partition=1, record_type="ShareUpdate")
    assert of_state(tmp_path) == "day < '2024-05-14'"


def test_a_deleted_share_partition_needs_no_state(tmp_path: Path) -> None:
    for days_ago in (9, 6, 0):
        snapshot(tmp_path, days_ago)
    snapshot(tmp_path, 9, partition=1)
    snapshot(tmp_path, 8, partition=1, record_type="Tombstone")
    assert of_state(tmp_path) == "day < '2024-05-18'"
    snapshot(tmp_path, 7, partition=1)  # created again, and not written since
    assert of_state(tmp_path) == "day < '2024-05-13'"


def test_a_topic_made_again_is_another_one(tmp_path: Path) -> None:
    for days_ago in (9, 6):
        snapshot(tmp_path, days_ago)
    snapshot(tmp_path, 5, topic_id="orders-2")
    snapshot(tmp_path, 0, topic_id="orders-2")
    assert of_state(tmp_path) == "day < '2024-05-14'"
    snapshot(tmp_path, 4, record_type="Tombstone")
    assert of_state(tmp_path) == "day < '2024-05-18'"


def test_rows_of_an_earlier_version_are_not_kept_for_ever(tmp_path: Path) -> None:
    """They have no topic id, and a start has written their content again."""
    snapshot(tmp_path, 9, topic_id=None)
    snapshot(tmp_path, 6)
    assert of_state(tmp_path) == "day < '2024-05-14'"


def test_where_everything_is_needed_nothing_is_pruned(tmp_path: Path) -> None:
    snapshot(tmp_path, 30)
    assert of_state(tmp_path) is None


def test_records_after_the_base_are_kept(tmp_path: Path) -> None:
    """However old the day is, because a job with a wrong clock wrote it."""
    for days_ago in (9, 0):
        snapshot(tmp_path, days_ago)
    assert of_state(tmp_path) == "day < '2024-05-18'"
    snapshot(tmp_path, 7, partition=7)
    assert of_state(tmp_path, least_records=1_000) == "day < '2024-05-13'"
