"""Upkeep of a table beside its writer: on a handle of its own, while batches are committed.

Its commits are marked as such. They change no row that anybody needs, so a writer that finds them in the way of a batch
commits the batch again after them, and is not fenced. What another leader's upkeep does late does no harm either.
"""

from __future__ import annotations

from sharegroup.errors import FencedLeaderError
from sharegroup.storage.writing.fence import leader_epoch_of
from sharegroup.storage.writing.table_writer import newest_info
from sharegroup.storage.writing.versioned_table import Stamp, Upkeep, VersionedTable


class TableUpkeep:
    """The upkeep of one table by one process. `upkeep_id` must not be a writer's."""

    def __init__(self, table: VersionedTable, upkeep_id: str) -> None:
        self._table, self._upkeep_id = table, upkeep_id

    def begin(self, leader_epoch: int) -> None:
        """Go to the newest version. Raises FencedLeaderError when the table has another leader, and TableStoreError."""
        self._table.refresh()
        newest = leader_epoch_of(self._table)
        if newest != leader_epoch:
            raise FencedLeaderError(f"no upkeep of {self._table.spec.name} for {leader_epoch}: leader {newest} leads")

    def run(self, leader_epoch: int, upkeep: Upkeep) -> None:
        """Both steps: `begin` and `finish`."""
        self.begin(leader_epoch)
        self.finish(upkeep)

    def finish(self, upkeep: Upkeep) -> None:
        """Bound the number of live files and the log, drop old days; `begin` comes first.

        The newest batch's info rides on each commit, so that it is found among the newest ones. Raises TableStoreError.
        """
        self._table.upkeep(upkeep, Stamp(self._upkeep_id, newest_info(self._table), is_upkeep=True))
