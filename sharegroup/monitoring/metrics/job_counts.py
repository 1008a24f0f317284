"""The metrics of the job, for both queries. Each micro-batch is counted once, at its end.

A scrape calls `families`, which only reads sums.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sharegroup.errors import error_name
from sharegroup.monitoring.metrics import job_catalogue as catalogue
from sharegroup.monitoring.metrics.deliveries import Deliveries
from sharegroup.monitoring.metrics.group_counts import GroupCounts
from sharegroup.monitoring.metrics.group_labels import GroupLabels
from sharegroup.monitoring.metrics.metric import Counter, Histogram, Labels, Metric, MetricFamily, MetricKind, gauge
from sharegroup.monitoring.metrics.share_partitions import SharePartitionSizes
from sharegroup.monitoring.metrics.window_sizes import WindowSizes

#: (table, previous version of a row, new version). The previous version is None for an added row. The new version is
#: None for a deleted row.
RowChange = tuple[str, Mapping[str, Any] | None, Mapping[str, Any] | None]

_COUNTERS = (
    catalogue.STARTS,
    catalogue.PART_SECONDS,
    catalogue.STATE_RECORDS,
    catalogue.REQUEST_ROWS,
    catalogue.REQUESTS_REJECTED,
    catalogue.REJECTED_ROWS,
    catalogue.UPKEEPS,
    catalogue.UPKEEP_SECONDS,
    catalogue.UPKEEP_FAILURES,
    catalogue.SPARK_PART_SECONDS,
    catalogue.SPARK_BATCHES,
    catalogue.SPARK_INPUT_ROWS,
)
_GAUGES = (
    catalogue.LEADER_EPOCH,
    catalogue.BACKLOG,
    catalogue.SPARK_STATE_ROWS,
    catalogue.SPARK_STATE_BYTES,
)


@dataclass(frozen=True)
class FinishedBatch:
    """A finished micro-batch: its duration, and the rows that it read and wrote.

    Attributes:
        query: The name of the query.
        now_ms: The timestamp of the micro-batch.
        part_s: The duration of each part of the micro-batch, in seconds.
        requests: The number of processed rows of the request topic.
        rejected: The number of invalid rows of the request topic.
        tables: {table: the rows that were written to it}.
        changes: The changes of rows in the tables of groups, members and share-partitions.
        responses: The response rows.
        windows: The fields of `WindowSizes` (offsets and counts) for each changed share-partition, as plain values.
    """

    query: str
    now_ms: int
    part_s: Mapping[str, float] = field(default_factory=dict)
    requests: int = 0
    rejected: int = 0
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    changes: Sequence[RowChange] = ()
    responses: Sequence[Mapping[str, Any]] = ()
    windows: Sequence[Sequence[Any]] = ()


class JobCounts:
    """Counts of a job. Up to `most_groups` groups and `most_partitions` share-partitions have their own series."""

    def __init__(self, most_groups: int, most_partitions: int) -> None:
        self._labels = GroupLabels(most_groups)
        self._deliveries = Deliveries(self._labels)
        self._groups = GroupCounts(self._labels)
        self._share_partitions = SharePartitionSizes(self._labels, most_partitions)
        self._counters = {metric: Counter(metric) for metric in _COUNTERS}
        self._gauges: dict[Metric, dict[Labels, float]] = {metric: {} for metric in _GAUGES}
        self._batch_seconds = Histogram(catalogue.BATCH_SECONDS)
        self._write_seconds = Histogram(catalogue.WRITE_SECONDS)
        self._load_seconds = Histogram(catalogue.LOAD_SECONDS)

    def add(self, metric: Metric, count: float, *labels: str) -> None:
        """Increase a counter."""
        self._counters[metric].add(count, *labels)

    def set(self, metric: Metric, value: float, *labels: str) -> None:
        """Set a gauge."""
        self._gauges[metric][labels] = value

    def load_tables(self, rows: Iterable[RowChange]) -> None:
        """Replace the counts of groups, members and share-partitions.

        `rows` has each row of the group coordinator's tables, as an added row.
        """
        self._groups.reset()
        self._change(rows)

    def count_batch(self, batch: FinishedBatch, load_s: float | None = None) -> None:
        """Count a micro-batch.

        `load_s` is only set for the first micro-batch of a query: the time in seconds since the start of the query.
        """
        query, seconds = batch.query, sum(batch.part_s.values())
        for part, part_s in batch.part_s.items():
            self.add(catalogue.PART_SECONDS, part_s, query, part)
        self._batch_seconds.observe(seconds, query)
        if "commit" in batch.part_s:
            self._write_seconds.observe(batch.part_s["commit"], query)
        self.add(catalogue.REQUEST_ROWS, batch.requests, query)
        self.add(catalogue.REJECTED_ROWS, batch.rejected, query)
        for row in batch.responses:
            if row.get("error_code"):
                self.add(catalogue.REQUESTS_REJECTED, 1, query, error_name(row["error_code"]))
        for row in batch.tables.get("share_group_state", ()):
            self.add(catalogue.STATE_RECORDS, 1, row["record_type"])
        self._deliveries.count_rows(batch.tables.get("delivery_log", ()))
        loaded = [
            self._share_partitions.update(WindowSizes.from_values(values), batch.now_ms) for values in batch.windows
        ]
        if load_s is not None or any(loaded):
            self._load_seconds.observe(seconds if load_s is None else load_s, query)
        self._change(batch.changes)
        for table, before, after in batch.changes:
            if table == "share_groups":
                self._groups.count_rebalances(before, after)

    def families(self, now_ms: int) -> Iterator[MetricFamily]:
        yield from self._share_partitions.families(now_ms)
        yield from self._deliveries.families()
        yield from self._groups.families()
        for counter in self._counters.values():
            yield counter.family()
        for metric, values in self._gauges.items():
            assert metric.kind is MetricKind.GAUGE
            yield gauge(metric, values.items())
        yield self._batch_seconds.family()
        yield self._write_seconds.family()
        yield self._load_seconds.family()

    def _change(self, changes: Iterable[RowChange]) -> None:
        for table, before, after in changes:
            if table == "share_groups":
                if after and not before:
                    self._deliveries.add_series(self._labels.label_of(after["group_id"]))
                removed = self._groups.update_group(before, after)
                if removed is not None:
                    self._deliveries.remove_series(removed)
            elif table == "share_group_members":
                self._groups.update_member(before, after)
            elif table == "share_partitions":
                self._groups.update_share_partition(before, after)
