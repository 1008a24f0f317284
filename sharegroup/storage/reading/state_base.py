"""The *base*: the table `share_group_state_base`, with the state of each share-partition in one row.

It has the states as of one version of `share_group_state`, the *cut*. A reader of the present state reads the base and
the records after the cut, instead of days of records:

    share_group_state     ..............................|......
                                                        cut    version that is read
    share_group_state_base                     one row each + the records after the cut

The base contains nothing that `share_group_state` does not contain. It may be missing, or behind by any number of
records. Upkeep rewrites it from time to time (`storage.upkeep.state_base_upkeep`). Earlier versions of the base are
kept as long as those of other tables. A reader of an older version of the state therefore finds a base too. An older
base stays correct, because records never change.
"""

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

#: How many versions of the base are searched for one that is old enough. If none is found, the whole state is read.
_VERSIONS_BACK = 20


class Cut(NamedTuple):
    """The place in `share_group_state` up to which a base contains the states.

    `version` is the version of `share_group_state` that the base represents. `leader_epoch` and `batch_id` identify the
    newest record of this version.
    """

    version: int
    leader_epoch: int
    batch_id: int

    def later_rows(self) -> pc.Expression:
        """Return a filter for the rows of `share_group_state` after the cut.

        A reader skips each file whose statistics show that it has no such rows.
        """
        leader_epoch, batch_id = pc.field("leader_epoch"), pc.field("batch_id")
        same_leader = (leader_epoch == self.leader_epoch) & (batch_id > self.batch_id)
        return (leader_epoch > self.leader_epoch) | same_leader


def cut_of(base: DeltaTable) -> Cut | None:
    """Return the cut of a base from the statistics in the table's log, without reading rows; None for an empty base."""
    files = pa.table(base.get_add_actions(flatten=True))
    if not len(files):
        return None
    return Cut(*(files[f"min.as_of_{field}"][0].as_py() for field in Cut._fields))


class StateBases:
    """Finds the version of the base (the table `share_group_state_base`) that fits the version of the state to be read.

    A reader keeps one instance, because it caches a handle of the table. `options` are storage options.
    """

    def __init__(self, path: str, options: Mapping[str, str] | None = None) -> None:
        self._path, self._options = path, dict(options or {}) or None
        self._newest: DeltaTable | None = None

    def newest(self) -> DeltaTable | None:
        """Return the newest version of the base; None if the table does not exist.

        A caller that also reads the newest state must open `share_group_state` after this call. Otherwise the state may
        be older than the base. Raises delta-rs's errors.
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
        """Return the newest version of the base whose cut is not after `version`, a version of `share_group_state`.

        Return None if there is no such version of the base, or if it is not one of the newest versions, which are the
        only ones that are searched. The caller must then read the whole state. Raises delta-rs's errors.
        """
        newest = self.newest()
        if newest is None or _stands_for(newest, version):
            return newest
        for earlier in range(newest.version() - 1, max(-1, newest.version() - 1 - _VERSIONS_BACK), -1):
            try:
                base = DeltaTable(self._path, version=earlier, storage_options=self._options)
            except (DeltaError, OSError):  # the version is no longer kept
                return None
            if _stands_for(base, version):
                return base
        return None


def _stands_for(base: DeltaTable, version: int) -> bool:
    cut = cut_of(base)
    return cut is not None and cut.version <= version
