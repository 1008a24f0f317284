"""The tables as a job leaves them after a long time: generated in minutes, with the rows that it would have written.

Each micro-batch touched some share-partitions; each of them acknowledged what it had and took ten records more: two
rows of `delivery_log`, and one of `share_group_state`, every 500th of which is a snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from sharegroup.job.commit.commit_steps import Batch, CommitSteps
from sharegroup.storage.schemas import (
    DELIVERY_LOG,
    GROUP_COORDINATOR_TABLES,
    SHARE_GROUP_STATE,
    SHARE_PARTITION_TABLES,
    STATE_BATCH,
    TableSpec,
)
from sharegroup.storage.upkeep.state_base_upkeep import StateBaseUpkeep
from sharegroup.storage.writing.delta_table import DeltaTableWriter, open_or_create
from sharegroup.storage.writing.versioned_table import Upkeep
from sharegroup.types import SharePartitionKey
from tests.benchmarks.steady_batches import MEMBER_ID
from tests.benchmarks.upkeep import NoProducer

_TAKEN = 10
_UPDATES_PER_SNAPSHOT = 500
_ROWS_A_FILE = 500_000
_LOCK_US = 30_000_000
_DAY_MS = 86_400_000
_UPKEEP = Upkeep(timedelta(hours=24), 1_000)


class Sizes(NamedTuple):
    """How many rows the two tables have, how many of the states are of today, and over how many days the others."""

    state: int
    log: int
    today: int
    days: int


#: A busy month, as far as it is kept; 100,000 share-partitions; and whether it works.
FULL = Sizes(5_000_000, 20_000_000, 750_000, 4)
MANY = Sizes(1_000_000, 2_000_000, 250_000, 2)
SMALL = Sizes(20_000, 80_000, 3_000, 2)


def write_month(tables_path: str, keys: Sequence[SharePartitionKey], sizes: Sizes) -> None:
    """Tables with these share-partitions and rows, after an upkeep."""
    now_ms = int(time.time() * 1000)
    group = CommitSteps([DeltaTableWriter(tables_path, spec) for spec in GROUP_COORDINATOR_TABLES], NoProducer())
    group.query_id = "00000000-0000-0000-0000-000000000002"
    group.become_leader()
    group.commit(Batch(0, now_ms, tables=_group_rows(keys)))
    steps = CommitSteps([DeltaTableWriter(tables_path, spec) for spec in SHARE_PARTITION_TABLES], NoProducer())
    steps.query_id = "00000000-0000-0000-0000-000000000001"
    steps.become_leader()
    per_state = sizes.log / sizes.state
    for first, last in _portions(sizes.state):
        rounds = np.arange(first, last)
        times_ms = _times_ms(rounds, sizes, now_ms)
        _append(tables_path, SHARE_GROUP_STATE, _state_rows(keys, rounds, times_ms))
        many = np.repeat(rounds, int(per_state))
        _append(tables_path, DELIVERY_LOG, _log_rows(keys, many, np.repeat(times_ms, int(per_state))))
    StateBaseUpkeep(tables_path).run(open_or_create(tables_path, SHARE_GROUP_STATE), _UPKEEP)


def _portions(rows: int) -> Iterator[tuple[int, int]]:
    for first in range(0, rows, _ROWS_A_FILE):
        yield first, min(rows, first + _ROWS_A_FILE)


def _times_ms(rows: np.ndarray[Any, Any], sizes: Sizes, now_ms: int) -> np.ndarray[Any, Any]:
    """Evenly over today up to now, and over the days before."""
    begin_of_day = now_ms - now_ms % _DAY_MS
    before = sizes.state - sizes.today
    today = begin_of_day + (rows - before) * (now_ms - begin_of_day) / max(1, sizes.today)
    earlier = begin_of_day - (before - rows) * sizes.days * _DAY_MS / max(1, before)
    return np.where(rows >= before, today, earlier).astype("int64")


def _state_rows(keys: Sequence[SharePartitionKey], rows: np.ndarray[Any, Any], times_ms: Any) -> pa.Table:
    number, turn = rows % len(keys), rows // len(keys)
    is_snapshot = turn % _UPDATES_PER_SNAPSHOT == 0
    first = turn * _TAKEN
    batches = pa.StructArray.from_arrays(
        [
            pa.array(first),
            pa.array(first + _TAKEN - 1),
            pa.array(np.full(len(rows), 1, "int8")),
            pa.array(np.full(len(rows), 1, "int16")),
            pa.array([MEMBER_ID] * len(rows)),
            pa.array(times_ms * 1000 + _LOCK_US).cast(pa.timestamp("us", "UTC")),
        ],
        fields=list(STATE_BATCH),
    )
    columns = {
        **_key_columns(keys, number, times_ms),
        "record_type": pa.array(np.where(is_snapshot, "ShareSnapshot", "ShareUpdate")),
        "snapshot_epoch": turn // _UPDATES_PER_SNAPSHOT,
        "state_epoch": np.where(is_snapshot, 0, -1),
        "start_offset": first,
        "end_offset": first + _TAKEN,
        "delivery_complete_count": np.where(is_snapshot, 0, -1),
        "state_batches": pa.ListArray.from_arrays(pa.array(np.arange(len(rows) + 1, dtype="int32")), batches),
        **_stamp(rows, keys, times_ms),
    }
    return _table(columns, SHARE_GROUP_STATE)


def _log_rows(keys: Sequence[SharePartitionKey], rows: np.ndarray[Any, Any], times_ms: Any) -> pa.Table:
    number, first = rows % len(keys), rows // len(keys) * _TAKEN
    is_accept = np.arange(len(rows)) % 2 == 0
    first = np.maximum(0, first - is_accept * _TAKEN)
    columns = {
        **_key_columns(keys, number, times_ms),
        "first_offset": first,
        "last_offset": first + _TAKEN - 1,
        "from_state": pa.array(np.where(is_accept, "ACQUIRED", "AVAILABLE")),
        "to_state": pa.array(np.where(is_accept, "ACKNOWLEDGED", "ACQUIRED")),
        "cause": pa.array(np.where(is_accept, "accept", "fetch")),
        "member_id": pa.array([MEMBER_ID] * len(rows)),
        "delivery_count": np.full(len(rows), 1),
        "lock_deadline": pa.array(times_ms * 1000 + _LOCK_US).cast(pa.timestamp("us", "UTC")),
        **_stamp(rows, keys, times_ms),
    }
    return _table(columns, DELIVERY_LOG)


def _key_columns(keys: Sequence[SharePartitionKey], number: Any, times_ms: Any) -> dict[str, Any]:
    names = pa.table({field: [getattr(key, field) for key in keys] for field in SharePartitionKey._fields})
    taken = names.take(pa.array(number))
    day = pa.array(times_ms).cast(pa.timestamp("ms")).cast(pa.date32())
    return {"day": day, **dict(zip(names.column_names, taken.columns, strict=True))}


def _stamp(rows: Any, keys: Sequence[SharePartitionKey], times_ms: Any) -> dict[str, Any]:
    """Each micro-batch has a fifth of the share-partitions, 200 at most."""
    a_batch = max(1, min(200, len(keys) // 5))
    time = pa.array(times_ms * 1000).cast(pa.timestamp("us", "UTC"))
    return {"leader_epoch": np.full(len(rows), 1), "batch_id": rows // a_batch, "time": time}


def _table(columns: dict[str, Any], spec: TableSpec) -> pa.Table:
    return pa.table({name: columns[name] for name in spec.schema.names}).cast(spec.schema)


def _append(tables_path: str, spec: TableSpec, rows: pa.Table) -> None:
    write_deltalake(open_or_create(tables_path, spec), rows, mode="append")


def _group_rows(keys: Sequence[SharePartitionKey]) -> dict[str, list[dict[str, Any]]]:
    group = {"group_epoch": 1, "assignment_epoch": 1, "group_state": "Empty"}
    share_partition = {"status": "initialized", "state_epoch": 0, "start_offset": 0}
    return {
        "share_groups": [{"group_id": group_id, **group} for group_id in sorted({key.group_id for key in keys})],
        "share_partitions": [{**key._asdict(), **share_partition} for key in keys],
    }
