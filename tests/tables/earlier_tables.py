"""Tables as the version before topics had identities made them: its schemas, and a history of two groups.

What is where after the upgrade is told beside it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sharegroup.commit.commit_steps import Batch, CommitSteps
from sharegroup.commit.delta_table import open_or_create
from sharegroup.engine.durable_rows import state_row
from sharegroup.share_coordinator.fold import fold
from sharegroup.share_coordinator.records import RecordKind, ShareGroupStateRecord, tombstone
from sharegroup.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.tables.schemas import (
    DELIVERY_LOG,
    SHARE_GROUP_CONFIGS,
    SHARE_GROUP_JOB,
    SHARE_GROUP_MEMBERS,
    SHARE_GROUP_STATE,
    SHARE_GROUPS,
    SHARE_PARTITIONS,
    STATE_BATCH,
    TableSpec,
)
from sharegroup.types import RecordState, SharePartitionKey, StateBatch
from tests.tables.job_tables import T0, Died, start
from tests.tables.whole_tables import whole_table_writer, without_chunks

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_STATE = pa.schema(
    [
        ("day", pa.date32()),
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("record_type", pa.string()),
        ("snapshot_epoch", pa.int32()),
        ("state_epoch", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("start_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("delivery_complete_count", pa.int64()),
        ("state_batches", pa.list_(STATE_BATCH)),
        ("batch_id", pa.int64()),
        ("time", _TIMESTAMP),
    ]
)
_LOG = pa.schema(
    [
        ("day", pa.date32()),
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("from_state", pa.string()),
        ("to_state", pa.string()),
        ("cause", pa.string()),
        ("member_id", pa.string()),
        ("delivery_count", pa.int16()),
        ("lock_deadline", _TIMESTAMP),
        ("leader_epoch", pa.int32()),
        ("batch_id", pa.int64()),
        ("time", _TIMESTAMP),
    ]
)
_MEMBERS = pa.schema(
    [
        ("group_id", pa.string()),
        ("member_id", pa.string()),
        ("member_epoch", pa.int32()),
        ("rack_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("subscribed_topic_names", pa.list_(pa.string())),
        ("assignment", pa.list_(pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32()))]))),
        ("time", _TIMESTAMP),
    ]
)
_PARTITIONS = pa.schema(
    [
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("status", pa.string()),
        ("state_epoch", pa.int32()),
        ("start_offset", pa.int64()),
        ("time", _TIMESTAMP),
    ]
)


#: Columns that were told of in other words.
_COMMENTS = {
    "cause": "fetch, accept, release, reject, renew, gap, lock_timeout, member_left, unacquire, log_truncated, reset",
    "start_offset": "where to start; -1: by share.auto.offset.reset",
}


def _earlier(spec: TableSpec, schema: pa.Schema, key: tuple[str, ...]) -> TableSpec:
    comments = {field.name: field.metadata for field in spec.schema}
    if spec in (DELIVERY_LOG, SHARE_PARTITIONS):
        comments |= {name: {"comment": comment} for name, comment in _COMMENTS.items()}
    fields = [field.with_metadata(comments[field.name]) for field in schema]
    return dataclasses.replace(without_chunks(spec), schema=pa.schema(fields), key=key)


EARLIER_STATE_TABLES = (_earlier(SHARE_GROUP_STATE, _STATE, ()), _earlier(DELIVERY_LOG, _LOG, ()))
EARLIER_GROUP_TABLES = (
    without_chunks(SHARE_GROUPS),
    _earlier(SHARE_GROUP_MEMBERS, _MEMBERS, ("group_id", "member_id")),
    _earlier(SHARE_PARTITIONS, _PARTITIONS, ("group_id", "topic", "partition")),
    without_chunks(SHARE_GROUP_CONFIGS),
)

ORDERS, ORDERS_1 = SharePartitionKey("g", "orders", "id-orders", 0), SharePartitionKey("g", "orders", "id-orders", 1)
BILLS, OTHER = SharePartitionKey("g", "bills", "id-bills", 0), SharePartitionKey("h", "orders", "id-orders", 0)
#: Its offsets are being deleted; nobody knows this one any more; that one was deleted and has begun anew.
DELETING, UNLISTED = SharePartitionKey("g", "old", "id-old", 0), SharePartitionKey("g", "gone", "", 0)
ANEW = SharePartitionKey("h", "bills", "id-bills", 0)
LISTED = (ORDERS, ORDERS_1, BILLS, OTHER, DELETING, ANEW)


def _held(first: int, last: int, member_id: str = "m1", count: int = 1) -> StateBatch:
    return StateBatch(first, last, RecordState.ACQUIRED, count, member_id, T0 + 30_000)


def _snapshot(key: SharePartitionKey, epoch: int, start: int, *batches: StateBatch) -> ShareGroupStateRecord:
    return ShareGroupStateRecord(RecordKind.SNAPSHOT, key, epoch, 1, -1, start, 0, batches)


def _update(
    key: SharePartitionKey, epoch: int, start: int, complete: int, *batches: StateBatch
) -> ShareGroupStateRecord:
    return ShareGroupStateRecord(RecordKind.UPDATE, key, epoch, -1, -1, start, complete, batches)


#: What two leaders wrote, batch by batch, with the end offset of each record.
HISTORY: tuple[tuple[tuple[ShareGroupStateRecord, int], ...], ...] = (
    ((_snapshot(ORDERS, 0, 5), 5), (_snapshot(OTHER, 0, 0), 0), (_snapshot(ANEW, 7, 3), 3)),
    ((_update(ORDERS, 0, -1, -1, _held(5, 14)), 15), (_snapshot(UNLISTED, 0, 1), 1), (tombstone(ANEW), -1)),
    ((_snapshot(ORDERS, 1, 8, _held(8, 14, count=2)), 15), (_snapshot(DELETING, 0, 2, _held(2, 3)), 4)),
    (
        (_update(ORDERS, 1, 10, 2, StateBatch(12, 13, RecordState.ACKNOWLEDGED, 2), _held(15, 19, "m2")), 20),
        (_snapshot(BILLS, 0, 100, StateBatch(100, 120, RecordState.AVAILABLE, 1)), 121),
        (_snapshot(ANEW, 0, 9), 9),
    ),
    ((_update(OTHER, 0, -1, 1, StateBatch(3, 3, RecordState.ARCHIVED, 5)), 4), (_snapshot(ORDERS_1, 0, 0), 0)),
)
LEADER_EPOCHS = (1, 1, 1, 2, 2)
END_OFFSETS = {ORDERS: 20, ORDERS_1: 0, BILLS: 121, OTHER: 4, DELETING: 4, ANEW: 9}


def states() -> dict[SharePartitionKey, ShareGroupOffset]:
    """What the history adds up to, of the share-partitions that are listed; `last_snapshot_ms` is 0."""
    records = [
        record._replace(leader_epoch=leader_epoch)
        for leader_epoch, batch in zip(LEADER_EPOCHS, HISTORY, strict=True)
        for record, _ in batch
    ]
    return {key: state for key, state in fold(records).items() if key in LISTED}


def write_earlier_tables(
    root: Path, in_last_group_batch: Callable[[int, int], None] | None = None
) -> tuple[CommitSteps, CommitSteps]:
    """Write the history; the two queries of that job, which could go on."""
    open_or_create(str(root), SHARE_GROUP_JOB)
    partitions = _write_states(root)
    groups, _ = start(root, "groups-1", EARLIER_GROUP_TABLES, writer=whole_table_writer)
    groups.commit(_group_batch())
    groups, _ = start(root, "groups-2", EARLIER_GROUP_TABLES, in_last_group_batch, whole_table_writer)
    with contextlib.nullcontext() if in_last_group_batch is None else pytest.raises(Died):
        groups.commit(last_group_batch())
    return partitions, groups


def _write_states(root: Path) -> CommitSteps:
    for leader_epoch in sorted(set(LEADER_EPOCHS)):
        steps, _ = start(root, f"partitions-{leader_epoch}", EARLIER_STATE_TABLES)
        assert steps.leader_epoch == leader_epoch
        of_leader = [batch for epoch, batch in zip(LEADER_EPOCHS, HISTORY, strict=True) if epoch == leader_epoch]
        for batch_id, batch in enumerate(of_leader):
            rows = [_keyed(record.key, state_row(record, end_offset)) for record, end_offset in batch]
            log = _keyed(ORDERS, {"first_offset": 5, "last_offset": 14, "cause": "fetch", "delivery_count": 1})
            tables = {"share_group_state": rows, "delivery_log": [log]}
            steps.commit(Batch(batch_id, T0 + batch_id, tables, positions={0: 10 * leader_epoch + batch_id}))
    return steps


def _keyed(key: SharePartitionKey, row: dict[str, Any]) -> dict[str, Any]:
    return {"group_id": key.group_id, "topic": key.topic, "partition": key.partition, **row}


def _listed(key: SharePartitionKey, **values: object) -> dict[str, Any]:
    row = _keyed(key, {"topic_id": key.topic_id, "status": "initialized", "state_epoch": 1, "start_offset": -1})
    return {**row, **values}


def _member(member_epoch: int, **assignment: list[int]) -> dict[str, Any]:
    return {
        "group_id": "g",
        "member_id": "m1",
        "member_epoch": member_epoch,
        "rack_id": None,
        "client_id": "c",
        "client_host": "/10.0.0.1",
        "subscribed_topic_names": ["bills", "gone", "orders"],
        "assignment": [{"topic": topic, "partitions": partitions} for topic, partitions in assignment.items()],
    }


def _group_row(group_id: str, epoch: int, state: str) -> dict[str, Any]:
    return {"group_id": group_id, "group_epoch": epoch, "assignment_epoch": epoch, "group_state": state}


def _group_batch() -> Batch:
    tables = {
        "share_groups": [_group_row("g", 2, "Stable"), _group_row("h", 2, "Empty")],
        "share_group_members": [_member(2, gone=[0], orders=[0])],
        "share_partitions": [
            *(_listed(key) for key in (ORDERS, BILLS, OTHER, ANEW)),
            _listed(ORDERS_1, topic_id="id-before"),
            _listed(DELETING, status="deleting"),
        ],
    }
    return Batch(0, T0, tables, positions={0: 7})


def last_group_batch() -> Batch:
    """The topic id of a share-partition is found to be another one: its row is replaced."""
    tables = {
        "share_groups": [_group_row("g", 3, "Stable")],
        "share_group_members": [_member(3, bills=[0], gone=[0], orders=[0, 1])],
        "share_partitions": [_listed(ORDERS_1, status="initializing", state_epoch=3)],
    }
    return Batch(0, T0 + 1, tables, positions={0: 8})
