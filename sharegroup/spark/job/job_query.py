"""One streaming query of the job: its start, its batches and its upkeep in Spark."""

from __future__ import annotations

import functools
import gc
import logging
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sharegroup.config import Config
from sharegroup.errors import StopRequested
from sharegroup.job.clock.hand_over_file import HandOverFileWriter
from sharegroup.job.commit.commit_steps import CommitSteps
from sharegroup.job.commit.query_run import BatchObserver, QueryRun
from sharegroup.job.commit.repeated_batch import rules_of
from sharegroup.job.lead.checkpoint_mark import MarkFile
from sharegroup.job.lead.stale_checkpoint import Checkpoint
from sharegroup.kafka_clients.job_clock import JobClock
from sharegroup.spark.job.checkpoint import begin_checkpoint, discard_checkpoint, read_checkpoint
from sharegroup.spark.job.stop_signal import StopSignal
from sharegroup.spark.queries.operators import TIME_PROPERTY, time_text
from sharegroup.storage.upkeep.upkeep_process import UpkeepProcess
from sharegroup.storage.writing.leaders import last_leader_epoch, record_leader

logger = logging.getLogger(__name__)

Outputs = Callable[[str, dict[int, int]], DataFrame]


class JobQuery:
    """Starts one query, runs its batches, and looks after its tables. `outputs(hand_over path, positions)` builds the
    query up to its sink.

    `on_lead` is called once it leads, before the first batch; `clock` and `refresh_clock` are as in `QueryRun`;
    `observer` counts what its batches do. Where the tables `have_lost_commits` in a power loss, the checkpoint is
    dropped at the start.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: Config,
        name: str,
        outputs: Outputs,
        steps: CommitSteps,
        hand_over_path: str,
        stop: StopSignal,
        upkeep: UpkeepProcess,
        clock: JobClock,
        on_lead: Callable[[], None],
        refresh_clock: Callable[[], None],
        observer: BatchObserver | None = None,
        have_lost_commits: bool = False,
    ) -> None:
        self._spark, self._config, self.name, self._outputs = spark, config, name, outputs
        self._steps, self._stop, self._upkeep = steps, stop, upkeep
        self._hand_over_path, self._have_lost_commits = hand_over_path, have_lost_commits
        self._mark = MarkFile(self._checkpoint_path)
        self._run = QueryRun(
            name,
            steps,
            HandOverFileWriter(hand_over_path),
            on_lead,
            self._ask_for_upkeep,
            config.job.upkeep_interval_commits,
            clock,
            observer,
            self._drop_checkpoint,
            self._mark.write,
            refresh_clock,
        )
        self._clock = clock
        steps.rules = rules_of(config)
        self._query: StreamingQuery | None = None
        #: What ended the query from inside a batch, as Spark's own exception shows only a Java trace of it.
        self.failure: BaseException | None = None
        self.in_batch = False

    @property
    def batches(self) -> int:
        """How many batches it has run."""
        return self._run.batches

    @property
    def has_answered(self) -> bool:
        """Whether a batch that has read a request is through; the probe of a start is one."""
        return self._run.has_answered

    @property
    def has_started(self) -> bool:
        """Whether there is a query of Spark's."""
        return self._query is not None

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
        """The error that the query ended with; None while it runs, or when it was stopped."""
        return self.failure or self.query.exception()

    def start(self, leader_epoch: int) -> None:
        """Take the lead, complete what the last leader owed, and start.

        Raises FencedLeaderError, StaleCheckpointError, KafkaUnavailableError.
        """
        path = self._checkpoint_path
        job = self._config.job
        last_of = functools.partial(last_leader_epoch, job.tables_path, options=job.delta_options)
        is_void = self._have_lost_commits or self._mark.is_of_earlier_boot()
        checkpoint = None if is_void else read_checkpoint(self._spark, path)
        self._run.lead(leader_epoch, checkpoint, last_of)
        if is_void:
            self._drop_void_checkpoint()
        if checkpoint is not None:
            self._give_up_other_partitions(checkpoint)
        # Before Spark plans a batch: a checkpoint with one, and no start to go with it, would be taken for a stale one.
        self._steps.query_id = begin_checkpoint(self._spark, path)
        self._mark.begin(self._steps.committed_batches())
        self._record()
        writer = (
            self._outputs(self._hand_over_path, dict(self._steps.positions))
            .writeStream.queryName(self.name)
            .outputMode("update")
            .option("checkpointLocation", path)
            .trigger(processingTime=f"{self._config.job.trigger_interval_ms} milliseconds")
            .foreachBatch(self._on_batch)
        )
        gc.freeze()  # the rows of the tables that this query leads stay, and take long to look through
        self._query = writer.start()
        assert str(self._query.id) == self._steps.query_id
        logger.info("query %s leads with epoch %d, id %s", self.name, self._steps.leader_epoch, self._steps.query_id)

    @property
    def _checkpoint_path(self) -> str:
        return f"{self._config.job.checkpoint_path}/{self.name}"

    def _drop_checkpoint(self) -> None:
        """The query's id goes first; the next start removes what Spark may still write there while the query ends."""
        discard_checkpoint(self._spark, self._checkpoint_path)

    def _drop_void_checkpoint(self) -> None:
        """Nobody works with it: this query leads by now, and the tables have all that it stands for."""
        cause = "the tables have lost commits" if self._have_lost_commits else "the machine has been started since"
        logger.warning(
            "query %s: its checkpoint may be torn or not fit the tables, because %s; it is dropped, and the query "
            "comes back from the tables",
            self.name,
            cause,
        )
        discard_checkpoint(self._spark, self._checkpoint_path)

    def _give_up_other_partitions(self, checkpoint: Checkpoint) -> None:
        """Only a new checkpoint takes another number of shuffle partitions.

        This query leads by now, so nobody works with the old one, and the tables have all that it stands for.
        """
        wanted = self._config.job.shuffle_partitions
        if checkpoint.has_other_partitions(wanted):
            logger.warning(
                "query %s: its checkpoint has %d shuffle partitions, shuffle.partitions says %d: "
                "the checkpoint is given up, and the query comes back from the tables",
                self.name,
                checkpoint.shuffle_partitions,
                wanted,
            )
            discard_checkpoint(self._spark, checkpoint.path)

    def _record(self) -> None:
        record_leader(
            self._config.job.tables_path,
            self.name,
            self._steps.leader_epoch,
            self._steps.query_id,
            self._spark.sparkContext.applicationId,
            self._steps.positions,
            self._config.job.delta_options,
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
        if self._stop.requested:
            raise StopRequested(f"query {self.name} stops before batch {batch_id}")
        time = self._run.begin(batch_id)
        self._spark.sparkContext.setLocalProperty(TIME_PROPERTY, time_text(time))
        # Step 1; it must always run, also when all else is already done: Spark fails the batch otherwise.
        self._run.finish(batch_id, frame.toArrow()["output"].to_pylist())

    def _ask_for_upkeep(self) -> None:
        specs = [writer.spec for writer in self._steps.writers]
        self._upkeep.request(specs, self._steps.leader_epoch, self._clock.now().earliest_ms)
