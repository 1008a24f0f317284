"""The one writer of one table: each batch once, in order, behind the fence.

The writer keeps one handle and never refreshes it before a commit: what anybody else has committed makes its own commit
fail, and the fence says what that means.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator

from sharegroup.storage.schemas import TableSpec
from sharegroup.storage.writing.fence import LEADER_APP_ID, Fence, leader_epoch_of
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
#: The transaction id of restores; its version is the leader epoch.
_RESTORE_APP_ID = "sharegroup.restore"


def newest_info(table: VersionedTable) -> Info | None:
    """This project's entry of the batch that was committed last, None before the first.

    The newest entry rides on every commit of a writer, also on one that its leader makes when another leads already.
    """
    found = [commit.info for commit in table.commits(_COMMITS_TO_SEARCH) if commit.info is not None]
    return max(found, key=lambda info: (info["leader_epoch"], info["batch_id"]), default=None)


class TableWriter:
    """Appends to one table, or rewrites chunks of it. `lead` comes first; before that nothing may be written.

    `writer_id` is this writer's alone.
    """

    def __init__(self, table: VersionedTable, writer_id: str) -> None:
        self._table, self._fence = table, Fence(table, writer_id)
        self._committed: dict[str, int] = {}
        #: This project's entry of the last batch (see `commit_steps`), or None.
        self.last_info = newest_info(table)

    @property
    def spec(self) -> TableSpec:
        """The table's name and form."""
        return self._table.spec

    @property
    def version(self) -> int:
        """The table's version as this writer knows it."""
        return self._table.version

    @property
    def leader_epoch(self) -> int:
        """The highest leader epoch in the table as this writer knows it, 0 before the first."""
        return leader_epoch_of(self._table)

    def refresh(self) -> None:
        """Look at the newest version. Not for a writer that leads: it would go over others' commits."""
        self._table.refresh()

    def lead(self, leader_epoch: int) -> None:
        """Write the leader epoch as a commit of its own; the writer of a lower epoch fails from here on.

        Raises FencedLeaderError when a leader of this or a higher epoch was there before.
        """
        self._fence.begin_lead(leader_epoch)
        self._commit(lambda stamp: self._table.write(Write(()), stamp), LEADER_APP_ID, leader_epoch)
        self._table.sync()
        self._committed.clear()
        self.last_info = newest_info(self._table)

    def committed(self, app_id: str) -> int:
        """The highest batch id that `app_id` committed here, -1 for none.

        Looked up once, for it takes half as long as a commit: nobody else commits later without fencing this writer.
        """
        if app_id not in self._committed:
            version = self._table.transaction_version(app_id)
            self._committed[app_id] = -1 if version is None else version
        return self._committed[app_id]

    def commit(self, app_id: str, batch_id: int, write: Callable[[], Write], info: Info | None = None) -> bool:
        """Write what `write` gives; it survives a power loss.

        Returns False, not having called it, when `app_id` committed this batch or a later one before. Raises
        FencedLeaderError when anybody else wrote since this writer's last commit.
        """
        is_new = self.committed(app_id) < batch_id
        if is_new:
            if info is not None:
                self.last_info = info
            written = write()
            self._commit(lambda stamp: self._table.write(written, stamp), app_id, batch_id)
            self._committed[app_id] = batch_id
        self._table.sync()
        return is_new

    def read(self) -> list[Row]:
        """All rows at the writer's version."""
        return self._table.rows()

    def go_back(self, app_id: str, batch_id: int, below_epoch: int, leader_epoch: int) -> int:
        """Take back what `app_id` committed after a batch, and what leaders of `below_epoch` or higher did.

        The newest version without any of it is restored. Returns the newest batch of `app_id` in that version. Raises
        TableStoreError when that version is not kept any more.
        """
        for version in range(self.version - 1, -1, -1):
            older = self._table.at(version)
            newest = older.transaction_version(app_id)
            known = -1 if newest is None else newest
            if known <= batch_id and leader_epoch_of(older) < below_epoch:
                self._commit(functools.partial(self._table.restore, version), _RESTORE_APP_ID, leader_epoch)
                self._table.sync()
                return known
        raise TableStoreError(f"{self.spec.name} has no version from before batch {batch_id + 1} of query {app_id}")

    def infos(self, count: int) -> list[Info]:
        """The entries of the newest commits, each batch once, the newest first."""
        found = {(info["query_id"], info["batch_id"]): info for info in self._infos(count) if "query_id" in info}
        return list(found.values())

    def _infos(self, count: int) -> Iterator[Info]:
        for commit in self._table.commits(count):
            if commit.info is not None:
                yield commit.info

    def _commit(self, commit: Callable[[Stamp], None], app_id: str, version: int) -> None:
        self._fence.refuse_when_fenced()
        while True:
            known = self.version
            try:
                commit(Stamp(self._fence.writer_id, self.last_info, app_id, version))
                return
            except NotCommittedError as error:
                self._table.refresh()
                after = self._fence.commits_after(known, error, takes_the_lead=app_id == LEADER_APP_ID)
                if not after:
                    raise
                if self._fence.is_own(after):
                    logger.warning("a commit to %s failed, and is there: %s", self.spec.name, error)
                    return
