"""One streaming query of the job: taking the lead, its start, its batches, its upkeep."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sharegroup.config import JobConfig
from sharegroup.engine.output import Output
from sharegroup.errors import ShareGroupError, StopRequested
from sharegroup.spark.checkpoint import checkpoint_query_id
from sharegroup.spark.commit_steps import Batch, CommitSteps
from sharegroup.spark.hand_over import BatchMemory, HandOverFile
from sharegroup.spark.leaders import last_leader_epoch
from sharegroup.spark.stop_signal import StopSignal

logger = logging.getLogger(__name__)

Outputs = Callable[[str, dict[int, int]], DataFrame]


class StaleCheckpointError(ShareGroupError):
    """The tables have moved on without this checkpoint: going on from it would undo what was done since."""


class JobQuery:
    """See the module. `outputs(hand_over path, positions)` builds the query up to its sink.

    `prune_before` tells, at upkeep, which old days of a table can go; `on_lead` is called once it leads, before the
    first batch.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: JobConfig,
        name: str,
        outputs: Outputs,
        steps: CommitSteps,
        hand_over_path: str,
        stop: StopSignal,
        prune_before: Callable[[], Mapping[str, str]],
        on_lead: Callable[[], None] = lambda: None,
    ) -> None:
        self._spark, self._config, self.name, self._outputs = spark, config, name, outputs
        self._steps, self._stop, self._prune_before = steps, stop, prune_before
        self._on_lead = on_lead
        self._hand_over_path = hand_over_path
        self._hand_over = HandOverFile(hand_over_path)
        self._memory = BatchMemory()
        self._query: StreamingQuery | None = None
        self._started = threading.Event()
        self._commits = 0
        #: What ended the query from inside a batch, as Spark's own exception shows only a Java trace of it.
        self.failure: BaseException | None = None
        self.batches = 0
        self.rejected = 0
        self.in_batch = False

    @property
    def leader_epoch(self) -> int:
        """This job's leader epoch for the query's tables."""
        return self._steps.leader_epoch

    @property
    def positions(self) -> Mapping[int, int]:
        """The next unread offset of each partition of the request topic."""
        return self._steps.positions

    @property
    def query(self) -> StreamingQuery:
        """Spark's query, once started."""
        assert self._query is not None
        return self._query

    @property
    def is_active(self) -> bool:
        """Whether Spark's query, once started, has not ended."""
        return bool(self.query.isActive)

    @property
    def ended_by(self) -> BaseException | None:
        """What ended it."""
        return self.failure or self.query.exception()

    def start(self, led_with: int | None = None) -> None:
        """Take the lead, complete what the last leader owed, and start.

        `led_with` is the leader epoch of this job's last run of the query: it must not take the lead back from a job
        that came after it. Raises FencedLeaderError, StaleCheckpointError, KafkaUnavailableError.
        """
        self._steps.check_lead(led_with)
        checkpoint = f"{self._config.job.checkpoint_path}/{self.name}"
        self._check_checkpoint(checkpoint)
        self._steps.lead()
        self._steps.complete_last_batch()
        self._on_lead()
        self._hand_over.write(self._memory.hand_over(self._steps.positions))
        writer = (
            self._outputs(self._hand_over_path, dict(self._steps.positions))
            .writeStream.queryName(self.name)
            .outputMode("update")
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime=f"{self._config.job.trigger_interval_ms} milliseconds")
            .foreachBatch(self._on_batch)
        )
        self._query = writer.start()
        self._steps.query_id = str(self._query.id)
        self._started.set()
        logger.info("query %s leads with epoch %d, id %s", self.name, self.leader_epoch, self._steps.query_id)

    def _check_checkpoint(self, checkpoint: str) -> None:
        """A checkpoint is stale when another query wrote after its own last start, which read the tables."""
        info = self._steps.last_info
        query_id = checkpoint_query_id(self._spark, checkpoint)
        if query_id is None or info is None or info["query_id"] == query_id:
            return
        if last_leader_epoch(self._config.job.tables_path, query_id) <= info["leader_epoch"]:
            raise StaleCheckpointError(
                f"the tables were last written by query {info['query_id']}, the checkpoint {checkpoint} belongs to "
                f"query {query_id}: remove that checkpoint, and the job comes back from the tables"
            )

    def _on_batch(self, frame: DataFrame, batch_id: int) -> None:
        self.in_batch = True
        try:
            self._run_batch(frame, batch_id)
        except BaseException as error:
            self.failure = error
            raise
        finally:
            self.in_batch = False

    def _run_batch(self, frame: DataFrame, batch_id: int) -> None:
        self._started.wait()
        if self._stop.requested:
            raise StopRequested(f"query {self.name} stops before batch {batch_id}")
        self._steps.begin(batch_id)
        # Step 1; it must always run, also when all else is already done: Spark fails the batch otherwise.
        bodies = frame.toArrow()["output"].to_pylist()
        batch = Batch.of(batch_id, map(Output.decode, bodies))
        self._report(batch)
        self._steps.commit(batch)
        self._memory.update(batch.deadlines, batch.waiting)
        self._hand_over.write(self._memory.hand_over(self._steps.positions))
        self.batches += 1
        self._commits += batch.has_effects
        if self._commits >= self._config.job.upkeep_interval_commits:
            self._commits = 0
            self._upkeep()

    def _report(self, batch: Batch) -> None:
        for note in batch.notes:
            logger.warning("query %s: %s", self.name, note)
        if not batch.rejected:
            return
        self.rejected += len(batch.rejected)
        for partition, offset, reason in batch.rejected[:20]:
            logger.warning("query %s rejected request %d@%d: %s", self.name, partition, offset, reason)
        of_batch, batch_id = len(batch.rejected), batch.batch_id
        logger.warning("query %s rejected %d in batch %d, %d so far", self.name, of_batch, batch_id, self.rejected)

    def _upkeep(self) -> None:
        begin = time.monotonic()
        job = self._config.job
        retention = timedelta(milliseconds=job.tables_retention_ms)
        self._steps.upkeep(retention, job.tables_local_versions, self._prune_before())
        logger.debug("upkeep of the tables of %s: %.0f ms", self.name, 1000 * (time.monotonic() - begin))
