"""The main job: both queries in one session, until SIGTERM."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from sharegroup.channel.client_settings import python_properties
from sharegroup.config import JobConfig
from sharegroup.errors import FencedLeaderError, ShareGroupError, StopRequested
from sharegroup.spark import group_coordinator_query, share_partition_query
from sharegroup.spark.commit_steps import CommitSteps
from sharegroup.spark.delta_table import DeltaTableWriter, open_or_create
from sharegroup.spark.fault_points import fault_point
from sharegroup.spark.job_query import JobQuery, StaleCheckpointError
from sharegroup.spark.kafka_clients import RowProducer, create_topics
from sharegroup.spark.leaders import record_leader
from sharegroup.spark.retention import prunable
from sharegroup.spark.static_configs import write_static_configs
from sharegroup.spark.stop_signal import StopSignal
from sharegroup.tables.schemas import (
    ALL_TABLES,
    GROUP_COORDINATOR_TABLES,
    SHARE_PARTITION_TABLES,
)

logger = logging.getLogger(__name__)

#: A query that fails is started again after 1, 2, 4, ... seconds, this often without a batch in between.
MAX_RESTARTS = 6
#: No batch for this long: the query is between batches.
_IDLE_S = 0.5


class ShareGroupJob:
    """Runs the two queries. `run` returns after SIGTERM and raises what ended the job otherwise."""

    def __init__(self, spark: SparkSession, config: JobConfig, stop: StopSignal) -> None:
        self._spark, self._config, self._stop = spark, config, stop
        self._scratch = tempfile.TemporaryDirectory(prefix="sharegroup-")
        self._kafka = python_properties(config.job.bootstrap_servers, config.job.kafka)
        self._jvm_pid = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]  # py4j
        self._restarts: dict[str, int] = {}
        self._running: dict[str, JobQuery] = {}
        self._build: dict[str, Callable[[], JobQuery]] = {
            group_coordinator_query.NAME: self._group_coordinator,
            share_partition_query.NAME: self._share_partition,
        }

    def run(self) -> None:
        """Start, watch, stop. Raises FencedLeaderError when another job took the lead."""
        self._create_topics_and_tables()
        try:
            for name in self._build:
                self._start(name)
            logger.info("the share-group job is running")
            while not self._stop.wait(0.2):
                for name in self._build:
                    self._watch(name)
        finally:
            self._stop_queries()
            self._scratch.cleanup()

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
        for spec in ALL_TABLES:
            open_or_create(job.tables_path, spec)

    # -- the queries -----------------------------------------------------------------------------------------------

    def _share_partition(self) -> JobQuery:
        job = self._config.job
        producer = RowProducer(self._kafka, job.responses_topic, job.group_requests_topic)
        name = share_partition_query.NAME
        writers = [DeltaTableWriter(job.tables_path, spec) for spec in SHARE_PARTITION_TABLES]
        return JobQuery(
            self._spark,
            self._config,
            name,
            lambda path, positions: share_partition_query.share_partition_outputs(
                self._spark, self._config, path, positions
            ),
            CommitSteps(writers, producer, fault_point(name, self._jvm_pid)),
            str(Path(self._scratch.name) / name),
            self._stop,
            lambda: prunable(job.tables_path, job.delivery_log_retention_ms),
            producer.announce_leader,
        )

    def _group_coordinator(self) -> JobQuery:
        job = self._config.job
        producer = RowProducer(self._kafka, job.responses_topic, job.partition_requests_topic)
        name = group_coordinator_query.NAME
        writers = [DeltaTableWriter(job.tables_path, spec) for spec in GROUP_COORDINATOR_TABLES]
        steps = CommitSteps(writers, producer, fault_point(name, self._jvm_pid))
        return JobQuery(
            self._spark,
            self._config,
            name,
            lambda path, positions: group_coordinator_query.group_coordinator_outputs(
                self._spark, self._config, path, positions
            ),
            steps,
            str(Path(self._scratch.name) / name),
            self._stop,
            dict,
            lambda: write_static_configs(steps, self._config, int(time.time() * 1000)),
        )

    def _start(self, name: str) -> None:
        last = self._running.get(name)
        query = self._running[name] = self._build[name]()
        query.start(None if last is None else last.leader_epoch)
        record_leader(
            self._config.job.tables_path,
            name,
            query.leader_epoch,
            str(query.query.id),
            self._spark.sparkContext.applicationId,
            query.positions,
        )

    def _watch(self, name: str) -> None:
        """Start a query again that failed for a passing reason; raise what is for people to decide."""
        query = self._running[name]
        if query.query.isActive:
            return
        failure = query.failure or query.query.exception()
        if isinstance(failure, StopRequested):
            return
        if isinstance(failure, (FencedLeaderError, StaleCheckpointError)):
            raise failure
        if query.batches:
            self._restarts[name] = 0
        restarts = self._restarts[name] = self._restarts.get(name, 0) + 1
        if restarts > MAX_RESTARTS:
            raise ShareGroupError(f"query {name} failed {restarts} times in a row") from failure
        delay_s = 2 ** (restarts - 1)
        logger.error("query %s failed, will start again in %d s: %s", name, delay_s, _first_line(failure))
        if not self._stop.wait(delay_s):
            self._start(name)

    # -- the end ---------------------------------------------------------------------------------------------------

    def _stop_queries(self) -> None:
        """Between batches: a batch that begins now stops itself, and a query without one can be stopped safely."""
        self._stop.request()
        for query in self._started():
            self._await_end(query)

    def _started(self) -> Sequence[JobQuery]:
        return [query for query in self._running.values() if query.is_started]

    def _await_end(self, query: JobQuery) -> None:
        """A query that is not in a batch waits in its source for news; it can be stopped there."""
        idle_since = time.monotonic()
        while query.query.isActive:
            if query.in_batch:
                idle_since = time.monotonic()
            if time.monotonic() - idle_since > _IDLE_S:
                query.query.stop()
                return
            time.sleep(0.05)  # polls Spark's own status; there is nothing to wait on


def _first_line(failure: BaseException | None) -> str:
    if isinstance(failure, StreamingQueryException):
        return str(failure).partition("\n")[0]
    return f"{type(failure).__name__}: {failure}"
