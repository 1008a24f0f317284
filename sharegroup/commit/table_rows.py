"""Rows of the operators (JSON objects, times in milliseconds) in the form of `tables.schemas`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from sharegroup.commit.versioned_table import Row
from sharegroup.tables.schemas import TableSpec

#: A row of current state with this key set removes the row of its key.
DELETED = "_deleted"


def stamped_rows(rows: Iterable[Row], *, leader_epoch: int, batch_id: int, now_ms: int) -> list[Row]:
    """Rows of an append-only table with the columns that the writer owns: day, leader_epoch, batch_id, time."""
    stamp = {
        "day": datetime.fromtimestamp(now_ms / 1000, UTC).date(),
        "leader_epoch": leader_epoch,
        "batch_id": batch_id,
        "time": now_ms * 1000,
    }
    return [{**row, **stamp} for row in rows]


class CurrentRows:
    """The rows of a table of current state, by key; a commit writes all of them, for these tables are small."""

    def __init__(self, spec: TableSpec, rows: Iterable[Row]) -> None:
        self._spec = spec
        self._rows = {self._key(row): row for row in rows}

    def rows(self) -> list[Row]:
        """The rows, ordered by key."""
        return [self._rows[key] for key in sorted(self._rows)]

    def row_like(self, row: Row) -> Row | None:
        """The row that has this one's key; None if there is none."""
        return self._rows.get(self._key(row))

    def upsert(self, rows: Iterable[Row], now_ms: int) -> list[Row]:
        """Put (or, where marked, remove) rows and return all of the table's, ordered by key."""
        for row in rows:
            if row.get(DELETED):
                self._rows.pop(self._key(row), None)
            else:
                self._rows[self._key(row)] = {**row, "time": now_ms * 1000}
        return self.rows()

    def _key(self, row: Row) -> tuple[object, ...]:
        return tuple(row[column] for column in self._spec.key)
