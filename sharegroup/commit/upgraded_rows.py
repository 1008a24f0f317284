"""What each table has after its upgrade: the rows of the commit that upgrades it (see `table_upgrade`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, Transaction

from sharegroup.commit.current_rows import in_chunks
from sharegroup.commit.delta_commit import info_of
from sharegroup.commit.table_rows import DELETED
from sharegroup.engine.durable_rows import state_row
from sharegroup.packed_json import unpack_json
from sharegroup.share_coordinator.records import RecordKind, ShareGroupStateRecord
from sharegroup.tables.schemas import (
    DELIVERY_LOG,
    SHARE_GROUP_MEMBERS,
    SHARE_GROUP_STATE,
    SHARE_GROUPS,
    SHARE_PARTITIONS,
    TableSpec,
)
from sharegroup.tables.state_table import folded_states

_KEY_OF_BEFORE = ("group_id", "topic", "partition")
#: No micro-batch wrote what the upgrade writes.
_NO_BATCH = -1
_COMMITS_TO_SEARCH = 50

Tables = Mapping[str, DeltaTable]


class Upgrade(NamedTuple):
    """The rows of a commit, and the transactions beside its own that are done with it."""

    rows: pa.Table
    transactions: tuple[Transaction, ...] = ()


def in_chunks_now(tables: Tables, spec: TableSpec) -> Upgrade:
    """The rows of a table of current state as they were."""
    current, transactions = _current_rows(tables, spec)
    return _in_chunks(spec, current, transactions)


def upgraded_share_partitions(tables: Tables) -> Upgrade:
    """The rows as they were; where a share-partition that is still to be initialized starts, the config of now says."""
    is_by_name = SHARE_PARTITIONS.missing_columns(pa.schema(tables[SHARE_PARTITIONS.name].schema()))
    key = _KEY_OF_BEFORE if is_by_name else SHARE_PARTITIONS.key
    return in_chunks_now(tables, dataclasses.replace(SHARE_PARTITIONS, key=key))


def upgraded_members(tables: Tables) -> Upgrade:
    """The rows with topic ids in their assignments; "" where nothing is known of the topic any more."""
    current, transactions = _current_rows(tables, SHARE_GROUP_MEMBERS)
    topic_ids = {
        (row["group_id"], row["topic"]): row["topic_id"]
        for row in tables[SHARE_PARTITIONS.name].to_pyarrow_table().to_pylist()
        if row["status"] != "deleting"
    }
    for row in current:
        for item in row["assignment"]:
            item.setdefault("topic_id", topic_ids.get((row["group_id"], item["topic"]), ""))
    return _in_chunks(SHARE_GROUP_MEMBERS, current, transactions)


def upgraded_states(tables: Tables, now_ms: int) -> Upgrade:
    """One snapshot of each state under its topic id, with the epochs that it had; its own age begins now.

    A state without a row in `share_partitions` belongs to nothing that is led or deleted any more.
    """
    rows = _with_topic_ids(tables[SHARE_GROUP_STATE.name].to_pyarrow_table(), tables[SHARE_PARTITIONS.name])
    end_offsets = _newest_end_offsets(rows)
    stamp = {"day": datetime.fromtimestamp(now_ms / 1000, UTC).date(), "batch_id": _NO_BATCH}
    carried = []
    for key, state in sorted(folded_states(rows).items()):
        header = state.header
        record = ShareGroupStateRecord(
            RecordKind.SNAPSHOT,
            key,
            header.snapshot_epoch,
            header.state_epoch,
            header.leader_epoch,
            header.start_offset,
            header.delivery_complete_count,
            tuple(state.state_batches),
        )
        row = state_row(record, end_offsets[key.group_id, key.topic_id, key.partition])
        carried.append({**key._asdict(), **row, **stamp, "leader_epoch": header.leader_epoch, "time": now_ms * 1000})
    return Upgrade(pa.Table.from_pylist(carried, schema=SHARE_GROUP_STATE.schema))


def upgraded_delivery_log() -> Upgrade:
    """The log grows: what is in it stays as it is."""
    return Upgrade(DELIVERY_LOG.schema.empty_table())


def newest_info(table: DeltaTable) -> dict[str, Any] | None:
    """The job's entry of the table's newest commit that has one; None where there is none."""
    infos = map(info_of, table.history(_COMMITS_TO_SEARCH))
    return next((info for info in infos if info is not None), None)


def _in_chunks(spec: TableSpec, rows: list[dict[str, Any]], transactions: tuple[Transaction, ...]) -> Upgrade:
    return Upgrade(pa.Table.from_pylist(in_chunks(rows), schema=spec.schema), transactions)


def _current_rows(tables: Tables, spec: TableSpec) -> tuple[list[dict[str, Any]], tuple[Transaction, ...]]:
    """The rows of a group coordinator's table, with what the newest commit of `share_groups` still owes it."""
    table = tables[spec.name]
    current = {_key(row, spec): row for row in table.to_pyarrow_table().to_pylist()}
    info = newest_info(tables[SHARE_GROUPS.name])
    if not info or not info.get("outbox"):
        return list(current.values()), ()
    committed = table.transaction_version(info["query_id"])
    owed = unpack_json(info["outbox"])["tables"].get(spec.name)
    if not owed or (committed is not None and committed >= info["batch_id"]):
        return list(current.values()), ()
    for row in owed:
        current.pop(_key(row, spec), None)
        if not row.get(DELETED):
            current[_key(row, spec)] = {**row, "time": info["now_ms"] * 1000}
    return list(current.values()), (Transaction(info["query_id"], info["batch_id"]),)


def _key(row: Mapping[str, Any], spec: TableSpec) -> tuple[Any, ...]:
    return tuple(row[column] for column in spec.key)


def _with_topic_ids(rows: pa.Table, share_partitions: DeltaTable) -> pa.Table:
    """The rows with the topic ids of now, null where there is none. Nested columns cannot take part in a join."""
    key = list(_KEY_OF_BEFORE)
    keys = rows.select(key).append_column("rank", pa.array(range(rows.num_rows), pa.int64()))
    known = share_partitions.to_pyarrow_table(columns=[*key, "topic_id"])
    return rows.append_column("topic_id", keys.join(known, key).sort_by("rank")["topic_id"])


def _newest_end_offsets(rows: pa.Table) -> dict[tuple[str, str, int], int]:
    key = ["group_id", "topic_id", "partition"]
    ordered = rows.select([*key, "leader_epoch", "batch_id", "end_offset"]).sort_by(
        [("leader_epoch", "ascending"), ("batch_id", "ascending")]
    )
    newest = ordered.group_by(key, use_threads=False).aggregate([("end_offset", "last")]).to_pylist()
    return {(row["group_id"], row["topic_id"], row["partition"]): row["end_offset_last"] for row in newest}
