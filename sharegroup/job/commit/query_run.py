"""One query of the job as far as it is not Spark's: taking the lead before its first batch, and its batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from sharegroup.core.operators.output import Output
from sharegroup.job.clock.hand_over import HandOverChange
from sharegroup.job.commit.commit_steps import Batch, CommitSteps
from sharegroup.job.commit.news import RowLike, news
from sharegroup.job.commit.repeated_batch import RepeatedBatchError
from sharegroup.job.lead.stale_checkpoint import (
    ADVICE,
    Checkpoint,
    StaleCheckpointError,
    refuse_checkpoint_ahead,
    refuse_stale_checkpoint,
)
from sharegroup.kafka_clients.job_clock import BrokersTime, JobClock

logger = logging.getLogger(__name__)

_REJECTED_LOGGED = 20


class HandOverWriter(Protocol):
    """Where a batch leaves what the source goes by: see `job.clock.hand_over_file`."""

    def write(self, change: HandOverChange) -> None:
        """Tell what is other than the batches before have told; some of it may be the same."""


class BatchObserver(Protocol):
    """Who counts what batches do: see `job.commit.job_metrics`. Nothing that it is told is waited for."""

    def led(self, steps: CommitSteps) -> None:
        """The query leads its tables."""

    def finishing(self, batch: Batch, row_like: RowLike) -> None:
        """A batch's effects are known, and none of them is in a table."""

    def finished(self) -> None:
        """That batch is through: what it did is durable, and was answered."""


class Unobserved:
    """Nobody counts."""

    def led(self, steps: CommitSteps) -> None:
        """As `BatchObserver.led`."""

    def finishing(self, batch: Batch, row_like: RowLike) -> None:
        """As `BatchObserver.finishing`."""

    def finished(self) -> None:
        """As `BatchObserver.finished`."""


class QueryRun:
    """From a start of the query to its end. Spark, or a test, calls `lead` once, then `begin` and `finish` by turns.

    `on_lead` is called when the query leads, before its first batch; `upkeep` each `upkeep_interval` commits.
    `on_lead` lets `clock` learn the brokers' time; so does `refresh_clock`, which is called now and then during work.
    `drop_checkpoint` is called when the checkpoint does not fit the tables any more, before `finish` raises;
    `mark_checkpoint` after each commit, with the newest batches in the tables (`CommitSteps.committed_batches`).
    """

    def __init__(
        self,
        name: str,
        steps: CommitSteps,
        hand_over: HandOverWriter,
        on_lead: Callable[[], None],
        upkeep: Callable[[], None],
        upkeep_interval: int,
        clock: JobClock,
        observer: BatchObserver | None = None,
        drop_checkpoint: Callable[[], None] = lambda: None,
        mark_checkpoint: Callable[[Mapping[str, int]], None] = lambda committed: None,
        refresh_clock: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock, self._refresh_clock = clock, refresh_clock
        self._time = BrokersTime(0, 0)
        self._observer = observer or Unobserved()
        self._drop_checkpoint, self._mark_checkpoint = drop_checkpoint, mark_checkpoint
        self._name, self.steps, self._hand_over = name, steps, hand_over
        self._on_lead, self._upkeep, self._upkeep_interval = on_lead, upkeep, upkeep_interval
        self._commits = 0
        self.batches = 0
        self.rejected = 0
        #: Whether a batch that has read a request is through since the start of the query.
        self.has_answered = False

    def lead(self, leader_epoch: int, checkpoint: Checkpoint | None, last_leader_epoch: Callable[[str], int]) -> None:
        """Take the lead of the query's tables, and complete what the last leader owed.

        Nobody else writes from here on, so only now it is sure whether the checkpoint is stale. Raises
        FencedLeaderError, StaleCheckpointError, and what the producer raises.
        """
        steps = self.steps
        steps.lead(leader_epoch)
        self._observer.led(steps)
        committed = steps.committed(checkpoint.query_id) if checkpoint else -1
        refuse_stale_checkpoint(checkpoint, steps.last_info, committed, last_leader_epoch)
        if checkpoint is not None and steps.has_gone_back:
            raise StaleCheckpointError(
                f"the tables have lost commits, and the checkpoint {checkpoint.path} may be built on these: {ADVICE}"
            )
        if checkpoint:
            refuse_checkpoint_ahead(checkpoint, lambda table: steps.committed(checkpoint.query_id, table))
        steps.complete_last_batch()
        self._on_lead()
        self._hand_over.write(HandOverChange(positions=dict(steps.positions), clock=self._clock.reading()))

    def begin(self, batch_id: int) -> BrokersTime:
        """To be called before step 1, which is Spark's to run; the time that the operators are to be given.

        A batch that the tables have is run again at the time of its first run, so that it has the same effects.
        """
        self.steps.begin(batch_id)
        self._time = self.steps.time_of(batch_id) or self._clock.now()
        return self._time

    def finish(self, batch_id: int, bodies: Iterable[str]) -> None:
        """Take a batch, whose step 1 gave `bodies`, through the other steps.

        Raises FencedLeaderError. Raises RepeatedBatchError when the tables have the batch with other effects: the
        checkpoint is dropped, and the next start of the query comes back from the tables.
        """
        batch = Batch.of(batch_id, map(Output.decode, bodies), self._time)
        self._report(batch)
        self._observer.finishing(batch, self.steps.row_like)
        happened = news(batch.tables, batch.responses, self.steps.row_like)
        self._commit(batch)
        for line in happened:
            logger.info(line.text, *line.values)
        if batch.has_news and self._clock.is_probe_due():
            self._refresh_clock()
        positions = dict(self.steps.positions)
        self._hand_over.write(HandOverChange(batch.deadlines, batch.waiting, positions, self._clock.reading()))
        self._observer.finished()
        self.batches += 1
        self.has_answered |= bool(batch.positions)
        self._commits += batch.has_effects
        if self._commits >= self._upkeep_interval:
            self._commits = 0
            self._upkeep()

    def _commit(self, batch: Batch) -> None:
        """Dying between the error and the drop is harmless: the next start runs the batch again and finds the same."""
        try:
            self.steps.commit(batch)
        except RepeatedBatchError as error:
            logger.warning(
                "query %s: %s; its checkpoint is dropped, and it comes back from the tables", self._name, error
            )
            self._drop_checkpoint()
            raise
        if batch.has_effects:
            self._mark_checkpoint(self.steps.committed_batches())

    def _report(self, batch: Batch) -> None:
        for note in batch.notes:
            logger.warning("query %s: %s", self._name, note)
        if not batch.rejected:
            return
        self.rejected += len(batch.rejected)
        for partition, offset, reason in batch.rejected[:_REJECTED_LOGGED]:
            logger.warning("query %s rejected request %d@%d: %s", self._name, partition, offset, reason)
        of_batch, batch_id = len(batch.rejected), batch.batch_id
        logger.warning("query %s rejected %d in batch %d, %d so far", self._name, of_batch, batch_id, self.rejected)
