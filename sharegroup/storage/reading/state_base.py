"""The base: `share_group_state_base` has a folded row of each share-partition, as of a version of `share_group_state`.

Who wants the present state reads the base and the records that came after its cut, in place of days of updates:

    share_group_state     ..............................|......
                                                        cut    version that is read
    share_group_state_base                     one row each + the records after the cut

It says nothing that `share_group_state` does not say, and may be missing, or be behind by any number of records. Upkeep
writes it anew from time to time (`storage.upkeep.state_base_upkeep`); its earlier versions stay as long as any
table's, so that a pinned version of the state has one as well. Records are never changed after they were written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

#: How many versions back a base is looked for; before that, the table itself is read.
_VERSIONS_BACK = 20


class Cut(NamedTuple):
    """Where a base ends: the version of `share_group_state` it stands for, and the newest record in that."""

    version: int
    leader_epoch: int
    batch_id: int

    def later_rows(self) -> pc.Expression:
        """The rows of `share_group_state` after the cut, as a filter; statistics let it skip whole files."""
        leader_epoch, batch_id = pc.field("leader_epoch"), pc.field("batch_id")
        same_leader = (leader_epoch == self.leader_epoch) & (batch_id > self.batch_id)
        return (leader_epoch > self.leader_epoch) | same_leader


def cut_of(base: DeltaTable) -> Cut | None:
    """The cut of the base's rows, from the log alone; None where it has none yet."""
    files = pa.table(base.get_add_actions(flatten=True))
    if not len(files):
        return None
    return Cut(*(files[f"min.as_of_{field}"][0].as_py() for field in Cut._fields))


class StateBases:
    """The versions of the base; one lives as long as its reader. `options` are the storage's."""

    def __init__(self, path: str, options: Mapping[str, str] | None = None) -> None:
        self._path, self._options = path, dict(options or {}) or None
        self._newest: DeltaTable | None = None

    def newest(self) -> DeltaTable | None:
        """The base now; None where there is none. To be asked before the version of the state that it is for.

        Raises delta-rs's errors.
        """
        try:
            if self._newest is None:
                self._newest = DeltaTable(self._path, storage_options=self._options)
            else:
                self._newest.update_incremental()
        except TableNotFoundError:
            return None
        return self._newest

    def at_most(self, version: int) -> DeltaTable | None:
        """The newest base for this version of the state; None where there is none (any more)."""
        newest = self.newest()
        if newest is None or _stands_for(newest, version):
            return newest
        for earlier in range(newest.version() - 1, max(-1, newest.version() - 1 - _VERSIONS_BACK), -1):
            try:
                base = DeltaTable(self._path, version=earlier, storage_options=self._options)
            except (DeltaError, OSError):  # it is older than what is kept
                return None
            if _stands_for(base, version):
                return base
        return None


def _stands_for(base: DeltaTable, version: int) -> bool:
    cut = cut_of(base)
    return cut is not None and cut.version <= version
