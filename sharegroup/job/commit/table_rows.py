"""Converts rows of the operators (JSON objects, times in milliseconds) to the form of `storage.schemas`."""

from collections.abc import Iterable
from datetime import UTC, datetime

from sharegroup.storage.writing.versioned_table import Row

#: A row with this field set to True removes the row with the same key from a table of current state.
DELETED = "_deleted"


def stamp_rows(rows: Iterable[Row], *, leader_epoch: int, batch_id: int, now_ms: int) -> list[Row]:
    """Return rows of an append-only table with the writer's columns: day, leader_epoch, batch_id, time."""
    stamp = {
        "day": datetime.fromtimestamp(now_ms / 1000, UTC).date(),
        "leader_epoch": leader_epoch,
        "batch_id": batch_id,
        "time": now_ms * 1000,
    }
    return [{**row, **stamp} for row in rows]
