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
_KEY_COLUMNS = ["group_id", "topic", "topic_id", "partition"]


def read_states(
    table: DeltaTable, keys: Collection[SharePartitionKey] | None = None
) -> dict[SharePartitionKey, ShareGroupOffset]:
    """The state of each share-partition (of `keys`, or all) at the table's version."""
    if keys is None:
        return folded_states(table.to_pyarrow_table())
    if not keys:
        return {}
    filters = [("group_id", "in", sorted({key.group_id for key in keys}))]
    states = folded_states(table.to_pyarrow_table(filters=filters))
    return {key: state for key, state in states.items() if key in keys}


def folded_states(rows: pa.Table) -> dict[SharePartitionKey, ShareGroupOffset]:
    """The state of each share-partition that the table's rows, in any order, add up to.

    Rows without a topic id are of an earlier version, and were carried over to rows that have one.

    Rows are totally ordered by (leader epoch, batch id): leaders follow each other, and each writes at most one row of
    a share-partition in a batch. Only rows from a share-partition's newest snapshot on are turned into records.
    """
    ordered = _from_newest_snapshot(rows.filter(pc.is_valid(rows["topic_id"])))
    times = _snapshot_times(ordered)
    return {
        key: state._replace(header=state.header._replace(last_snapshot_ms=times.get(key, 0)))
        for key, state in fold(_records(ordered)).items()
    }


def _from_newest_snapshot(rows: pa.Table) -> pa.Table:
    """The rows in order, without those below each share-partition's highest snapshot epoch since its last tombstone.

    Nested columns are touched last, and only where they are needed.
    """
    order = pc.sort_indices(rows, sort_keys=[("leader_epoch", "ascending"), ("batch_id", "ascending")])
    scalars = rows.select([*_KEY_COLUMNS, "snapshot_epoch", "record_type"]).take(order)
    scalars = scalars.append_column("rank", pa.array(range(len(order)), pa.int64()))
    tombstones = scalars.filter(pc.equal(scalars["record_type"], "Tombstone"))
    if tombstones.num_rows:
        scalars = scalars.join(tombstones.group_by(_KEY_COLUMNS).aggregate([("rank", "max")]), _KEY_COLUMNS)
        scalars = scalars.filter(pc.fill_null(pc.greater(scalars["rank"], scalars["rank_max"]), True))
        scalars = scalars.drop_columns(["rank_max"])
    newest = scalars.group_by(_KEY_COLUMNS).aggregate([("snapshot_epoch", "max")])
    scalars = scalars.join(newest, _KEY_COLUMNS)
    kept = scalars.filter(pc.equal(scalars["snapshot_epoch"], scalars["snapshot_epoch_max"]))
    return rows.take(order.take(kept.sort_by("rank")["rank"].combine_chunks()))


def _records(table: pa.Table) -> Iterator[ShareGroupStateRecord]:
    for row in table.to_pylist():
        yield ShareGroupStateRecord(
            _KINDS[row["record_type"]],
            SharePartitionKey(row["group_id"], row["topic"], row["topic_id"], row["partition"]),
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
        SharePartitionKey(row["group_id"], row["topic"], row["topic_id"], row["partition"]): _milliseconds(row["time"])
        or 0
        for row in snapshots.to_pylist()
    }
