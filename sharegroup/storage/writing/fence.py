"""The fence between leaders of one table: what is made of commits that a writer did not make.

A writer keeps one handle and never refreshes it before a commit. A commit is a compare-and-set on the table's version,
so any foreign commit makes the next one fail, and then this module decides:

- a higher leader epoch is in the table, or a commit that is not a job's: the writer is fenced;
- the commit is there, and only its answer was lost: it counts;
- there is nothing new: the store is to blame;
- all that came in between is upkeep, this leader's or that of one before, which goes over the lead commit of the next
  one. The same rows are there, so the commit is tried again;
- while it takes the lead, a writer goes over whatever leaders of lower epochs commit.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.errors import FencedLeaderError
from sharegroup.storage.writing.versioned_table import Commit, TableStoreError, VersionedTable

#: The transaction id under which each leader writes its epoch into every table; that commit fences the last leader.
LEADER_APP_ID = "sharegroup.leader_epoch"


def leader_epoch_of(table: VersionedTable) -> int:
    """The highest leader epoch in the table, as the handle knows it; 0 before the first."""
    return table.transaction_version(LEADER_APP_ID) or 0


class Fence:
    """One writer's: it knows its epoch, and whether the writer has been fenced, which is for good.

    `writer_id` is this writer's alone: by it a commit whose answer was lost is known again.
    """

    def __init__(self, table: VersionedTable, writer_id: str) -> None:
        self._table, self.writer_id = table, writer_id
        self._led_epoch = 0
        self._fenced: FencedLeaderError | None = None

    def begin_lead(self, leader_epoch: int) -> None:
        """The writer is about to commit this epoch. Raises FencedLeaderError when it, or a higher one, is there."""
        self._led_epoch = leader_epoch
        if leader_epoch_of(self._table) >= leader_epoch:
            raise self._fence("it came first")

    def refuse_when_fenced(self) -> None:
        """Raise FencedLeaderError again once it was raised."""
        if self._fenced is not None:
            raise self._fenced

    def is_own(self, commits: Sequence[Commit]) -> bool:
        """Whether the writer made one of them."""
        return any(commit.writer == self.writer_id for commit in commits)

    def commits_after(self, known: int, cause: Exception | str, takes_the_lead: bool = False) -> Sequence[Commit]:
        """The commits after version `known`, the newest first. Raises FencedLeaderError when one is in the way."""
        count = self._table.version - known
        after = self._table.commits(count) if count else ()
        if takes_the_lead:
            newest = leader_epoch_of(self._table)
            is_fenced = newest > self._led_epoch if self.is_own(after) else newest >= self._led_epoch
        else:
            is_fenced = len(after) < count or any(map(self._is_foreign, after))
        if is_fenced:
            raise self._fence(cause)
        return after

    def _is_foreign(self, commit: Commit) -> bool:
        is_upkeep = commit.rearranges and commit.writer is not None
        return commit.writer != self.writer_id and not is_upkeep

    def _fence(self, cause: Exception | str) -> FencedLeaderError:
        """Say who leads now. From here on the writer is refused."""
        try:
            self._table.refresh()
            newest = f"leader epoch {leader_epoch_of(self._table)}, version {self._table.version}"
        except TableStoreError as error:  # the table itself is unreadable: say that instead
            newest = str(error)
        self._fenced = FencedLeaderError(
            f"FENCED_LEADER_EPOCH: another writer committed to {self._table.spec.name} (mine: leader epoch "
            f"{self._led_epoch}; there now: {newest}); one job may write to a set of tables: {cause}"
        )
        return self._fenced
