"""The history of one record, read from `delivery_log` without Spark."""

from datetime import datetime
from typing import NamedTuple

from deltalake.exceptions import DeltaError

from sharegroup.storage.rows import DeltaTables, StorageOptions, TableUnavailableError
from sharegroup.storage.schemas import DELIVERY_LOG
from sharegroup.storage.store_outage import one_line


class RecordTransition(NamedTuple):
    """One transition of the range that contains a record; the columns are those of `delivery_log`."""

    time: datetime
    cause: str
    from_state: str
    to_state: str
    delivery_count: int
    member_id: str | None
    lock_deadline: datetime | None
    first_offset: int
    last_offset: int
    topic_id: str
    leader_epoch: int
    batch_id: int


def read_record_history(
    tables: str | DeltaTables,
    group_id: str,
    topic: str,
    partition: int,
    offset: int,
    storage_options: StorageOptions = None,
) -> tuple[RecordTransition, ...]:
    """Return the transitions of a record, oldest first, in all topics that had this name.

    Only files whose statistics (group, topic, first and last offset) may match are read. Raises TableUnavailableError.
    """
    opened = DeltaTables.from_path(tables, storage_options).open(DELIVERY_LOG)
    filters = [
        ("group_id", "=", group_id),
        ("topic", "=", topic),
        ("partition", "=", partition),
        ("first_offset", "<=", offset),
        ("last_offset", ">=", offset),
    ]
    try:
        rows = opened.to_pyarrow_table(filters=filters, columns=list(RecordTransition._fields)).to_pylist()
    except (DeltaError, OSError) as error:
        raise TableUnavailableError(f"table {DELIVERY_LOG.name} cannot be read: {one_line(error)}") from error
    found = [RecordTransition(**row) for row in rows]
    return tuple(sorted(found, key=lambda row: (row.leader_epoch, row.batch_id, row.time)))
