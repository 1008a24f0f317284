"""The base of `share_group_state` in a run, as `storage.upkeep.state_base_upkeep` writes it, with all its versions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharegroup.storage.reading.state_base import Cut, StateBases
from sharegroup.storage.schemas import SHARE_GROUP_STATE, SHARE_GROUP_STATE_BASE
from sharegroup.storage.upkeep.state_base_upkeep import make_base
from tests.harness.memory_tables import MemoryTables


class SimulatedBases(StateBases):
    """The bases of the tables of a run."""

    def __init__(self, tables: MemoryTables) -> None:
        super().__init__("")
        self._tables = tables
        self._versions: list[SimulatedBase] = []

    def write(self) -> None:
        """Write the base again from the newest version."""
        version = self._tables.newest_version(SHARE_GROUP_STATE)
        rows = self._tables.arrow(SHARE_GROUP_STATE, version)
        before = SHARE_GROUP_STATE_BASE.schema.empty_table()
        if self._versions:
            before = self._versions[-1].rows
            rows = rows.filter(self._versions[-1].cut.later_rows())
        if len(rows):
            self._versions.append(SimulatedBase(make_base(before, rows, version)))

    def forget_after(self, version: int) -> None:
        """Remove the bases of lost versions, as `storage.writing.torn_log` does."""
        self._versions = [base for base in self._versions if base.cut.version <= version]

    def at_most(self, version: int) -> Any:
        """Return the newest base for this version of the state."""
        return next((base for base in reversed(self._versions) if base.cut.version <= version), None)


class SimulatedBase:
    """The part of a base's `deltalake.DeltaTable` that readers use."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.cut = Cut(*(rows[column][0].as_py() for column in rows.column_names[: len(Cut._fields)]))

    def get_add_actions(self, flatten: bool) -> pa.Table:
        """Return one file, with the statistics of a cut."""
        return pa.table({f"min.as_of_{name}": [value] for name, value in self.cut._asdict().items()})

    def to_pyarrow_table(self, filters: pc.Expression | None = None) -> pa.Table:
        """Return its rows."""
        return self.rows if filters is None else self.rows.filter(filters)
