"""Who of several jobs on the same tables leads: decided in one table, before any other is touched.

Each start of a job takes a leader epoch that is above all there are, as one commit to the deciding table; with that
epoch its queries then lead their own tables. So of two jobs that start at once one gets the higher epoch, and it is the
higher one in every table, in whatever order they come to the tables. The other one is fenced at the first table that it
comes to late, at its next commit, or, when it has nothing to commit, by looking at the deciding table now and then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from sharegroup.errors import FencedLeaderError
from sharegroup.storage.writing.fence import leader_epoch_of
from sharegroup.storage.writing.table_writer import TableWriter
from sharegroup.storage.writing.versioned_table import TableStoreError, VersionedTable

logger = logging.getLogger(__name__)

#: How often a job looks whether another one leads.
LOOK_INTERVAL_S = 2.0


class JobLead:
    """One job's leader epoch. `deciding` writes the deciding table, `tables` are the handles of those to be led."""

    def __init__(self, deciding: TableWriter, tables: Sequence[VersionedTable]) -> None:
        self._deciding, self._tables = deciding, tables
        self._led: set[str] = set()
        #: The newest epoch that this job took, 0 before the first.
        self.epoch = 0

    def take(self) -> int:
        """Take a higher epoch than any there is. Raises FencedLeaderError when another job did since this one's last.

        A job takes one when it starts. Of two that do so in the same moment, the one whose commit comes second is
        fenced.
        """
        newest = self._newest()
        if self.epoch:
            self._refuse(newest)
        self._deciding.lead(newest + 1)
        self.epoch = newest + 1
        self._led.clear()
        return self.epoch

    def epoch_for(self, query: str) -> int:
        """The epoch for a start of `query`: each start has one of its own, as its batch ids may begin again.

        The first start of each query has the job's own. Raises FencedLeaderError when another job has taken one since:
        a query that starts again does not take the lead back.
        """
        if query in self._led:
            self.take()
        else:
            self.check()
        self._led.add(query)
        return self.epoch

    def check(self) -> None:
        """Raise FencedLeaderError when another job has taken the lead."""
        self._deciding.refresh()
        self._refuse(self._deciding.leader_epoch)

    def _newest(self) -> int:
        """The newest leader epoch in any table."""
        self._deciding.refresh()
        for table in self._tables:
            table.refresh()
        return max(self._deciding.leader_epoch, *map(leader_epoch_of, self._tables))

    def _refuse(self, newest: int) -> None:
        if newest > self.epoch:
            raise FencedLeaderError(
                f"FENCED_LEADER_EPOCH: another job took the lead with leader epoch {newest} (mine: {self.epoch})"
            )


class LeadWatch:
    """Looks at the lead now and then: a job without anything to commit would not hear of the one that came after it."""

    def __init__(self, check: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._check, self._clock = check, clock
        self._due = clock()
        self._is_away = False

    def look(self) -> None:
        """Look when it is time. Raises FencedLeaderError; that the store is away is for the commits to find out."""
        if self._clock() < self._due:
            return
        try:
            self._check()
            self._is_away = False
        except TableStoreError as error:
            if not self._is_away:
                logger.warning("cannot see who leads: %s", error)
            self._is_away = True
        self._due = self._clock() + LOOK_INTERVAL_S
