"""The history of one record, read from `delivery_log` without Spark."""

from datetime import datetime
from typing import NamedTuple

from sharegroup.storage.rows import DeltaTables, StorageOptions
from sharegroup.storage.schemas import DELIVERY_LOG


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
    """Return the transitions of the record at this offset, oldest first.

    If the topic was deleted and created again, the result also has the transitions of the earlier topic's record at
    this offset, with another `topic_id`. Only files whose statistics (group, topic, first and last offset) may match
    are read. Raises TableUnavailableError.
    """
    filters = [
        ("group_id", "=", group_id),
        ("topic", "=", topic),
        ("partition", "=", partition),
        ("first_offset", "<=", offset),
        ("last_offset", ">=", offset),
    ]
    opened = DeltaTables.from_path(tables, storage_options)
    rows = opened.select(DELIVERY_LOG, filters, RecordTransition._fields).to_pylist()
    found = [RecordTransition(**row) for row in rows]
    return tuple(sorted(found, key=lambda row: (row.leader_epoch, row.batch_id, row.time)))
