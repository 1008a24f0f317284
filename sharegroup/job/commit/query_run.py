"""The part of a query that does not need Spark: becoming the leader before its first batch, and its batches."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from sharegroup.core.operators.output import Output
from sharegroup.job.clock.handover import HandoverChange
from sharegroup.job.commit.commit_steps import Batch, CommitSteps
from sharegroup.job.commit.log_lines import FindRow, log_lines
from sharegroup.job.commit.repeated_batch import RepeatedBatchError
from sharegroup.job.lead.stale_checkpoint import (
    ADVICE,
    Checkpoint,
    StaleCheckpointError,
    reject_checkpoint_ahead,
    reject_stale_checkpoint,
)
from sharegroup.kafka_clients.job_clock import BrokersTime, JobClock
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

_REJECTED_LOGGED = 20


class HandoverWriter(Protocol):
    """Passes the results of each batch to the query's source (implemented in `job.clock.handover_file`)."""

    def write(self, change: HandoverChange) -> None:
        """Pass a batch's values (deadlines, positions and so on) to the query's source.

        An implementation may leave out values that the source already has from earlier calls.
        """


class BatchObserver(Protocol):
    """Receives the events of batches and counts them (implemented in `job.commit.job_metrics`). It must not block."""

    def on_become_leader(self, steps: CommitSteps) -> None:
        """Called after the query has become the leader of its tables."""

    def on_batch_computed(self, batch: Batch, row_like: FindRow) -> None:
        """Called when a batch's effects are computed, before any of them is in a table.

        `row_like` returns a table's current row that has the same key as a given row.
        """

    def on_batch_finished(self) -> None:
        """Called at the end of the batch, after its effects are durable and its responses are sent."""


class NoObserver:
    """Ignores all events."""

    def on_become_leader(self, steps: CommitSteps) -> None:
        """Do nothing."""

    def on_batch_computed(self, batch: Batch, row_like: FindRow) -> None:
        """Do nothing."""

    def on_batch_finished(self) -> None:
        """Do nothing."""


class QueryRun:
    """One run of a query, from its start to its end.

    Spark, or a test, calls `become_leader` once, then `begin_batch` and `finish_batch` for each batch.

    Args:
        hand_over: passes the results of each batch to the query's source.
        on_lead: called when the query is the leader, before its first batch; measures the brokers' time for `clock`.
        refresh_clock: measures the brokers' time again. It is called when `clock.is_probe_due()`, after a batch that
            changed a row or sent a request or response.
        upkeep: requests the upkeep of the tables; called every `upkeep_interval` commits.
        drop_checkpoint: called if the checkpoint no longer matches the tables, before `finish_batch` raises.
        mark_checkpoint: called after each commit with the newest batches in the tables (`CommitSteps.newest_batches`).
    """

    def __init__(
        self,
        name: str,
        steps: CommitSteps,
        hand_over: HandoverWriter,
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
        self._observer = observer or NoObserver()
        self._drop_checkpoint, self._mark_checkpoint = drop_checkpoint, mark_checkpoint
        self._name, self.steps, self._handover = name, steps, hand_over
        self._on_lead, self._upkeep, self._upkeep_interval = on_lead, upkeep, upkeep_interval
        self._commits = 0
        self.batches = 0
        self.rejected = 0
        #: Whether a batch with at least one request has finished since the start of the query.
        self.has_responded = False

    def become_leader(
        self, leader_epoch: int, checkpoint: Checkpoint | None, last_leader_epoch: Callable[[str], int]
    ) -> None:
        """Become the leader of the query's tables, and complete the last batch of the previous leader.

        The checkpoint is checked after this job has become the leader, because another job may write until then.
        `last_leader_epoch` is passed to `reject_stale_checkpoint`.

        Raises FencedLeaderError if another job leads, and StaleCheckpointError if the checkpoint does not match the
        tables. Also raises the errors of the producer, which sends the previous leader's rows again.
        """
        steps = self.steps
        steps.become_leader(leader_epoch)
        self._observer.on_become_leader(steps)
        committed = steps.newest_batch(checkpoint.query_id) if checkpoint else -1
        reject_stale_checkpoint(checkpoint, steps.last_info, committed, last_leader_epoch)
        if checkpoint is not None and steps.was_rolled_back:
            raise StaleCheckpointError(
                f"the tables have lost commits that the checkpoint {checkpoint.path} may depend on: {ADVICE}"
            )
        if checkpoint:
            reject_checkpoint_ahead(checkpoint, lambda table: steps.newest_batch(checkpoint.query_id, table))
        steps.complete_last_batch()
        self._on_lead()
        self._handover.write(HandoverChange(positions=dict(steps.positions), clock=self._clock.reading()))

    def begin_batch(self, batch_id: int) -> BrokersTime:
        """Begin a batch before Spark runs step 1, and return the time for the operators.

        A batch that is already in the tables gets the time of its first run, so that it has the same effects.
        """
        self.steps.begin_batch(batch_id)
        self._time = self.steps.batch_time(batch_id) or self._clock.now()
        return self._time

    def finish_batch(self, batch_id: int, bodies: Iterable[str]) -> None:
        """Run steps 2 to 5 of a batch. `bodies` are the encoded outputs of the operator, collected in step 1.

        Raises FencedLeaderError if another job leads. Raises RepeatedBatchError if the tables have the batch with other
        effects. In that case the checkpoint is dropped first, so that the next start of the query recovers from the
        tables.
        """
        batch = Batch.from_outputs(batch_id, map(Output.decode, bodies), self._time)
        self._report(batch)
        self._observer.on_batch_computed(batch, self.steps.find_row)
        lines = log_lines(batch.tables, batch.responses, self.steps.find_row)
        self._commit(batch)
        for line in lines:
            logger.info(line.text, line.fields)
        if batch.has_changes and self._clock.is_probe_due():
            self._refresh_clock()
        positions = dict(self.steps.positions)
        self._handover.write(
            HandoverChange(
                batch.deadlines,
                batch.waiting,
                positions,
                self._clock.reading(),
                batch.reservers,
                batch.leases,
                batch.now_ms,
            )
        )
        self._observer.on_batch_finished()
        self.batches += 1
        self.has_responded |= bool(batch.positions)
        self._commits += batch.has_effects
        if self._commits >= self._upkeep_interval:
            self._commits = 0
            self._upkeep()

    def _commit(self, batch: Batch) -> None:
        # A crash between the error and the drop is harmless: the next start repeats the batch and gets the same error.
        try:
            self.steps.commit(batch)
        except RepeatedBatchError as error:
            logger.warning(
                "query %(query)s: %(error)s; the checkpoint is dropped, and the query recovers from the tables",
                LogFields(query=self._name, error=error),
            )
            self._drop_checkpoint()
            raise
        if batch.has_effects:
            self._mark_checkpoint(self.steps.newest_batches())

    def _report(self, batch: Batch) -> None:
        for note in batch.notes:
            logger.warning("query %(query)s: %(error)s", LogFields(query=self._name, error=note))
        if not batch.rejected:
            return
        self.rejected += len(batch.rejected)
        for partition, offset, reason in batch.rejected[:_REJECTED_LOGGED]:
            logger.warning(
                "query %(query)s rejected the request in partition %(partition)d at offset %(offset)d of its request "
                "topic: %(error)s",
                LogFields(query=self._name, partition=partition, offset=offset, error=reason),
            )
        logger.warning(
            "query %(query)s rejected %(requests)d requests in batch %(batch)d, %(count)d since its start",
            LogFields(query=self._name, requests=len(batch.rejected), batch=batch.batch_id, count=self.rejected),
        )
