"""One streaming query of the job: its start, its batches and its upkeep requests."""

import functools
import gc
import logging
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sharegroup.config import Config
from sharegroup.errors import StopRequested
from sharegroup.job.clock.handover_file import HandoverFileWriter
from sharegroup.job.commit.commit_steps import CommitSteps
from sharegroup.job.commit.query_run import BatchObserver, QueryRun
from sharegroup.job.commit.repeated_batch import effect_rules
from sharegroup.job.lead.checkpoint_mark import MarkFile
from sharegroup.job.lead.stale_checkpoint import Checkpoint
from sharegroup.kafka_clients.job_clock import JobClock
from sharegroup.log_fields import LogFields
from sharegroup.spark.job.checkpoint import begin_checkpoint, discard_checkpoint, read_checkpoint
from sharegroup.spark.job.stop_signal import StopSignal
from sharegroup.spark.queries.operators import TIME_PROPERTY, time_text
from sharegroup.storage.upkeep.upkeep_process import UpkeepProcess
from sharegroup.storage.writing.leaders import last_leader_epoch, record_leader

logger = logging.getLogger(__name__)

Outputs = Callable[[str, dict[int, int]], DataFrame]


class JobQuery:
    """Starts one query, runs its batches and requests upkeep of its tables.

    Args:
        outputs: function that returns the query's output as a DataFrame; `start` adds the sink. It is called with the
            path of the handover file, by which batches pass data to the query's source, and with {partition: first
            unread offset} of the request topic.
        on_lead: called when the query is the leader, before its first batch.
        clock: estimates the brokers' time, which each batch uses as its time.
        refresh_clock: measures the brokers' time again. It is called when `clock.is_probe_due()`, after a batch that
            changed a row or sent a request or response.
        observer: counts what the batches do, for the metrics.
        have_lost_commits: whether the tables have lost commits in a power loss. If so, `start` discards the checkpoint.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: Config,
        name: str,
        outputs: Outputs,
        steps: CommitSteps,
        handover_path: str,
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
        self._handover_path, self._have_lost_commits = handover_path, have_lost_commits
        self._mark = MarkFile(self._checkpoint_path)
        self._run = QueryRun(
            name,
            steps,
            HandoverFileWriter(handover_path),
            on_lead,
            self._request_upkeep,
            config.job.upkeep_interval_commits,
            clock,
            observer,
            self._discard_checkpoint,
            self._mark.write,
            refresh_clock,
        )
        self._clock = clock
        steps.rules = effect_rules(config)
        self._query: StreamingQuery | None = None
        #: The error in a batch that ended the query; Spark's own exception only contains its Java stack trace.
        self.failure: BaseException | None = None
        self.in_batch = False

    @property
    def batches(self) -> int:
        return self._run.batches

    @property
    def has_responded(self) -> bool:
        """Whether a batch with at least one request has completed. The probe that the job sends at its start counts."""
        return self._run.has_responded

    @property
    def has_started(self) -> bool:
        """Whether `start` has started Spark's query. The query may have ended since."""
        return self._query is not None

    @property
    def query(self) -> StreamingQuery:
        """Spark's query. It must have been started."""
        assert self._query is not None
        return self._query

    @property
    def is_active(self) -> bool:
        """Whether Spark's query has not ended. The query must have been started."""
        return bool(self.query.isActive)

    @property
    def ended_by(self) -> BaseException | None:
        """The error that ended the query; None while it runs or if it was stopped."""
        return self.failure or self.query.exception()

    def start(self, leader_epoch: int) -> None:
        """Become the leader of the query's tables, complete the last batch of the previous leader, and start the query.

        Raises FencedLeaderError if another job leads, and StaleCheckpointError if the checkpoint does not match the
        tables. Raises KafkaUnavailableError if the rows of that last batch cannot be sent again.
        """
        path = self._checkpoint_path
        job = self._config.job
        last_of = functools.partial(last_leader_epoch, job.tables_path, options=job.delta_options)
        is_void = self._have_lost_commits or self._mark.is_of_earlier_boot()
        checkpoint = None if is_void else read_checkpoint(self._spark, path)
        self._run.become_leader(leader_epoch, checkpoint, last_of)
        if is_void:
            self._discard_void_checkpoint()
        if checkpoint is not None:
            self._discard_if_settings_changed(checkpoint)
        # The start is recorded before Spark plans a batch. A checkpoint with a batch but without a recorded start would
        # be rejected as stale.
        self._steps.query_id = begin_checkpoint(self._spark, path)
        self._mark.begin(self._steps.newest_batches())
        self._record()
        writer = (
            self._outputs(self._handover_path, dict(self._steps.positions))
            .writeStream.queryName(self.name)
            .outputMode("update")
            .option("checkpointLocation", path)
            .trigger(processingTime=f"{self._config.job.trigger_interval_ms} milliseconds")
            .foreachBatch(self._on_batch)
        )
        gc.freeze()  # the table rows of this query stay in memory and would slow each garbage collection
        self._query = writer.start()
        assert str(self._query.id) == self._steps.query_id
        logger.info(
            "query %(query)s is the leader with epoch %(leader_epoch)d, query id %(query_id)s",
            LogFields(query=self.name, leader_epoch=self._steps.leader_epoch, query_id=self._steps.query_id),
        )

    @property
    def _checkpoint_path(self) -> str:
        return f"{self._config.job.checkpoint_path}/{self.name}"

    def _discard_checkpoint(self) -> None:
        """Discard the checkpoint. Files that Spark adds before the query ends are removed by the next start."""
        discard_checkpoint(self._spark, self._checkpoint_path)

    def _discard_void_checkpoint(self) -> None:
        """Discard a checkpoint that may be damaged or not match the tables. The query is rebuilt from the tables."""
        cause = "the tables have lost commits" if self._have_lost_commits else "the machine was restarted"
        logger.warning(
            "query %(query)s: the checkpoint may be damaged, or may not match the tables, because %(error)s; the "
            "checkpoint is discarded, and the query is rebuilt from the tables",
            LogFields(query=self.name, error=cause),
        )
        discard_checkpoint(self._spark, self._checkpoint_path)

    def _discard_if_settings_changed(self, checkpoint: Checkpoint) -> None:
        """Discard the checkpoint if the configured number of shuffle partitions or shards has changed.

        The query is then rebuilt from the tables. Call this when the query leads its tables, because no other job uses
        the checkpoint then.
        """
        changed = checkpoint.changed_settings(self._config.job)
        if changed:
            logger.warning(
                "query %(query)s: changed configuration: %(detail)s; the checkpoint is discarded, and the query is "
                "rebuilt from the tables",
                LogFields(query=self.name, detail=", ".join(changed)),
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
        time = self._run.begin_batch(batch_id)
        self._spark.sparkContext.setLocalProperty(TIME_PROPERTY, time_text(time))
        # Step 1. It must run even if all later steps are already done, because Spark would fail the batch otherwise.
        self._run.finish_batch(batch_id, frame.toArrow()["output"].to_pylist())

    def _request_upkeep(self) -> None:
        specs = [writer.spec for writer in self._steps.writers]
        self._upkeep.request(specs, self._steps.leader_epoch, self._clock.now().earliest_ms)
