"""The base of `share_group_state` in a run: what `storage.upkeep.state_base_upkeep` writes, with every version of it
kept."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharegroup.storage.reading.state_base import Cut, StateBases
from sharegroup.storage.schemas import SHARE_GROUP_STATE, SHARE_GROUP_STATE_BASE
from sharegroup.storage.upkeep.state_base_upkeep import rebased
from sharegroup.testing.tables.memory_tables import MemoryTables


class SimulatedBases(StateBases):
    """Bases of the tables of a run."""

    def __init__(self, tables: MemoryTables) -> None:
        super().__init__("")
        self._tables = tables
        self._versions: list[SimulatedBase] = []

    def write(self) -> None:
        """Write the base anew from the newest version."""
        version = self._tables.newest_version(SHARE_GROUP_STATE)
        rows = self._tables.arrow(SHARE_GROUP_STATE, version)
        before = SHARE_GROUP_STATE_BASE.schema.empty_table()
        if self._versions:
            before = self._versions[-1].rows
            rows = rows.filter(self._versions[-1].cut.later_rows())
        if len(rows):
            self._versions.append(SimulatedBase(rebased(before, rows, version)))

    def forget_after(self, version: int) -> None:
        """Drop the bases of versions that are lost, as `storage.writing.torn_log` does."""
        self._versions = [base for base in self._versions if base.cut.version <= version]

    def at_most(self, version: int) -> Any:
        """The newest for this version of the state."""
        return next((base for base in reversed(self._versions) if base.cut.version <= version), None)


class SimulatedBase:
    """What readers use of a base's `deltalake.DeltaTable`."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.cut = Cut(*(rows[column][0].as_py() for column in rows.column_names[: len(Cut._fields)]))

    def get_add_actions(self, flatten: bool) -> pa.Table:
        """One file, with the statistics of a cut."""
        return pa.table({f"min.as_of_{name}": [value] for name, value in self.cut._asdict().items()})

    def to_pyarrow_table(self, filters: pc.Expression | None = None) -> pa.Table:
        """Its rows."""
        return self.rows if filters is None else self.rows.filter(filters)
