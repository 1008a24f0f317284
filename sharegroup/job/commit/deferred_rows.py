"""Rows of append-only tables that are written after the responses are sent; no response depends on them.

Until these rows are in their table, every commit to the query's first table repeats them in its outbox. The newest
outbox and the table together thus contain every row. After a crash, the next start writes the missing ones.
"""

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from sharegroup.job.commit.table_rows import stamp_rows
from sharegroup.storage.schemas import TableSpec
from sharegroup.storage.writing.table_writer import TableWriter
from sharegroup.storage.writing.versioned_table import Row, Write


class TaskRunner(Protocol):
    """Runs submitted tasks, either immediately or on a separate thread."""

    def __call__(self, work: Callable[[], None], urgent: bool = False) -> None:
        """Submit a task; an urgent task is not delayed. Raises the error of an earlier task that has failed."""


def run_immediately(work: Callable[[], None], urgent: bool = False) -> None:  # noqa: ARG001 - the task always runs immediately
    """Run the task before returning."""
    work()


class DeferredBatch(NamedTuple):
    """The rows that a batch adds to an append-only table. `now_ms` is the batch's timestamp."""

    batch_id: int
    now_ms: int
    rows: Sequence[Row]


class DeferredRows:
    """The rows of one append-only table that are in an outbox, but not in the table yet.

    `enqueue` and `write` may be called on different threads.
    """

    def __init__(self, writer: TableWriter) -> None:
        self._writer = writer
        self._pending: list[DeferredBatch] = []
        self._lock, self._writing = threading.Lock(), threading.Lock()

    @property
    def spec(self) -> TableSpec:
        """The table's name and schema."""
        return self._writer.spec

    def enqueue(self, batch: DeferredBatch) -> None:
        """Add the rows of a batch. Call this after the commit whose outbox contains these rows."""
        with self._lock:
            self._pending.append(batch)

    def pending_batches(self) -> Sequence[DeferredBatch]:
        """Return the batches that may not be in the table yet, oldest first."""
        with self._lock:
            return tuple(self._pending)

    @property
    def row_count(self) -> int:
        return sum(len(batch.rows) for batch in self.pending_batches())

    def write(self, query_id: str, leader_epoch: int) -> None:
        """Write all deferred rows as one commit.

        Raises FencedLeaderError or TableStoreError if the commit fails. The rows then stay deferred.
        """
        with self._writing:
            self._writer.resolve_last_commit()
            pending = self.pending_batches()
            if pending:
                write_deferred(self._writer, pending, query_id, leader_epoch)
            with self._lock:
                del self._pending[: len(pending)]


def write_deferred(writer: TableWriter, pending: Sequence[DeferredBatch], query_id: str, leader_epoch: int) -> bool:
    """Write the batches that are not in the table yet, and return whether there was at least one."""
    committed = writer.newest_batch(query_id)
    left = [batch for batch in pending if batch.batch_id > committed]
    return writer.commit(query_id, pending[-1].batch_id, lambda: stamp_batches(left, leader_epoch))


def stamp_batches(batches: Sequence[DeferredBatch], leader_epoch: int) -> Write:
    """Return one write with the rows of all these batches. All rows get the given leader epoch."""
    stamped: list[Row] = []
    for batch_id, now_ms, rows in batches:
        stamped += stamp_rows(rows, leader_epoch=leader_epoch, batch_id=batch_id, now_ms=now_ms)
    return Write(stamped)
