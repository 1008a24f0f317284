"""Folds (combines) the rows of `share_group_state` to the state of each share-partition."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from sharegroup.core.share_coordinator.fold import fold_records
from sharegroup.core.share_coordinator.records import RecordKind, ShareGroupStateRecord
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset, ShareGroupOffsetHeader
from sharegroup.storage.reading.state_base import cut_of
from sharegroup.storage.rows import DeltaTables, reading
from sharegroup.storage.schemas import SHARE_GROUP_STATE, SHARE_GROUP_STATE_BASE
from sharegroup.types import RecordState, SharePartitionKey, StateBatch

_RECORD_TYPES = {
    RecordKind.SNAPSHOT.value: "ShareSnapshot",
    RecordKind.UPDATE.value: "ShareUpdate",
    RecordKind.TOMBSTONE.value: "Tombstone",
}
_KINDS = {record_type: RecordKind(kind) for kind, record_type in _RECORD_TYPES.items()}
_KEY_COLUMNS = ["group_id", "topic", "topic_id", "partition"]


#: The columns of `share_group_state` that are read.
_COLUMNS = [
    *_KEY_COLUMNS,
    "record_type",
    "snapshot_epoch",
    "state_epoch",
    "leader_epoch",
    "start_offset",
    "end_offset",
    "delivery_complete_count",
    "state_batches",
    "batch_id",
    "time",
]
_NO_BASE = SHARE_GROUP_STATE_BASE.schema.empty_table()


def read_states(
    table: DeltaTable, group_ids: Collection[str] | None = None, base: DeltaTable | None = None
) -> dict[SharePartitionKey, ShareGroupOffset]:
    """Return the states of the given groups, or by default of all groups, at the version of `table`.

    `table` is `share_group_state`. `base` is `share_group_state_base`, with a cut that is not after this version
    (`StateBases`). With a base, only its rows and the rows of `table` after its cut are read. Without a base, the whole
    table is read.
    """
    of_groups = None if group_ids is None else pc.field("group_id").isin(pa.array(group_ids, pa.string()))
    cut = None if base is None else cut_of(base)
    if base is None or cut is None:
        return fold_states(table.to_pyarrow_table(columns=_COLUMNS, filters=of_groups))
    newer = cut.later_rows() if of_groups is None else of_groups & cut.later_rows()
    rows = table.to_pyarrow_table(columns=_COLUMNS, filters=newer)
    return fold_states(rows, base.to_pyarrow_table(filters=of_groups))


def read_current_states(
    tables: DeltaTables, group_ids: Collection[str] | None = None
) -> dict[SharePartitionKey, ShareGroupOffset]:
    """Return the current states of the given groups, or by default of all groups. Raises TableUnavailableError."""
    base = tables.open_if_exists(SHARE_GROUP_STATE_BASE)  # first, so that the state is not older
    state = tables.open(SHARE_GROUP_STATE)
    with reading(SHARE_GROUP_STATE):
        return read_states(state, group_ids, base)


def fold_states(rows: pa.Table, base: pa.Table = _NO_BASE) -> dict[SharePartitionKey, ShareGroupOffset]:
    """Fold the rows of `base` and rows of `share_group_state` to the state of each share-partition.

    `rows` may have any order: this function orders the rows of a share-partition by leader epoch and batch id. This
    order is unique, because a leader writes at most one row for a share-partition in a micro-batch. Rows before a
    share-partition's newest snapshot are skipped.
    """
    return fold_current_rows(*select_current_rows(rows, base))


def fold_current_rows(before: pa.Table, ordered: pa.Table) -> dict[SharePartitionKey, ShareGroupOffset]:
    """Fold the rows that `select_current_rows` returns to the state of each share-partition.

    `before` are rows of the base. `ordered` are rows of `share_group_state`.
    """
    times = _snapshot_times(ordered)
    states = fold_records(_records(ordered), before=_base_states(before))
    for key, end_offset in _end_offsets(ordered).items():
        if key in states:
            states[key] = _without_offsets_from(end_offset, states[key])
    return {
        key: state._replace(header=state.header._replace(last_snapshot_ms=times[key])) if key in times else state
        for key, state in states.items()
    }


def select_current_rows(rows: pa.Table, base: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Select the rows of `base` and of `rows` on which the current states depend. Return both selections in this order.

    The rows selected from `rows` are sorted by leader epoch and batch id. For each share-partition, rows up to its last
    tombstone (deletion) are left out. Of the later rows, only those with the highest snapshot epoch are selected. To
    save time, nested columns of rows that are not selected are not accessed.
    """
    base = base.filter(pc.is_valid(base["topic_id"]))
    count = len(base)
    rows = rows.select(_COLUMNS)
    order = pc.sort_indices(rows, sort_keys=[("leader_epoch", "ascending"), ("batch_id", "ascending")])
    snapshots = base.select([*_KEY_COLUMNS, "snapshot_epoch"]).append_column(
        "record_type", pa.array(["ShareSnapshot"] * count, pa.string())
    )
    scalars = rows.select([*_KEY_COLUMNS, "snapshot_epoch", "record_type"]).take(order)
    scalars = pa.concat_tables([snapshots, scalars])
    scalars = scalars.append_column("rank", pa.array(range(len(scalars)), pa.int64()))
    tombstones = scalars.filter(pc.equal(scalars["record_type"], "Tombstone"))
    if tombstones.num_rows:
        scalars = scalars.join(tombstones.group_by(_KEY_COLUMNS).aggregate([("rank", "max")]), _KEY_COLUMNS)
        scalars = scalars.filter(pc.fill_null(pc.greater(scalars["rank"], scalars["rank_max"]), True))
        scalars = scalars.drop_columns(["rank_max"])
    newest = scalars.group_by(_KEY_COLUMNS).aggregate([("snapshot_epoch", "max")])
    scalars = scalars.join(newest, _KEY_COLUMNS)
    kept = scalars.filter(pc.equal(scalars["snapshot_epoch"], scalars["snapshot_epoch_max"]))
    ranks = kept.sort_by("rank")["rank"].combine_chunks()
    of_base = pc.less(ranks, count)
    newer = pc.subtract(ranks.filter(pc.invert(of_base)), count)
    return base.take(ranks.filter(of_base)), rows.take(order.take(newer))


def _base_states(rows: pa.Table) -> dict[SharePartitionKey, ShareGroupOffset]:
    return {
        SharePartitionKey(row["group_id"], row["topic"], row["topic_id"], row["partition"]): ShareGroupOffset(
            ShareGroupOffsetHeader(
                row["snapshot_epoch"],
                row["state_epoch"],
                row["leader_epoch"],
                row["start_offset"],
                row["delivery_complete_count"],
                row["updates_since_snapshot"],
                _milliseconds(row["snapshot_time"]) or 0,
                row["leader_epoch"],  # the newest record has the highest epoch, because leaders follow each other
            ),
            tuple(_state_batch(batch) for batch in row["state_batches"]),
        )
        for row in rows.to_pylist()
    }


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


def _end_offsets(ordered: pa.Table) -> dict[SharePartitionKey, int]:
    """Return {share-partition: end offset in its last row}. The rows in `ordered` are sorted, oldest first."""
    return {
        SharePartitionKey(row["group_id"], row["topic"], row["topic_id"], row["partition"]): row["end_offset"]
        for row in ordered.select([*_KEY_COLUMNS, "end_offset"]).to_pylist()
    }


def _without_offsets_from(end_offset: int, state: ShareGroupOffset) -> ShareGroupOffset:
    """Return the state without the offsets from `end_offset` on, which were reserved and are no longer in flight."""
    batches = state.state_batches
    if not batches or batches[-1].last_offset < end_offset:
        return state
    left = [batch for batch in batches if batch.first_offset < end_offset]
    return state._replace(
        state_batches=tuple(batch._replace(last_offset=min(batch.last_offset, end_offset - 1)) for batch in left)
    )


def _snapshot_times(table: pa.Table) -> dict[SharePartitionKey, int]:
    columns = [*_KEY_COLUMNS, "time"]
    snapshots = table.filter(pc.equal(table["record_type"], "ShareSnapshot")).select(columns)
    return {
        SharePartitionKey(row["group_id"], row["topic"], row["topic_id"], row["partition"]): _milliseconds(row["time"])
        or 0
        for row in snapshots.to_pylist()
    }
