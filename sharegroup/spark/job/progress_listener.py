"""What Spark tells of each micro-batch, taken from its event by as few calls into the JVM as can be.

PySpark's own `StreamingQueryListener` turns the whole event into Python objects first: some 250 calls, tens of
milliseconds a batch, and the offsets of a batch, which hold its rows, as texts. Here it is about 20 calls.
"""

from __future__ import annotations

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
#: An entry of what Java makes of a map of numbers: {addBatch=12, ...}.
_ENTRY = re.compile(r"(\w+)=([0-9.E]+)")


@dataclass(frozen=True)
class Progress:
    """A micro-batch of a query as Spark saw it. `backlog_rows` is None where the source has not said."""

    query: str
    part_ms: dict[str, float]
    input_rows: int
    state_rows: int
    state_bytes: int
    backlog_rows: float | None

    def count(self, counts: JobCounts) -> None:
        """Add it to what the job counts."""
        counts.add(catalogue.SPARK_BATCHES, 1, self.query)
        counts.add(catalogue.SPARK_INPUT_ROWS, self.input_rows, self.query)
        counts.set(catalogue.SPARK_STATE_ROWS, self.state_rows, self.query)
        counts.set(catalogue.SPARK_STATE_BYTES, self.state_bytes, self.query)
        for part, duration_ms in self.part_ms.items():
            counts.add(catalogue.SPARK_PART_SECONDS, duration_ms / 1000, self.query, part)
        if self.backlog_rows is not None:
            counts.set(catalogue.BACKLOG, self.backlog_rows, self.query)


def listen(spark: SparkSession, told: Callable[[Progress], None]) -> None:
    """Have each micro-batch of this session's queries told, on a thread of Spark's, while the session lasts."""
    context = spark.sparkContext
    gateway = context._gateway
    assert gateway is not None
    ensure_callback_server_started(gateway)
    jvm: Any = context._jvm
    java_import(jvm, "org.apache.spark.sql.streaming.*")
    jvm_session: Any = spark._jsparkSession
    jvm_session.streams().addListener(jvm.PythonStreamingQueryListenerWrapper(_Listener(told)))


class _Listener:
    """Java's interface; the names are Spark's."""

    def __init__(self, told: Callable[[Progress], None]) -> None:
        self._told = told

    def onQueryStarted(self, event: JavaObject) -> None:  # noqa: N802
        """Nothing to count."""

    def onQueryProgress(self, event: JavaObject) -> None:  # noqa: N802
        """A micro-batch is through."""
        progress = event.progress()
        operators, sources = list(progress.stateOperators()), list(progress.sources())
        self._told(
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
        """Nothing to count."""

    def onQueryTerminated(self, event: JavaObject) -> None:  # noqa: N802
        """Nothing to count: the supervisor sees it."""

    class Java:
        """Py4J's way to say which interface it is."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def _behind(sources: list[JavaObject]) -> Iterator[float]:
    for source in sources:
        if source.description().startswith(_KAFKA):
            yield from (value for name, value in _numbers(source.metrics()).items() if name == _BEHIND)


def _numbers(java_map: JavaObject) -> dict[str, float]:
    return {name: float(number) for name, number in _ENTRY.findall(java_map.toString())}
