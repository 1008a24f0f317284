"""The share-group job: runs both queries in one Spark session until SIGTERM."""

import functools
import logging
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sharegroup.config import Config
from sharegroup.errors import StopRequested
from sharegroup.job.cells.misplaced_groups import reject_misplaced_groups
from sharegroup.job.cells.offset_mirror import MirrorThread, OffsetMirror
from sharegroup.job.cells.static_configs import write_static_configs
from sharegroup.job.commit.commit_steps import CommitSteps
from sharegroup.job.commit.fault_points import fault_point
from sharegroup.job.commit.retrying_worker import RetryingWorker
from sharegroup.job.lead.checkpoint_mark import MarkFile
from sharegroup.job.lead.job_lead import JobLead, LeadWatch
from sharegroup.job.lead.stale_checkpoint import (
    Checkpoint,
    reject_checkpoint_ahead,
    reject_lost_commits,
    reject_stale_checkpoint,
)
from sharegroup.kafka_clients.client_settings import python_properties
from sharegroup.kafka_clients.group_offsets import GroupOffsets
from sharegroup.kafka_clients.job_clock import JobClock
from sharegroup.kafka_clients.kafka_clients import KafkaRowProducer
from sharegroup.kafka_clients.row_topics.job_topics import create_topics
from sharegroup.kafka_clients.steady_time import steady_ms
from sharegroup.log_fields import LogFields
from sharegroup.spark.job.checkpoint import read_checkpoint
from sharegroup.spark.job.job_query import JobQuery
from sharegroup.spark.job.metrics_endpoint import MetricsEndpoint
from sharegroup.spark.job.start_outage import retry_during_outage
from sharegroup.spark.job.stop_signal import StopSignal
from sharegroup.spark.job.supervisor import Supervisor
from sharegroup.spark.queries import group_coordinator_query, share_partition_query
from sharegroup.storage import CachedTables
from sharegroup.storage.following.config_poll import ConfigPoll, file_values
from sharegroup.storage.reading.offsets import read_offsets_by_group
from sharegroup.storage.schemas import (
    ALL_TABLES,
    GROUP_COORDINATOR_TABLES,
    SHARE_GROUP_JOB,
    SHARE_PARTITION_TABLES,
)
from sharegroup.storage.upkeep.upkeep_process import UpkeepProcess, upkeep_settings
from sharegroup.storage.writing.delta_table import DeltaTableWriter, DeltaVersions, open_or_create, store_errors
from sharegroup.storage.writing.leaders import last_leader_epoch
from sharegroup.storage.writing.torn_log import recover_torn_tables

logger = logging.getLogger(__name__)

#: Each query's tables, in the order of its commit steps.
_TABLES = {
    group_coordinator_query.NAME: GROUP_COORDINATOR_TABLES,
    share_partition_query.NAME: SHARE_PARTITION_TABLES,
}
#: How long the job waits at its end for deferred rows to be written, in seconds; the next start would write the rest.
_DEFERRED_END_S = 10.0
#: The pause between two writes of deferred rows, in seconds. It lets one commit contain the rows of several batches.
_DEFERRED_REST_S = 1.0
#: The interval at which the job checks its queries, in seconds.
_WATCH_S = 0.2
#: How long the job waits at its end for a commit of the offset mirror, in seconds.
_MIRROR_END_S = 3.0
#: A query that has run no batch for this long, in seconds, is idle and can be stopped.
_IDLE_S = 0.5


class ShareGroupJob:
    """The share-group job: its two queries, and the threads and processes beside them.

    `run` returns after SIGTERM, or raises the error that ended the job.
    """

    def __init__(self, spark: SparkSession, config: Config, stop: StopSignal) -> None:
        self._spark, self._config, self._stop = spark, config, stop
        self._options = config.job.delta_options
        self._scratch = tempfile.TemporaryDirectory(prefix="sharegroup-")
        self._kafka = python_properties(config.job.bootstrap_servers, config.job.kafka)
        self._jvm_pid = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]  # py4j
        self._running: dict[str, JobQuery] = {}
        self._producers: dict[str, KafkaRowProducer] = {}
        self._clocks = {name: JobClock() for name in _TABLES}
        self._workers: dict[str, RetryingWorker] = {}
        self._metrics = MetricsEndpoint(config.job)
        #: The queries whose tables have lost commits in a power loss, and that have not started since.
        self._have_lost_commits: set[str] = set()
        self._upkeep = UpkeepProcess(upkeep_settings(config), self._metrics.count_upkeep)
        self._build: dict[str, Callable[[], JobQuery]] = {
            group_coordinator_query.NAME: self._group_coordinator,
            share_partition_query.NAME: self._share_partition,
        }

    def run(self) -> None:
        """Start and supervise the queries until SIGTERM, and stop them.

        Raises FencedLeaderError if another job leads, and StaleCheckpointError if a checkpoint does not match the
        tables.
        """
        logger.info("Spark has started; checking topics, tables and the leader")
        self._metrics.start()
        try:
            self._run(self._prepare())
        except StopRequested as stopped:
            logger.info("%(error)s", LogFields(error=stopped))
        finally:
            self._metrics.close()

    def _prepare(self) -> JobLead:
        """Check topics, tables and checkpoints, and acquire the lead. Each step is retried during an outage.

        Raises StopRequested if the job is stopped meanwhile.
        """
        for step in (
            self._recover_torn_tables,
            functools.partial(reject_misplaced_groups, self._config),
            self._create_topics_and_tables,
            self._reject_stale_checkpoints,
        ):
            retry_during_outage(step, self._stop.wait)
        lead = retry_during_outage(self._job_lead, self._stop.wait)
        retry_during_outage(lead.acquire_epoch, self._stop.wait)
        return lead

    def _run(self, lead: JobLead) -> None:
        self._metrics.listen(self._spark)
        supervisor = Supervisor({name: functools.partial(self._start, lead, name) for name in self._build})
        mirror, commits = self._offset_mirror()
        mirror.start()
        watch = LeadWatch(lead.check)
        all_run = False
        try:
            while not self._stop.wait(_WATCH_S):
                before, all_run = all_run, supervisor.watch()
                self._metrics.report_check(all_run)
                if all_run and not before:
                    logger.info("the share-group job is running")
                watch.poll()
            logger.info("stop requested: the share-group job ends after the current batch")
        finally:
            self._stop_queries()
            mirror.close(_MIRROR_END_S)
            commits.close()
            for worker in self._workers.values():
                worker.close(_DEFERRED_END_S)
            self._upkeep.close()
            for producer in self._producers.values():
                producer.close()
            self._scratch.cleanup()

    def _recover_torn_tables(self) -> None:
        if recover_torn_tables(self._config.job.tables_path):
            self._have_lost_commits = set(_TABLES)

    def _create_topics_and_tables(self) -> None:
        job = self._config.job
        requests = job.group_requests_topic, job.partition_requests_topic
        create_topics(
            self._kafka,
            dict.fromkeys((*requests, job.responses_topic), job.request_topic_partitions),
            job.request_topic_replication_factor,
            job.request_topic_retention_ms,
            timed=requests,
        )
        with store_errors():
            for spec in ALL_TABLES:
                open_or_create(job.tables_path, spec, self._options)

    def _reject_stale_checkpoints(self) -> None:
        """Raise StaleCheckpointError if a checkpoint does not match the tables.

        This is checked before the job leads, so that a start that fails does not fence another job.
        """
        job = self._config.job
        paths = {name: f"{job.checkpoint_path}/{name}" for name in _TABLES}
        checkpoints = {path: self._checkpoint_in(path) for path in paths.values()}
        for name, (first, *_) in _TABLES.items():
            checkpoint = checkpoints[paths[name]]
            tables = {spec.name: DeltaTableWriter(job.tables_path, spec, self._options) for spec in _TABLES[name]}
            newest, newest_batch = tables[first.name], functools.partial(_newest_batch, tables)
            if checkpoint is None and name == group_coordinator_query.NAME:
                reject_lost_commits(checkpoints[paths[share_partition_query.NAME]], newest.last_info, newest_batch)
            if checkpoint is not None:
                query_id = checkpoint.query_id
                known = functools.partial(last_leader_epoch, job.tables_path, options=self._options)
                reject_stale_checkpoint(checkpoint, newest.last_info, newest.newest_batch(query_id), known)
                beside = next(path for other, path in paths.items() if other != name)
                reject_checkpoint_ahead(checkpoint, functools.partial(newest_batch, query_id), beside)

    def _checkpoint_in(self, path: str) -> Checkpoint | None:
        """Return the checkpoint that a query continues from; None if it has none to continue from.

        After a restart of the machine or a loss of commits, the checkpoint may be damaged or may not match the tables.
        The result is then also None.
        """
        is_void = self._have_lost_commits or MarkFile(path).is_of_earlier_boot()
        return None if is_void else read_checkpoint(self._spark, path)

    def _job_lead(self) -> JobLead:
        path = self._config.job.tables_path
        tables = [DeltaVersions(path, spec, self._options) for specs in _TABLES.values() for spec in specs]
        return JobLead(DeltaTableWriter(path, SHARE_GROUP_JOB, self._options), tables)

    def _offset_mirror(self) -> tuple[MirrorThread, GroupOffsets]:
        path, commits = self._config.job.tables_path, GroupOffsets(self._kafka)
        poll = ConfigPoll(file_values(self._config), path, self._options)
        tables = CachedTables(path, self._options)
        mirror = OffsetMirror(
            lambda: poll.in_force(steady_ms()), functools.partial(read_offsets_by_group, tables), commits
        )
        return MirrorThread(mirror), commits

    # -- queries ---------------------------------------------------------------------------------------------------

    def _share_partition(self) -> JobQuery:
        job, name = self._config.job, share_partition_query.NAME
        producer = self._producer(name, job.group_requests_topic)
        outputs = share_partition_query.share_partition_outputs

        def on_lead() -> None:
            producer.announce_leader()
            producer.send_probe(job.partition_requests_topic)

        return self._query(name, outputs, self._steps(name, producer), on_lead, job.partition_requests_topic)

    def _group_coordinator(self) -> JobQuery:
        job, name = self._config.job, group_coordinator_query.NAME
        producer = self._producer(name, job.partition_requests_topic)
        steps = self._steps(name, producer)
        outputs = group_coordinator_query.group_coordinator_outputs

        def on_lead() -> None:
            producer.send_probe(job.group_requests_topic)
            write_static_configs(steps, self._config, self._clocks[name].now().latest_ms)

        return self._query(name, outputs, steps, on_lead, job.group_requests_topic)

    def _query(
        self,
        name: str,
        outputs: Callable[[SparkSession, Config, str, dict[int, int]], DataFrame],
        steps: CommitSteps,
        on_lead: Callable[[], None],
        requests_topic: str,
    ) -> JobQuery:
        build = functools.partial(outputs, self._spark, self._config)
        handover_path = str(Path(self._scratch.name) / name)
        observer = self._metrics.query_metrics(name)
        query = JobQuery(
            self._spark,
            self._config,
            name,
            build,
            steps,
            handover_path,
            self._stop,
            self._upkeep,
            self._clocks[name],
            on_lead,
            functools.partial(self._producers[name].refresh_clock, requests_topic),
            observer,
            name in self._have_lost_commits,
        )
        if observer is not None:
            observer.is_running = lambda: query.has_started and query.is_active
        return query

    def _steps(self, name: str, producer: KafkaRowProducer) -> CommitSteps:
        if name in self._workers:
            self._workers[name].close(0)  # rows that it has not written are in the outbox
        self._workers[name] = RetryingWorker(f"{name} deferred", rest_s=_DEFERRED_REST_S)
        path = self._config.job.tables_path
        is_synced = self._config.job.tables_local_sync
        writers = [DeltaTableWriter(path, spec, self._options, is_synced) for spec in _TABLES[name]]
        fault, metrics = fault_point(name, self._jvm_pid), self._metrics.query_metrics(name)

        def reached(step: int, batch_id: int) -> None:
            if metrics is not None:
                metrics.on_step(step, batch_id)
            if fault is not None:
                fault(step, batch_id)

        return CommitSteps(writers, producer, reached, later=self._workers[name])

    def _producer(self, name: str, requests_topic: str) -> KafkaRowProducer:
        """Return a new producer for a query, after closing the producer of its last run."""
        if name in self._producers:
            self._producers.pop(name).close()
        producer = self._producers[name] = KafkaRowProducer(
            self._kafka, self._config.job.responses_topic, requests_topic, self._clocks[name]
        )
        return producer

    def _start(self, lead: JobLead, name: str) -> JobQuery:
        query = self._build[name]()
        query.start(lead.epoch_for(name))
        self._have_lost_commits.discard(name)
        self._running[name] = query
        return query

    # -- end -------------------------------------------------------------------------------------------------------

    def _stop_queries(self) -> None:
        """Stop the queries, after any running batch has ended. Return when they have ended.

        A query ends when its next batch begins, which raises StopRequested. A query that begins no batch is stopped
        directly. In both cases Spark logs a long failure, so its log is switched off first. Python still logs other
        failures.
        """
        log4j: Any = self._spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # py4j
        log4j.core.config.Configurator.setAllLevels("", log4j.Level.OFF)  # Spark's setLogLevel leaves named loggers
        self._stop.request()
        for query in self._running.values():
            self._await_end(query)

    def _await_end(self, query: JobQuery) -> None:
        """Wait until a query ends. A query without a batch for `_IDLE_S` seconds is idle, and is stopped."""
        idle_since = time.monotonic()
        while query.is_active:
            if query.in_batch:
                idle_since = time.monotonic()
            if time.monotonic() - idle_since > _IDLE_S:
                query.query.stop()
                return
            time.sleep(0.05)  # Spark's status can only be polled


def _newest_batch(tables: Mapping[str, DeltaTableWriter], query_id: str, table: str) -> int:
    return tables[table].newest_batch(query_id)
