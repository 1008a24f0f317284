"""The job's metrics and its health, over HTTP where `metrics.port` is set; else nothing is counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from pyspark.sql import SparkSession

from sharegroup.config.keys.job import JobConfig
from sharegroup.job.commit.job_metrics import JobMetrics, QueryMetrics
from sharegroup.monitoring.exporter.metrics_server import MetricsServer
from sharegroup.spark.job.progress_listener import listen

#: The job looks after its queries five times a second; one that has not for so long hangs.
_HANGS_S = 60.0


class ShownMetrics:
    """`watched` is told each time that the job has looked after its queries."""

    def __init__(self, job: JobConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._job, self._clock = job, clock
        self._counted = JobMetrics(job.metrics_max_groups, job.metrics_max_partitions)
        self._server = MetricsServer(self._counted.families, self._unhealthy, self._unready)
        self._watched_s: float | None = None
        self._all_run = False

    def query(self, name: str) -> QueryMetrics | None:
        """Who counts a query's batches; None: nobody is shown."""
        return self._counted.query(name) if self._job.metrics_port else None

    def upkeep_ended(self, seconds: float, failed: bool) -> None:
        """An upkeep took so long."""
        self._counted.upkeep_ended(seconds, failed)

    def start(self) -> None:
        """Show them, if that is wanted. Raises MetricsUnavailableError."""
        if self._job.metrics_port:
            self._server.start(self._job.metrics_host, self._job.metrics_port)

    def listen(self, spark: SparkSession) -> None:
        """Hear what Spark tells of micro-batches, if anybody is shown."""
        if self._job.metrics_port:
            listen(spark, lambda progress: self._counted.count(progress.count))

    def watched(self, all_run: bool) -> None:
        """The job leads, and has looked: whether both queries run."""
        self._watched_s, self._all_run = self._clock(), all_run

    def close(self) -> None:
        """Show them no more."""
        self._server.close()

    def _unhealthy(self) -> Iterator[str]:
        """A start may take as long as it takes; what is watched is what comes after it."""
        if self._watched_s is not None and self._clock() - self._watched_s > _HANGS_S:
            yield f"the job has not looked after its queries for {self._clock() - self._watched_s:.0f} s"

    def _unready(self) -> Iterator[str]:
        yield from self._unhealthy()
        if self._watched_s is None:
            yield "the job does not lead yet"
        elif not self._all_run:
            yield "not both queries run"
