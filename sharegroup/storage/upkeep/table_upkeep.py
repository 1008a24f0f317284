"""Upkeep of a table while its writer commits batches. Upkeep uses its own handle of the table.

The commits of upkeep are marked, and change no row that is needed. If a writer's batch conflicts with such a commit,
the writer is not fenced, but commits the batch again. A late commit of an earlier leader's upkeep is harmless too.
"""

from sharegroup.errors import FencedLeaderError
from sharegroup.storage.writing.fence import leader_epoch_of
from sharegroup.storage.writing.table_writer import newest_info
from sharegroup.storage.writing.versioned_table import Stamp, Upkeep, VersionedTable


class TableUpkeep:
    """The upkeep of one table by one process.

    `upkeep_id` must not be a writer's id, because a writer recognises its own commits by its id.
    """

    def __init__(self, table: VersionedTable, upkeep_id: str) -> None:
        self._table, self._upkeep_id = table, upkeep_id

    def begin(self, leader_epoch: int) -> None:
        """Go to the newest version of the table, and check that `leader_epoch` is still the table's leader epoch.

        Raises FencedLeaderError if the table has another leader, and TableStoreError if it is unavailable.
        """
        self._table.refresh()
        newest = leader_epoch_of(self._table)
        if newest != leader_epoch:
            raise FencedLeaderError(
                f"upkeep of {self._table.spec.name} for leader epoch {leader_epoch} was cancelled: "
                f"the table now has leader epoch {newest}"
            )

    def run(self, leader_epoch: int, upkeep: Upkeep) -> None:
        self.begin(leader_epoch)
        self.finish(upkeep)

    def finish(self, upkeep: Upkeep) -> None:
        """Compact the table's files, shorten its log, and delete the rows of old days. Call `begin` first.

        Each commit repeats the `Info` of the newest micro-batch, so that a starting job finds it in the newest commits.
        Raises TableStoreError if the table is unavailable.
        """
        self._table.upkeep(upkeep, Stamp(self._upkeep_id, newest_info(self._table), is_upkeep=True))
