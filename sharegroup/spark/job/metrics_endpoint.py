"""Serves the job's metrics and health over HTTP if `metrics.port` is set. Otherwise, batches are not counted."""

import time
from collections.abc import Callable, Iterator

from pyspark.sql import SparkSession

from sharegroup.config.keys.job import JobConfig
from sharegroup.job.commit.job_metrics import JobMetrics, QueryMetrics
from sharegroup.monitoring.exporter.metrics_server import MetricsServer
from sharegroup.spark.job.progress_listener import add_progress_listener

#: The job checks its queries five times per second. A job that has not checked them for this many seconds is unhealthy.
_HANGS_S = 60.0


class MetricsEndpoint:
    """The job's metrics, and the HTTP server for them. The job calls `report_check` after each check of its queries."""

    def __init__(self, job: JobConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._job, self._clock = job, clock
        self._counted = JobMetrics(job.metrics_max_groups, job.metrics_max_partitions)
        self._server = MetricsServer(self._counted.families, self._unhealthy, self._unready)
        self._watched_s: float | None = None
        self._all_run = False

    def query_metrics(self, name: str) -> QueryMetrics | None:
        """Return the object that counts a query's batches; None if no port is configured."""
        return self._counted.query(name) if self._job.metrics_port else None

    def count_upkeep(self, seconds: float, failed: bool) -> None:
        """Count an upkeep run with its duration."""
        self._counted.count_upkeep(seconds, failed)

    def start(self) -> None:
        """Start the HTTP server if a port is configured. Raises MetricsUnavailableError."""
        if self._job.metrics_port:
            self._server.start(self._job.metrics_host, self._job.metrics_port)

    def listen(self, spark: SparkSession) -> None:
        """If a port is configured, add Spark's measurements of each micro-batch to the metrics from now on."""
        if self._job.metrics_port:
            add_progress_listener(spark, lambda progress: self._counted.update_counts(progress.count))

    def report_check(self, all_run: bool) -> None:
        """Record that the job has just checked its queries, and whether both run."""
        self._watched_s, self._all_run = self._clock(), all_run

    def close(self) -> None:
        """Stop the HTTP server."""
        self._server.close()

    def _unhealthy(self) -> Iterator[str]:
        """Yield the reasons why the job is unhealthy.

        A start may take any time, so no reason is reported before the first check.
        """
        if self._watched_s is not None and self._clock() - self._watched_s > _HANGS_S:
            yield f"the job has not checked its queries for {self._clock() - self._watched_s:.0f} s"

    def _unready(self) -> Iterator[str]:
        yield from self._unhealthy()
        if self._watched_s is None:
            yield "the job has not become the leader yet"
        elif not self._all_run:
            yield "a query does not run, or has not processed a request yet"
