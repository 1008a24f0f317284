"""Rows of the operators (JSON objects, times in milliseconds) to Arrow tables in the form of `tables.schemas`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa

from sharegroup.tables.schemas import TableSpec

#: A row of current state with this key set removes the row of its key.
DELETED = "_deleted"


def stamped_table(
    spec: TableSpec, rows: Iterable[dict[str, Any]], *, leader_epoch: int, batch_id: int, now_ms: int
) -> pa.Table:
    """Rows of an append-only table with the columns that the writer owns: day, leader_epoch, batch_id, time."""
    stamp = {
        "day": datetime.fromtimestamp(now_ms / 1000, timezone.utc).date(),
        "leader_epoch": leader_epoch,
        "batch_id": batch_id,
        "time": now_ms * 1000,
    }
    return pa.Table.from_pylist([{**row, **stamp} for row in rows], schema=spec.schema)


class CurrentRows:
    """The rows of a table of current state, by key; a commit writes all of them, for these tables are small."""

    def __init__(self, spec: TableSpec, rows: pa.Table) -> None:
        self._spec = spec
        self._rows = {self._key(row): row for row in rows.to_pylist()}

    def rows(self) -> list[dict[str, Any]]:
        """The rows, ordered by key."""
        return [self._rows[key] for key in sorted(self._rows)]

    def upsert(self, rows: Iterable[dict[str, Any]], now_ms: int) -> pa.Table:
        """Put (or, where marked, remove) rows and return the whole table, ordered by key."""
        for row in rows:
            if row.get(DELETED):
                self._rows.pop(self._key(row), None)
            else:
                self._rows[self._key(row)] = {**row, "time": now_ms * 1000}
        return pa.Table.from_pylist(self.rows(), schema=self._spec.schema)

    def _key(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[column] for column in self._spec.key)
