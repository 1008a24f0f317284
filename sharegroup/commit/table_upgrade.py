"""Tables of an earlier version, brought into the form of `tables.schemas` when the job starts.

Before topics had identities, the name of a topic was the key of all that belongs to it. Now the growing tables have a
column `topic_id`, and `share_group_state` has one snapshot of each share-partition's state under the topic id that its
row in `share_partitions` tells; the rows of before stay, as history, without an id.

Before tables of current state had chunks (see `current_rows`), each was one file. Now they are written anew, with the
column `chunk` as their partition column. Readers, and checkpoints, go by the rows, which are the same.

Before there were static members, `share_group_members` had no column for their names. Now it has, with nulls; readers
and checkpoints go by the rows here, too.

    dies anywhere    a table is upgraded by ONE commit, which brings the columns together with the rows: a table that
                     lacks columns has not been upgraded, one that has them has been, and is left alone
    two at once      the commit is a compare-and-set on the table's version: one of them does it, the other sees it done
    the job of       is fenced by the commit before that, which is empty; it could be faster than the reading of a large
    before runs      table again and again. The table that its batches begin with comes first
    what it owed     the outbox of its newest commit names rows of other tables that it had no time for: they come with
                     the upgrade, for by the keys of now they might meet rows that they were to replace
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from sharegroup.commit.delta_commit import NO_HOOKS, info_metadata
from sharegroup.commit.delta_table import open_or_create
from sharegroup.commit.local_sync import LocalSync
from sharegroup.commit.upgraded_rows import (
    Tables,
    Upgrade,
    in_chunks_now,
    newest_info,
    upgraded_delivery_log,
    upgraded_members,
    upgraded_share_partitions,
    upgraded_states,
)
from sharegroup.errors import ShareGroupError
from sharegroup.tables.schemas import (
    ALL_TABLES,
    DELIVERY_LOG,
    SHARE_GROUP_CONFIGS,
    SHARE_GROUP_MEMBERS,
    SHARE_GROUP_STATE,
    SHARE_GROUPS,
    SHARE_PARTITIONS,
    TableSpec,
    table_path,
)

logger = logging.getLogger(__name__)

#: The transaction of an upgrade, whose version is that of the tables' form.
APP_ID = "sharegroup.upgrade"
FORM = 4


class OlderCheckpointError(ShareGroupError):
    """The tables are an earlier version's, and so is the checkpoint: nothing in it could be read."""


def refuse_older_checkpoints(
    tables_path: str, checkpoints: Iterable[str], is_used: Callable[[str], bool], options: dict[str, str] | None = None
) -> None:
    """Raise OlderCheckpointError when tables lack topic ids and one of `checkpoints` (directories) `is_used`.

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
    _upgrade(tables, SHARE_GROUPS, lambda: in_chunks_now(tables, SHARE_GROUPS))
    _upgrade(tables, SHARE_PARTITIONS, lambda: upgraded_share_partitions(tables))
    _upgrade(tables, SHARE_GROUP_MEMBERS, lambda: upgraded_members(tables))
    _upgrade(tables, SHARE_GROUP_CONFIGS, lambda: in_chunks_now(tables, SHARE_GROUP_CONFIGS))
    _upgrade(tables, SHARE_GROUP_STATE, lambda: upgraded_states(tables, now_ms))
    _upgrade(tables, DELIVERY_LOG, upgraded_delivery_log)
    for spec in ALL_TABLES:
        LocalSync(table_path(tables_path, spec)).sync(tables[spec.name].version())


def _opened(tables_path: str, options: dict[str, str] | None) -> Tables:
    return {spec.name: open_or_create(tables_path, spec, options) for spec in ALL_TABLES}


def _missing(tables: Tables, spec: TableSpec) -> tuple[str, ...]:
    return spec.missing_columns(pa.schema(tables[spec.name].schema()))


def _lacks(tables: Tables, spec: TableSpec) -> tuple[str, ...]:
    """What a table lacks of its form: columns, and what it is partitioned by."""
    there = {field.name for field in pa.schema(tables[spec.name].schema())}
    partitioned_by = tables[spec.name].metadata().partition_columns
    lacking = {column: None for column in spec.added if column in spec.schema.names and column not in there}
    lacking |= {column: None for column in spec.partition_by if column not in partitioned_by}
    return (*_missing(tables, spec), *lacking)


def _upgrade(tables: Tables, spec: TableSpec, made: Callable[[], Upgrade]) -> None:
    table = tables[spec.name]
    if _lacks(tables, spec):
        _committed(table, lambda: _fence_the_job_of_before(table))
        _committed(table, lambda: _take_comments(table, spec))
    while missing := _lacks(tables, spec):
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


def _commit(table: DeltaTable, spec: TableSpec, upgrade: Upgrade) -> None:
    properties = CommitProperties(
        custom_metadata=info_metadata(newest_info(table)),
        app_transactions=[Transaction(APP_ID, FORM), *upgrade.transactions],
        max_commit_retries=0,
    )
    if spec.is_append_only:
        write_deltalake(
            table, upgrade.rows, mode="append", schema_mode="merge",
            commit_properties=properties, post_commithook_properties=NO_HOOKS,
        )  # fmt: skip
    else:
        write_deltalake(
            table, upgrade.rows, mode="overwrite", schema_mode="overwrite", partition_by=list(spec.partition_by),
            commit_properties=properties, post_commithook_properties=NO_HOOKS,
        )  # fmt: skip
