"""Decides which of several jobs on the same tables leads, before a job writes any table that its queries use.

When a job starts, it acquires a leader epoch above all existing ones, by one commit to the *deciding table*
(`share_group_job`). Its queries then lead their own tables with that epoch. Of two jobs that start together, one gets
the higher epoch. This epoch wins in every table, in whatever order the jobs open the tables. The job with the lower
epoch is fenced when it opens a table that already has the higher epoch, or at its next commit. If it commits nothing,
its regular check of the deciding table detects the other job.
"""

import logging
import time
from collections.abc import Callable, Sequence

from sharegroup.errors import FencedLeaderError
from sharegroup.kafka_clients.outage_log import OutageLog
from sharegroup.storage.writing.fence import leader_epoch_of
from sharegroup.storage.writing.table_writer import TableWriter
from sharegroup.storage.writing.versioned_table import TableStoreError, VersionedTable

logger = logging.getLogger(__name__)

#: How often a job checks whether another one leads.
CHECK_INTERVAL_S = 2.0


class JobLead:
    """The lead of one job. It acquires leader epochs, and checks whether another job has a higher one.

    `deciding` writes the deciding table. `tables` are the handles of the other tables.
    """

    def __init__(self, deciding: TableWriter, tables: Sequence[VersionedTable]) -> None:
        self._deciding, self._tables = deciding, tables
        self._started: set[str] = set()
        #: The newest epoch that this job has acquired; 0 if it has acquired none yet.
        self.epoch = 0

    def acquire_epoch(self) -> int:
        """Acquire a leader epoch above all existing ones, and return it.

        A job acquires its first epoch when it starts, even if another job leads. If two jobs do so at the same moment,
        the job whose commit comes second is fenced. Raises FencedLeaderError if this job is fenced in that way, or if
        another job has acquired an epoch since this job's last one.
        """
        newest = self._newest()
        if self.epoch:
            self._raise_if_fenced(newest)
        self._deciding.become_leader(newest + 1)
        self.epoch = newest + 1
        self._started.clear()
        return self.epoch

    def epoch_for(self, query: str) -> int:
        """Return the leader epoch for a start of `query`.

        A query's first start under the job's current epoch uses that epoch. A further start acquires a new epoch,
        because batch ids may restart at 0. Raises FencedLeaderError if another job has acquired a higher epoch, so that
        a restart does not take the lead from that job.
        """
        if query in self._started:
            self.acquire_epoch()
        else:
            self.check()
        self._started.add(query)
        return self.epoch

    def check(self) -> None:
        """Raise FencedLeaderError if another job leads."""
        self._deciding.refresh()
        self._raise_if_fenced(self._deciding.leader_epoch)

    def _newest(self) -> int:
        """Return the highest leader epoch of all tables."""
        self._deciding.refresh()
        for table in self._tables:
            table.refresh()
        return max(self._deciding.leader_epoch, *map(leader_epoch_of, self._tables))

    def _raise_if_fenced(self, newest: int) -> None:
        if newest > self.epoch and not self._is_own(newest):
            raise FencedLeaderError(
                f"FENCED_LEADER_EPOCH: another job leads with leader epoch {newest} (epoch of this job: {self.epoch})"
            )

    def _is_own(self, newest: int) -> bool:
        """Return whether this job committed the epoch `newest` itself, by a commit that raised an error.

        The next call of `acquire_epoch` then acquires the epoch after it.
        """
        return newest == self._deciding.leader_epoch and self._deciding.made_newest_commit()


class LeadWatch:
    """Checks at an interval whether another job leads. A job without commits would not detect this otherwise."""

    def __init__(self, check: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._check, self._clock = check, clock
        self._due = clock()
        self._outage = OutageLog(logger, "cannot check which job leads", "the leader is checked again")

    def poll(self) -> None:
        """Check which job leads, if the interval has passed. Raises FencedLeaderError if another job leads.

        An unavailable store is only logged, because the next commit reports it.
        """
        if self._clock() < self._due:
            return
        try:
            self._check()
            self._outage.report_success()
        except TableStoreError as error:
            self._outage.report_failure(error)
        self._due = self._clock() + CHECK_INTERVAL_S
