"""The part of a query that does not need Spark: becoming the leader before its first batch, and its batches."""

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
    """Receives what the source needs after each batch: see `job.clock.handover_file`."""

    def write(self, change: HandOverChange) -> None:
        """Write what has changed since the previous batches; unchanged values may be included."""


class BatchObserver(Protocol):
    """Counts what batches do: see `job.commit.job_metrics`. No batch waits for it."""

    def led(self, steps: CommitSteps) -> None:
        """Handle that the query leads its tables."""

    def finishing(self, batch: Batch, row_like: RowLike) -> None:
        """Handle a batch whose effects are computed, before any of them is in a table."""

    def finished(self) -> None:
        """Handle the end of that batch: its effects are durable, and its responses are sent."""


class Unobserved:
    """Ignores all events."""

    def led(self, steps: CommitSteps) -> None:
        """See `BatchObserver.on_become_leader`."""

    def finishing(self, batch: Batch, row_like: RowLike) -> None:
        """See `BatchObserver.on_batch_computed`."""

    def finished(self) -> None:
        """See `BatchObserver.on_batch_finished`."""


class QueryRun:
    """One run of a query, from its start to its end.

    Spark, or a test, calls `become_leader` once, then `begin_batch` and `finish_batch` for each batch.

    `on_lead` is called when the query leads, before its first batch, and reads the brokers' time into `clock`.
    `refresh_clock` reads the time again and is called from time to time. `upkeep` runs every `upkeep_interval` commits.
    `drop_checkpoint` is called if the checkpoint no longer fits the tables, before `finish_batch` raises.
    `mark_checkpoint` is called after each commit, with the newest batches in the tables (`CommitSteps.newest_batches`).
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
        self._name, self.steps, self._handover = name, steps, hand_over
        self._on_lead, self._upkeep, self._upkeep_interval = on_lead, upkeep, upkeep_interval
        self._commits = 0
        self.batches = 0
        self.rejected = 0
        #: Whether a batch that read a request has finished since the start of the query.
        self.has_answered = False

    def lead(self, leader_epoch: int, checkpoint: Checkpoint | None, last_leader_epoch: Callable[[str], int]) -> None:
        """Become the leader of the query's tables, and complete the batch of the last leader.

        A stale checkpoint can only be detected after this, when nobody else writes. Raises FencedLeaderError,
        StaleCheckpointError, and the producer's errors.
        """
        steps = self.steps
        steps.lead(leader_epoch)
        self._observer.led(steps)
        committed = steps.committed(checkpoint.query_id) if checkpoint else -1
        refuse_stale_checkpoint(checkpoint, steps.last_info, committed, last_leader_epoch)
        if checkpoint is not None and steps.has_gone_back:
            raise StaleCheckpointError(
                f"the tables have lost commits that the checkpoint {checkpoint.path} may depend on: {ADVICE}"
            )
        if checkpoint:
            refuse_checkpoint_ahead(checkpoint, lambda table: steps.committed(checkpoint.query_id, table))
        steps.complete_last_batch()
        self._on_lead()
        self._handover.write(HandOverChange(positions=dict(steps.positions), clock=self._clock.reading()))

    def begin(self, batch_id: int) -> BrokersTime:
        """Begin a batch before Spark runs step 1, and return the time for the operators.

        A batch that is already in the tables gets the time of its first run, so that it has the same effects.
        """
        self.steps.begin(batch_id)
        self._time = self.steps.time_of(batch_id) or self._clock.now()
        return self._time

    def finish(self, batch_id: int, bodies: Iterable[str]) -> None:
        """Run the remaining steps of a batch, whose step 1 returned `bodies`.

        Raises FencedLeaderError. Raises RepeatedBatchError if the tables have the batch with other effects. The
        checkpoint is dropped first, so that the next start of the query recovers from the tables.
        """
        batch = Batch.of(batch_id, map(Output.decode, bodies), self._time)
        self._report(batch)
        self._observer.finishing(batch, self.steps.row_like)
        lines = news(batch.tables, batch.responses, self.steps.row_like)
        self._commit(batch)
        for line in lines:
            logger.info(line.text, *line.values, extra={"group": line.values[0]})
        if batch.has_news and self._clock.is_probe_due():
            self._refresh_clock()
        positions = dict(self.steps.positions)
        self._handover.write(HandOverChange(batch.deadlines, batch.waiting, positions, self._clock.reading()))
        self._observer.finished()
        self.batches += 1
        self.has_answered |= bool(batch.positions)
        self._commits += batch.has_effects
        if self._commits >= self._upkeep_interval:
            self._commits = 0
            self._upkeep()

    def _commit(self, batch: Batch) -> None:
        # A crash between the error and the drop is harmless: the next start repeats the batch and gets the same error.
        try:
            self.steps.commit(batch)
        except RepeatedBatchError as error:
            logger.warning("query %s: %s; checkpoint dropped, the query recovers from the tables", self._name, error)
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
        values = self._name, len(batch.rejected), batch.batch_id, self.rejected
        logger.warning("query %s rejected %d requests in batch %d, %d since its start", *values)
