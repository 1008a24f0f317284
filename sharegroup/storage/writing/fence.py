"""The fence between leaders of one table: decides how a writer handles commits that it did not make.

A writer keeps one handle and never refreshes it before a commit. A commit is a compare-and-set on the table's version,
so a commit of any other process makes the writer's next commit fail. This module then decides:

- The table has a higher leader epoch, or a commit of another tool than the job: the writer is *fenced* (it may no
  longer write).
- The table has the writer's commit, and only the response was lost: the commit is successful.
- The table has no new commit: the commit failed because of an error of the store.
- All new commits are upkeep, of this leader or of an earlier one whose upkeep ended late. The rows are the same, so the
  commit is retried.
- The writer is becoming the leader: only another leader with the same or a higher epoch fences it. After other commits,
  it retries.
"""

from collections.abc import Sequence

from sharegroup.errors import FencedLeaderError
from sharegroup.storage.writing.versioned_table import Commit, TableStoreError, VersionedTable

#: The transaction id of the commit with which a leader writes its epoch to a table. It fences the previous leader.
LEADER_APP_ID = "sharegroup.leader_epoch"


def leader_epoch_of(table: VersionedTable) -> int:
    """Return the highest leader epoch in the table, at the handle's version; 0 if there is none yet."""
    return table.transaction_version(LEADER_APP_ID) or 0


class WriterFence:
    """Decides for one writer whether another leader has replaced it. A fenced writer stays fenced.

    `writer_id` must be unique; it identifies a commit whose response was lost.
    """

    def __init__(self, table: VersionedTable, writer_id: str) -> None:
        self._table, self.writer_id = table, writer_id
        self._own_epoch = 0
        self._fenced: FencedLeaderError | None = None

    def begin_epoch(self, leader_epoch: int) -> None:
        """Set the writer's own leader epoch.

        If the table has this or a higher leader epoch already, fence the writer and raise FencedLeaderError.
        """
        self._own_epoch = leader_epoch
        if leader_epoch_of(self._table) >= leader_epoch:
            raise self._fence("another job has written to the table with this leader epoch or a higher one")

    def raise_if_fenced(self) -> None:
        """Raise FencedLeaderError if the writer was fenced before."""
        if self._fenced is not None:
            raise self._fenced

    def is_own(self, commits: Sequence[Commit]) -> bool:
        """Return whether the writer made one of the commits."""
        return any(commit.writer == self.writer_id for commit in commits)

    def commits_after(self, known: int, cause: Exception | str, is_lead_commit: bool = False) -> Sequence[Commit]:
        """Return the commits after version `known`, newest first.

        Raises FencedLeaderError if one of these commits fences the writer, or if one is no longer in the log. The
        message of the error contains `cause`, the error of the writer's own commit. `is_lead_commit` is whether the
        writer is becoming the leader.
        """
        count = self._table.version - known
        after = self._table.commits(count) if count else ()
        if is_lead_commit:
            newest = leader_epoch_of(self._table)
            is_fenced = newest > self._own_epoch if self.is_own(after) else newest >= self._own_epoch
        else:
            is_fenced = len(after) < count or any(map(self._is_foreign, after))
        if is_fenced:
            raise self._fence(cause)
        return after

    def _is_foreign(self, commit: Commit) -> bool:
        is_upkeep = commit.rearranges and commit.writer is not None
        return commit.writer != self.writer_id and not is_upkeep

    def _fence(self, cause: Exception | str) -> FencedLeaderError:
        """Fence the writer permanently, and return the error, which contains the table's current leader epoch."""
        try:
            self._table.refresh()
            newest = f"leader epoch {leader_epoch_of(self._table)}, version {self._table.version}"
        except TableStoreError as error:  # the table is unreadable, so the error is reported instead
            newest = str(error)
        self._fenced = FencedLeaderError(
            f"FENCED_LEADER_EPOCH: another writer has committed to table {self._table.spec.name} (own leader epoch: "
            f"{self._own_epoch}; now in the table: {newest}). Only one job may write to a set of tables. Cause: {cause}"
        )
        return self._fenced
