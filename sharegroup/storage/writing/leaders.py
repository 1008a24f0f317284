"""Reads and writes the table `share_group_job`, which has one row for each start of a query."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

from sharegroup.storage.schemas import SHARE_GROUP_JOB, table_path
from sharegroup.storage.writing.delta_table import open_or_create
from sharegroup.storage.writing.local_sync import LocalSync


def record_leader(
    tables_path: str,
    query: str,
    leader_epoch: int,
    query_id: str,
    application_id: str,
    positions: Mapping[int, int],
    options: dict[str, str] | None = None,
) -> None:
    """Add a row to `share_group_job` for a query that is starting, before Spark plans its first batch.

    `positions` is {partition: next unread offset} for the query's request topic.
    """
    row = {
        "query": query,
        "leader_epoch": leader_epoch,
        "query_id": query_id,
        "application_id": application_id,
        "positions": list(positions.items()),
        "time": datetime.now(UTC),
    }
    table = open_or_create(tables_path, SHARE_GROUP_JOB, options)
    write_deltalake(table, pa.Table.from_pylist([row], schema=SHARE_GROUP_JOB.schema), mode="append")
    LocalSync(table_path(tables_path, SHARE_GROUP_JOB)).sync(table.version())


def last_leader_epoch(tables_path: str, query_id: str, options: dict[str, str] | None = None) -> int:
    """Return the leader epoch of the last start of the query `query_id`; 0 if the query has never started."""
    table = open_or_create(tables_path, SHARE_GROUP_JOB, options)
    rows = table.to_pyarrow_table(columns=["query_id", "leader_epoch"])
    epochs = rows.filter(pc.equal(rows["query_id"], query_id))["leader_epoch"]
    newest: int | None = pc.max(epochs).as_py()
    return newest or 0
