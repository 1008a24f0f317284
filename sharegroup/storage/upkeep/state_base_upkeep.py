"""Rewrites `share_group_state_base` (the *base*) from the records of `share_group_state`, after enough new records.

The job starts faster with a newer base, because it reads fewer records after the base. A new base is made from the last
base and the records after it. Share-partitions with new records are folded (combined) in Python. The rows of other
share-partitions are copied in Arrow. A base is written when there are at least `MIN_RECORDS` new records, and at least
half as many as the base has rows. On average, this copies only a few rows for each new record, however many
share-partitions exist. If the base is older than a day, one new record is sufficient.

A base is written in one commit, so a crash is harmless. A base that a fenced leader writes is harmless too, because it
also agrees with `share_group_state`.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, write_deltalake

from sharegroup.core.share_coordinator.durable_rows import state_batch_rows
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffset
from sharegroup.storage.reading.state_base import Cut, cut_of
from sharegroup.storage.reading.state_table import fold_current_rows, select_current_rows
from sharegroup.storage.schemas import SHARE_GROUP_STATE_BASE, table_path
from sharegroup.storage.writing.delta_commit import NO_HOOKS
from sharegroup.storage.writing.delta_table import open_or_create, store_errors
from sharegroup.storage.writing.delta_upkeep import DeltaUpkeep
from sharegroup.storage.writing.local_sync import LocalSync
from sharegroup.storage.writing.versioned_table import Upkeep
from sharegroup.types import SharePartitionKey

#: A base is written only if there are at least this many new records. If the last base is older than `_LONGEST_MS`, one
#: new record is sufficient.
MIN_RECORDS = 1_000
#: The maximum number of records that are folded together.
_PORTION_RECORDS = 500_000
_LONGEST_MS = 24 * 3_600_000
_KEY = ["group_id", "topic_id", "partition"]
#: The columns of a base's row that come from the newest record, not from the folded records.
_OF_NEWEST = ("end_offset", "batch_id", "time")
_SCHEMA = SHARE_GROUP_STATE_BASE.schema
_ROW_SCHEMA = pa.schema([field for field in _SCHEMA if not field.name.startswith("as_of_")])
_PROPERTIES = CommitProperties(max_commit_retries=0)


class StateBaseUpkeep:
    """Rewrites the base (the table `share_group_state_base` below `tables_path`) and runs the upkeep of this table.

    Only one process may do this. `options` are the storage options. `least_records` replaces `MIN_RECORDS`. `is_synced`
    decides whether commits survive a power loss (see `LocalSync`).
    """

    def __init__(
        self,
        tables_path: str,
        options: dict[str, str] | None = None,
        least_records: int = MIN_RECORDS,
        is_synced: bool = True,
    ) -> None:
        self._least_records = least_records
        with store_errors():
            self._table = open_or_create(tables_path, SHARE_GROUP_STATE_BASE, options)
        path = table_path(tables_path, SHARE_GROUP_STATE_BASE)
        self._sync = LocalSync(path, is_synced)
        self._upkeep = DeltaUpkeep(path, options, self._sync)

    def run(self, state: DeltaTable, upkeep: Upkeep) -> DeltaTable:
        """Rewrite the base if there are enough new records in `state`, and return the base's handle.

        `state` is a handle of `share_group_state`. If the base was rewritten, the upkeep of its table runs too.

        Raises TableStoreError, and NotCommittedError if another process has written the base.
        """
        with store_errors():
            self._table.update_incremental()
            if self._write_when_due(state):
                self._upkeep.run(self._table, upkeep, _PROPERTIES)
            self._sync.sync(self._table.version())  # next, this base decides which days of the state are deleted
        return self._table

    def _write_when_due(self, state: DeltaTable) -> bool:
        cut, records = cut_of(self._table), state.to_pyarrow_dataset()
        later = None if cut is None else cut.later_rows()
        if later is not None and records.count_rows(filter=later) < self._least():
            return False
        portions = list(_portions(records, later))
        base = self._table.to_pyarrow_table()
        for portion in portions:
            base = make_base(base, records.to_table(filter=portion), state.version())
        if portions:
            write_deltalake(
                self._table, base, mode="overwrite", commit_properties=_PROPERTIES, post_commithook_properties=NO_HOOKS
            )
        return bool(portions)

    def _least(self) -> int:
        """Return the minimum number of new records with which a new base is written."""
        files = pa.table(self._table.get_add_actions(flatten=True))
        age_ms = time.time() * 1000 - pc.min(files["modification_time"]).cast(pa.int64()).as_py()
        return max(self._least_records, pc.sum(files["num_records"]).as_py() // 2) if age_ms < _LONGEST_MS else 1


def _portions(records: ds.Dataset, later: pc.Expression | None) -> Iterator[pc.Expression]:
    """Yield filters that divide the records that match `later` (None: all) into portions that fit in memory.

    Each portion contains older records than the next one, by leader epoch and batch id.
    """
    order = [("leader_epoch", "ascending"), ("batch_id", "ascending")]
    positions = records.to_table(columns=[column for column, _ in order], filter=later).sort_by(order)
    previous = None
    for end in range(_PORTION_RECORDS, len(positions) + _PORTION_RECORDS, _PORTION_RECORDS):
        last = positions.slice(min(end, len(positions)) - 1, 1)
        cut = Cut(0, *(last[column][0].as_py() for column, _ in order))
        if cut == previous:  # the records since then are of the same batch, which the previous portion contains
            continue
        previous = cut
        yield ~cut.later_rows() if later is None else later & ~cut.later_rows()
        later = cut.later_rows()


def make_base(base: pa.Table, rows: pa.Table, version: int) -> pa.Table:
    """Return a new base as of `version` of `share_group_state`.

    `base` is the last base (empty if there is none). `rows` are the rows of `share_group_state` after it. If all
    share-partitions were deleted, the new base has one row without a share-partition, which contains the cut.
    """
    before, ordered = select_current_rows(rows, base)
    numbers = before.select(_KEY).append_column("number", pa.array(range(len(before)), pa.int64()))
    changed = ordered.select(_KEY)
    touched = numbers.join(changed, _KEY, join_type="left semi")["number"]
    untouched = numbers.join(changed, _KEY, join_type="left anti")["number"]
    states = fold_current_rows(before.take(touched), ordered)
    newest = ordered.group_by(_KEY, use_threads=False).aggregate([(column, "last") for column in _OF_NEWEST])
    of_newest = {(row["group_id"], row["topic_id"], row["partition"]): row for row in newest.to_pylist()}
    written = [_row(key, state, of_newest[key.group_id, key.topic_id, key.partition]) for key, state in states.items()]
    made = pa.concat_tables(
        [before.take(untouched).select(_ROW_SCHEMA.names), pa.Table.from_pylist(written, schema=_ROW_SCHEMA)]
    )
    made = made.sort_by([("group_id", "ascending"), ("topic", "ascending"), ("partition", "ascending")])
    if not len(made):
        made = pa.Table.from_pylist([{}], schema=_ROW_SCHEMA)
    cut = zip(_cut(rows, version), _SCHEMA.types, strict=False)  # the columns of the cut come first
    return pa.table(
        [*(pa.repeat(pa.scalar(value, kind), len(made)) for value, kind in cut), *made.columns], schema=_SCHEMA
    )


def _row(key: SharePartitionKey, state: ShareGroupOffset, newest: Mapping[str, Any]) -> dict[str, Any]:
    header = state.header
    return {
        **key._asdict(),
        "snapshot_epoch": header.snapshot_epoch,
        "state_epoch": header.state_epoch,
        "leader_epoch": header.leader_epoch,
        "start_offset": header.start_offset,
        "end_offset": newest["end_offset_last"],
        "delivery_complete_count": header.delivery_complete_count,
        "state_batches": state_batch_rows(state.state_batches),
        "updates_since_snapshot": header.updates_since_snapshot,
        "snapshot_time": header.last_snapshot_ms * 1000,
        "batch_id": newest["batch_id_last"],
        "time": newest["time_last"],
    }


def _cut(rows: pa.Table, version: int) -> Cut:
    """Return the cut of a base as of `version`. `rows` contains the newest record of this version."""
    order = [("leader_epoch", "descending"), ("batch_id", "descending")]
    newest = pc.select_k_unstable(rows, 1, sort_keys=order)[0].as_py()
    return Cut(version, rows["leader_epoch"][newest].as_py(), rows["batch_id"][newest].as_py())
