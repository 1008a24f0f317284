"""Tables of an earlier version, brought into the form of `tables.schemas` when the job starts.

Before topics had identities, the name of a topic was the key of all that belongs to it. Now the growing tables have a
column `topic_id`, and `share_group_state` has one snapshot of each share-partition's state under the topic id that its
row in `share_partitions` tells; the rows of before stay, as history, without an id. The tables of current state are
written anew.

    dies anywhere    a table is upgraded by ONE commit, which brings the columns together with the rows: a table that
                     lacks columns has not been upgraded, one that has them has been, and is left alone
    two at once      the commit is a compare-and-set on the table's version: one of them does it, the other sees it done
    the job of       is fenced by the commit before that, which is empty; it could be faster than the reading of a large
    before runs      table again and again
    what it owed     the outbox of its newest commit names rows of other tables that it had no time for: they come with
                     the upgrade, for by the keys of now they might meet rows that they were to replace
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import logging
import zlib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from sharegroup.commit.delta_commit import NO_HOOKS, info_metadata, info_of
from sharegroup.commit.delta_table import open_or_create
from sharegroup.commit.table_rows import DELETED
from sharegroup.engine.durable_rows import state_row
from sharegroup.errors import ShareGroupError
from sharegroup.share_coordinator.records import RecordKind, ShareGroupStateRecord
from sharegroup.tables.schemas import (
    ALL_TABLES,
    DELIVERY_LOG,
    SHARE_GROUP_MEMBERS,
    SHARE_GROUP_STATE,
    SHARE_GROUPS,
    SHARE_PARTITIONS,
    TableSpec,
)
from sharegroup.tables.state_table import folded_states

logger = logging.getLogger(__name__)

#: The transaction of an upgrade, whose version is that of the tables' form.
APP_ID = "sharegroup.upgrade"
FORM = 2

_KEY_OF_BEFORE = ("group_id", "topic", "partition")
#: No micro-batch wrote what the upgrade writes.
_NO_BATCH = -1
_COMMITS_TO_SEARCH = 50


class OlderCheckpointError(ShareGroupError):
    """The tables are an earlier version's, and so is the checkpoint: nothing in it could be read."""


def refuse_older_checkpoints(
    tables_path: str, checkpoints: Iterable[str], is_used: Callable[[str], bool], options: dict[str, str] | None = None
) -> None:
    """Raise OlderCheckpointError when tables are to be upgraded and one of `checkpoints` (directories) `is_used`.

    A checkpoint is used when it has a batch in it. Comes before `upgrade_tables`, and changes nothing.
    """
    tables = _opened(tables_path, options)
    if not any(_missing(tables, spec) for spec in ALL_TABLES):
        return
    for checkpoint in checkpoints:
        if is_used(checkpoint):
            raise OlderCheckpointError(
                f"the tables below {tables_path} were written by an earlier version of the job, and the checkpoint "
                f"{checkpoint} belongs to it: remove that checkpoint, and the job comes back from the tables"
            )


def upgrade_tables(tables_path: str, now_ms: int, options: dict[str, str] | None = None) -> None:
    """Upgrade the tables of an earlier version; nothing to do for others. Missing ones are made.

    Comes before any of them is opened for writing. Raises CommitFailedError where the store takes no commit.
    """
    tables = _opened(tables_path, options)
    _upgrade(tables, SHARE_PARTITIONS, lambda: _share_partitions(tables))
    _upgrade(tables, SHARE_GROUP_MEMBERS, lambda: _members(tables))
    _upgrade(tables, SHARE_GROUP_STATE, lambda: _states(tables, now_ms))
    _upgrade(tables, DELIVERY_LOG, lambda: _Upgrade(DELIVERY_LOG.schema.empty_table()))


def newest_info(table: DeltaTable) -> dict[str, Any] | None:
    """The job's entry of the table's newest commit that has one; None where there is none."""
    infos = map(info_of, table.history(_COMMITS_TO_SEARCH))
    return next((info for info in infos if info is not None), None)


class _Upgrade(NamedTuple):
    """The rows of a commit, and the transactions beside its own that are done with it."""

    rows: pa.Table
    transactions: tuple[Transaction, ...] = ()


Tables = Mapping[str, DeltaTable]


def _opened(tables_path: str, options: dict[str, str] | None) -> Tables:
    return {spec.name: open_or_create(tables_path, spec, options) for spec in ALL_TABLES}


def _missing(tables: Tables, spec: TableSpec) -> tuple[str, ...]:
    return spec.missing_columns(pa.schema(tables[spec.name].schema()))


def _upgrade(tables: Tables, spec: TableSpec, made: Callable[[], _Upgrade]) -> None:
    table = tables[spec.name]
    if _missing(tables, spec):
        _committed(table, lambda: _fence_the_job_of_before(table))
        _committed(table, lambda: _take_comments(table, spec))
    while missing := _missing(tables, spec):
        upgrade = made()
        if _committed(table, functools.partial(_commit, table, spec, upgrade)):
            names, carried = ", ".join(missing), upgrade.rows.num_rows
            logger.warning("table %s is upgraded: %s; %d rows were carried over", spec.name, names, carried)


def _committed(table: DeltaTable, commit: Callable[[], None]) -> bool:
    """Whether it was committed, and not another job faster. Raises CommitFailedError where the store is to blame."""
    known = table.version()
    try:
        commit()
    except CommitFailedError:
        table.update_incremental()
        if table.version() == known:
            raise
        return False
    return True


def _fence_the_job_of_before(table: DeltaTable) -> None:
    write_deltalake(table, pa.schema(table.schema()).empty_table(), mode="append")


def _take_comments(table: DeltaTable, spec: TableSpec) -> None:
    """What a column is for may be told otherwise now, and rows with other comments than the table's are refused."""
    comments = {field.name: field.metadata for field in spec.schema}
    for field in pa.schema(table.schema()):
        if field.metadata != comments[field.name]:
            comment = comments[field.name][b"comment"].decode()
            table.alter.set_column_metadata(
                field.name,
                {"comment": comment},
                commit_properties=CommitProperties(max_commit_retries=0),
                post_commithook_properties=NO_HOOKS,
            )


def _commit(table: DeltaTable, spec: TableSpec, upgrade: _Upgrade) -> None:
    mode: Literal["append", "overwrite"] = "append" if spec.is_append_only else "overwrite"
    write_deltalake(
        table,
        upgrade.rows,
        mode=mode,
        schema_mode="merge" if spec.is_append_only else "overwrite",
        commit_properties=CommitProperties(
            custom_metadata=info_metadata(newest_info(table)),
            app_transactions=[Transaction(APP_ID, FORM), *upgrade.transactions],
            max_commit_retries=0,
        ),
        post_commithook_properties=NO_HOOKS,
    )


# -- what each table has after its upgrade -----------------------------------------------------------------------------


def _share_partitions(tables: Tables) -> _Upgrade:
    """The rows as they were; where a share-partition that is still to be initialized starts, the config of now says."""
    current, transactions = _current_rows(tables, dataclasses.replace(SHARE_PARTITIONS, key=_KEY_OF_BEFORE))
    return _Upgrade(pa.Table.from_pylist(current, schema=SHARE_PARTITIONS.schema), transactions)


def _members(tables: Tables) -> _Upgrade:
    """The rows with topic ids in their assignments; "" where nothing is known of the topic any more."""
    current, transactions = _current_rows(tables, SHARE_GROUP_MEMBERS)
    topic_ids = {
        (row["group_id"], row["topic"]): row["topic_id"]
        for row in tables[SHARE_PARTITIONS.name].to_pyarrow_table().to_pylist()
        if row["status"] != "deleting"
    }
    for row in current:
        for item in row["assignment"]:
            item["topic_id"] = topic_ids.get((row["group_id"], item["topic"]), "")
    return _Upgrade(pa.Table.from_pylist(current, schema=SHARE_GROUP_MEMBERS.schema), transactions)


def _current_rows(tables: Tables, spec: TableSpec) -> tuple[list[dict[str, Any]], tuple[Transaction, ...]]:
    """The rows of a group coordinator's table, with what the newest commit of `share_groups` still owes it."""
    table = tables[spec.name]
    current = {_key(row, spec): row for row in table.to_pyarrow_table().to_pylist()}
    info = newest_info(tables[SHARE_GROUPS.name])
    if not info or not info.get("outbox"):
        return list(current.values()), ()
    committed = table.transaction_version(info["query_id"])
    owed = _unpacked(info["outbox"])["tables"].get(spec.name)
    if not owed or (committed is not None and committed >= info["batch_id"]):
        return list(current.values()), ()
    for row in owed:
        current.pop(_key(row, spec), None)
        if not row.get(DELETED):
            current[_key(row, spec)] = {**row, "time": info["now_ms"] * 1000}
    return list(current.values()), (Transaction(info["query_id"], info["batch_id"]),)


def _key(row: Mapping[str, Any], spec: TableSpec) -> tuple[Any, ...]:
    return tuple(row[column] for column in spec.key)


def _unpacked(outbox: str) -> dict[str, Any]:
    """An outbox as that version packed it."""
    content: dict[str, Any] = json.loads(zlib.decompress(base64.b85decode(outbox)))
    return content


def _states(tables: Tables, now_ms: int) -> _Upgrade:
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
    return _Upgrade(pa.Table.from_pylist(carried, schema=SHARE_GROUP_STATE.schema))


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
