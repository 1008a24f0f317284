"""The writer of a table: commits each batch once and in order. The fence ensures that only one writer can commit.

The writer keeps one handle and never refreshes it before a commit. A commit of any other process therefore makes the
writer's own commit fail, and the fence (`fence`) decides whether the writer may retry.
"""

import functools
import logging
from collections.abc import Callable, Iterator

from sharegroup.log_fields import LogFields
from sharegroup.storage.schemas import TableSpec
from sharegroup.storage.writing.fence import LEADER_APP_ID, WriterFence, leader_epoch_of
from sharegroup.storage.writing.versioned_table import (
    Info,
    NotCommittedError,
    Row,
    Stamp,
    TableStoreError,
    VersionedTable,
    Write,
)

logger = logging.getLogger(__name__)

_COMMITS_TO_SEARCH = 50
#: The Delta transaction id of commits that restore an older version. The transaction version is the leader epoch.
_RESTORE_APP_ID = "sharegroup.restore"


def newest_info(table: VersionedTable) -> Info | None:
    """Return the `Info` of the last micro-batch that was committed to the table; None if there is none.

    The newest commits contain this info, because every commit of a writer or of upkeep repeats it.
    """
    found = [commit.info for commit in table.commits(_COMMITS_TO_SEARCH) if commit.info is not None]
    return max(found, key=lambda info: (info["leader_epoch"], info["batch_id"]), default=None)


class TableWriter:
    """Appends to one table, or rewrites chunks of it. It must become the leader (`become_leader`) before it writes.

    `writer_id` must be unique.
    """

    def __init__(self, table: VersionedTable, writer_id: str) -> None:
        self._table, self._fence = table, WriterFence(table, writer_id)
        self._committed: dict[str, int] = {}
        #: Whether the last commit raised an error. It may have been applied nevertheless.
        self._is_in_doubt = False
        #: The info of the last micro-batch (see `commit_steps`); None before the first micro-batch.
        self.last_info = newest_info(table)

    @property
    def spec(self) -> TableSpec:
        """The table's name and schema."""
        return self._table.spec

    @property
    def version(self) -> int:
        """The table's version at this writer's handle."""
        return self._table.version

    @property
    def leader_epoch(self) -> int:
        """The highest leader epoch in the table at this writer's handle; 0 if there is none yet."""
        return leader_epoch_of(self._table)

    def made_newest_commit(self) -> bool:
        """Return whether this writer made the newest commit at its handle, apart from those of upkeep."""
        commits = self._table.commits(_COMMITS_TO_SEARCH)
        writers = (commit.writer for commit in commits if commit.writer is not None and not commit.rearranges)
        return next(writers, None) == self._fence.writer_id

    def refresh(self) -> None:
        """Move the writer's handle to the newest version of the table.

        A leader must not call this. If another writer has committed, the leader's next commit must fail. After this
        call, it would succeed.
        """
        self._table.refresh()

    def become_leader(self, leader_epoch: int) -> None:
        """Commit this leader epoch to the table. The commits of writers with lower epochs fail from then on.

        Raises FencedLeaderError if the table has this or a higher epoch already.
        """
        self._fence.begin_epoch(leader_epoch)
        self._commit(lambda stamp: self._table.write(Write(()), stamp), LEADER_APP_ID, leader_epoch)
        self._table.sync()
        self._committed.clear()
        self.last_info = newest_info(self._table)

    def resolve_last_commit(self) -> None:
        """If the last commit raised an error, find out whether it was applied.

        Must be called before another commit that contains the same rows. Otherwise, the writer would take the earlier
        commit for the new one. Raises FencedLeaderError if another writer has committed since, and TableStoreError.
        """
        if self._is_in_doubt:
            known = self.version
            self._table.refresh()
            self._fence.commits_after(known, "the outcome of the last commit was unknown")
            self._committed.clear()
            self._is_in_doubt = False

    def newest_batch(self, app_id: str) -> int:
        """Return the highest batch id that the query `app_id` has committed to this table; -1 if there is none.

        The result is cached, because a look-up takes half as long as a commit. The cache stays valid, because a later
        batch of another writer fences this writer.
        """
        if app_id not in self._committed:
            version = self._table.transaction_version(app_id)
            self._committed[app_id] = -1 if version is None else version
        return self._committed[app_id]

    def commit(self, app_id: str, batch_id: int, write: Callable[[], Write], info: Info | None = None) -> bool:
        """Commit the write that `write` returns, and return True. On return, the commit survives a power loss.

        If the query `app_id` has already committed this batch or a later one, `write` is not called, and the result is
        False. Raises FencedLeaderError if anything but upkeep has written since this writer's last commit.
        """
        is_new = self.newest_batch(app_id) < batch_id
        if is_new:
            if info is not None:
                self.last_info = info
            written = write()
            self._commit(lambda stamp: self._table.write(written, stamp), app_id, batch_id)
            self._committed[app_id] = batch_id
        self._table.sync()
        return is_new

    def read_rows(self) -> list[Row]:
        """Return all rows at the writer's version."""
        return self._table.rows()

    def roll_back(self, app_id: str, batch_id: int, below_epoch: int, leader_epoch: int) -> int:
        """Restore the newest earlier version that has a leader epoch below `below_epoch` and no lost batch.

        The lost batches are those of the query `app_id` after `batch_id`: the query's first table has lost them.
        `leader_epoch` is the epoch of the leader that calls this. Returns the newest batch of `app_id` in the restored
        version; -1 if it has none. Raises TableStoreError if no such version is kept.
        """
        for version in range(self.version - 1, -1, -1):
            older = self._table.at(version)
            newest = older.transaction_version(app_id)
            known = -1 if newest is None else newest
            if known <= batch_id and leader_epoch_of(older) < below_epoch:
                self._commit(functools.partial(self._table.restore, version), _RESTORE_APP_ID, leader_epoch)
                self._table.sync()
                return known
        raise TableStoreError(
            f"table {self.spec.name} cannot be rolled back: no version before batch {batch_id + 1} of query {app_id} "
            "is kept"
        )

    def infos(self, count: int) -> list[Info]:
        """Return the infos of the newest `count` commits, newest first. Each batch is contained once."""
        found = {(info["query_id"], info["batch_id"]): info for info in self._infos(count) if "query_id" in info}
        return list(found.values())

    def _infos(self, count: int) -> Iterator[Info]:
        for commit in self._table.commits(count):
            if commit.info is not None:
                yield commit.info

    def _commit(self, commit: Callable[[Stamp], None], app_id: str, version: int) -> None:
        self._fence.raise_if_fenced()
        self._is_in_doubt = True
        self._commit_until_known(commit, app_id, version)
        self._is_in_doubt = False

    def _commit_until_known(self, commit: Callable[[Stamp], None], app_id: str, version: int) -> None:
        while True:
            known = self.version
            try:
                commit(Stamp(self._fence.writer_id, self.last_info, app_id, version))
                return
            except NotCommittedError as error:
                self._table.refresh()
                after = self._fence.commits_after(known, error, is_lead_commit=app_id == LEADER_APP_ID)
                if not after:
                    raise
                if self._fence.is_own(after):
                    logger.warning(
                        "commit to %(table)s reported an error but was applied: %(error)s",
                        LogFields(table=self.spec.name, error=error),
                    )
                    return
