"""Rows of `share_group_state` back to the folded state of each share-partition."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sharegroup.share_coordinator.fold import fold
from sharegroup.share_coordinator.records import RecordKind, ShareGroupStateRecord
from sharegroup.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.types import RecordState, SharePartitionKey, StateBatch

_RECORD_TYPES = {
    RecordKind.SNAPSHOT.value: "ShareSnapshot",
    RecordKind.UPDATE.value: "ShareUpdate",
    RecordKind.TOMBSTONE.value: "Tombstone",
}
_KINDS = {record_type: RecordKind(kind) for kind, record_type in _RECORD_TYPES.items()}
_KEY_COLUMNS = ["group_id", "topic", "partition"]


def read_states(
    table: DeltaTable, keys: Collection[SharePartitionKey] | None = None
) -> dict[SharePartitionKey, ShareGroupOffset]:
    """The state of each share-partition (of `keys`, or all) at the table's version.

    Rows are totally ordered by (leader epoch, batch id): leaders follow each other, and each writes at most one row of
    a share-partition in a batch. Only rows from a share-partition's newest snapshot on are turned into records.
    """
    filters = None
    if keys is not None:
        if not keys:
            return {}
        filters = [("group_id", "in", sorted({key.group_id for key in keys}))]
    dataset = table.to_pyarrow_table(filters=filters)
    newest = _from_newest_snapshot(dataset)
    ordered = newest.sort_by([("leader_epoch", "ascending"), ("batch_id", "ascending")])
    states = fold(_records(ordered))
    times = _snapshot_times(ordered)
    return {
        key: state._replace(header=state.header._replace(last_snapshot_ms=times.get(key, 0)))
        for key, state in states.items()
        if keys is None or key in keys
    }


def _from_newest_snapshot(table: pa.Table) -> pa.Table:
    """Drop the rows below each share-partition's highest snapshot epoch, before anything nested is touched."""
    if table.num_rows == 0:
        return table
    newest = (
        table.select([*_KEY_COLUMNS, "snapshot_epoch"]).group_by(_KEY_COLUMNS).aggregate([("snapshot_epoch", "max")])
    )
    indexed = table.append_column("_row", pa.array(range(table.num_rows), pa.int64()))
    scalars = indexed.select([*_KEY_COLUMNS, "snapshot_epoch", "record_type", "_row"]).join(newest, _KEY_COLUMNS)
    keep = pc.or_(
        pc.greater_equal(scalars["snapshot_epoch"], scalars["snapshot_epoch_max"]),
        pc.equal(scalars["record_type"], "Tombstone"),
    )
    return table.take(scalars.filter(keep)["_row"].combine_chunks())


def _records(table: pa.Table) -> Iterator[ShareGroupStateRecord]:
    for row in table.to_pylist():
        yield ShareGroupStateRecord(
            _KINDS[row["record_type"]],
            SharePartitionKey(row["group_id"], row["topic"], row["partition"]),
            row["snapshot_epoch"],
            row["state_epoch"],
            row["leader_epoch"],
            row["start_offset"],
            row["delivery_complete_count"],
            tuple(_state_batch(batch) for batch in row["state_batches"] or ()),
        )


def _state_batch(batch: Mapping[str, Any]) -> StateBatch:
    return StateBatch(
        batch["first_offset"],
        batch["last_offset"],
        RecordState(batch["delivery_state"]),
        batch["delivery_count"],
        batch["member_id"],
        _milliseconds(batch["lock_deadline"]),
    )


def _milliseconds(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


def _snapshot_times(table: pa.Table) -> dict[SharePartitionKey, int]:
    columns = [*_KEY_COLUMNS, "time"]
    snapshots = table.filter(pc.equal(table["record_type"], "ShareSnapshot")).select(columns)
    return {
        SharePartitionKey(row["group_id"], row["topic"], row["partition"]): _milliseconds(row["time"]) or 0
        for row in snapshots.to_pylist()
    }
