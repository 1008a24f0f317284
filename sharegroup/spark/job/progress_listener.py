"""Reads the metrics of each micro-batch from the event that Spark sends, with as few calls into the JVM as possible.

PySpark's own `StreamingQueryListener` first converts the whole event into Python objects, including the source offsets,
which contain the rows of the batch. That takes about 250 calls, and tens of milliseconds for each batch. This listener
needs 20 calls.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaObject, java_import
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from sharegroup.monitoring.metrics import job_catalogue as catalogue
from sharegroup.monitoring.metrics.job_counts import JobCounts

_KAFKA = "KafkaV2"
_BEHIND = "maxOffsetsBehindLatest"
#: An entry of a Java map of numbers in text form: {addBatch=12, ...}.
_ENTRY = re.compile(r"(\w+)=([0-9.E]+)")


@dataclass(frozen=True)
class Progress:
    """Spark's measurements of a micro-batch.

    `part_ms` is the duration of each part of the batch, by Spark's name of the part. `backlog_rows` is the number of
    unread requests; None if the source has not reported it.
    """

    query: str
    part_ms: dict[str, float]
    input_rows: int
    state_rows: int
    state_bytes: int
    backlog_rows: float | None

    def count(self, counts: JobCounts) -> None:
        """Add the measurements to the job's metrics."""
        counts.add(catalogue.SPARK_BATCHES, 1, self.query)
        counts.add(catalogue.SPARK_INPUT_ROWS, self.input_rows, self.query)
        counts.set(catalogue.SPARK_STATE_ROWS, self.state_rows, self.query)
        counts.set(catalogue.SPARK_STATE_BYTES, self.state_bytes, self.query)
        for part, duration_ms in self.part_ms.items():
            counts.add(catalogue.SPARK_PART_SECONDS, duration_ms / 1000, self.query, part)
        if self.backlog_rows is not None:
            counts.set(catalogue.BACKLOG, self.backlog_rows, self.query)


def add_progress_listener(spark: SparkSession, on_progress: Callable[[Progress], None]) -> None:
    """Call `on_progress` for each micro-batch of this session's queries, on a thread of Spark's."""
    context = spark.sparkContext
    gateway = context._gateway
    assert gateway is not None
    ensure_callback_server_started(gateway)
    jvm: Any = context._jvm
    java_import(jvm, "org.apache.spark.sql.streaming.*")
    jvm_session: Any = spark._jsparkSession
    jvm_session.streams().addListener(jvm.PythonStreamingQueryListenerWrapper(_Listener(on_progress)))


class _Listener:
    """Receives the events of Spark's queries. Py4J passes it to the JVM as the Java interface that `Java` names."""

    def __init__(self, on_progress: Callable[[Progress], None]) -> None:
        self._on_progress = on_progress

    def onQueryStarted(self, event: JavaObject) -> None:  # noqa: N802
        """Ignore the event."""

    def onQueryProgress(self, event: JavaObject) -> None:  # noqa: N802
        """Report a completed micro-batch."""
        progress = event.progress()
        operators, sources = list(progress.stateOperators()), list(progress.sources())
        self._on_progress(
            Progress(
                progress.name(),
                _numbers(progress.durationMs()),
                progress.numInputRows(),
                sum(operator.numRowsTotal() for operator in operators),
                sum(operator.memoryUsedBytes() for operator in operators),
                next(_behind(sources), None),
            )
        )

    def onQueryIdle(self, event: JavaObject) -> None:  # noqa: N802
        """Ignore the event."""

    def onQueryTerminated(self, event: JavaObject) -> None:  # noqa: N802
        """Ignore the event; the supervisor detects the end of the query."""

    class Java:
        """Names, for Py4J, the Java interface that the outer class implements."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def _behind(sources: list[JavaObject]) -> Iterator[float]:
    for source in sources:
        if source.description().startswith(_KAFKA):
            yield from (value for name, value in _numbers(source.metrics()).items() if name == _BEHIND)


def _numbers(java_map: JavaObject) -> dict[str, float]:
    return {name: float(number) for name, number in _ENTRY.findall(java_map.toString())}
