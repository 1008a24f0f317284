"""The job's metrics while it runs: each query's batches report to `QueryMetrics`, and a scrape reads `JobMetrics`.

The time to count a batch depends only on its own rows. A scrape only copies sums while it holds the lock. A
share-partition without a time series of its own adds nothing to the cost of a scrape.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sharegroup.job.commit.commit_steps import Batch, CommitSteps
from sharegroup.job.commit.log_lines import FindRow, row_changes
from sharegroup.job.commit.table_rows import DELETED
from sharegroup.monitoring.metrics import job_catalogue as catalogue
from sharegroup.monitoring.metrics.job_counts import FinishedBatch, JobCounts, RowChange
from sharegroup.monitoring.metrics.metric import MetricFamily, gauge
from sharegroup.storage.schemas import SHARE_GROUP_MEMBERS, SHARE_GROUPS, SHARE_PARTITIONS

#: The names of the parts of a batch, used as a label of the metrics. Each key is the number of the commit step that
#: ends the part.
_PARTS = {1: "operator", 2: "commit", 3: "tables", 4: "answer"}
#: The tables whose rows are counted. Groups come first, because the other rows are labelled with their group.
_COUNTED = (SHARE_GROUPS, SHARE_GROUP_MEMBERS, SHARE_PARTITIONS)


class JobMetrics:
    """The metrics of the whole job, which several threads update.

    Up to `most_groups` groups and `most_partitions` share-partitions have time series of their own.

    `now_ms` returns the wall-clock time, from which ages are computed. `clock` returns seconds, from which durations
    are computed.
    """

    def __init__(
        self,
        most_groups: int,
        most_partitions: int,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counts = JobCounts(most_groups, most_partitions)
        self._lock = threading.Lock()
        self._now_ms, self._clock = now_ms, clock
        self._queries: dict[str, QueryMetrics] = {}

    def query(self, name: str) -> QueryMetrics:
        """Return a query's metrics, the same object at each start of the query."""
        if name not in self._queries:
            self._queries[name] = QueryMetrics(name, self.update_counts, self._clock)
        return self._queries[name]

    def update_counts(self, what: Callable[[JobCounts], Any]) -> None:
        """Call `what` with the counts, while holding the lock."""
        with self._lock:
            what(self._counts)

    def count_upkeep(self, seconds: float, failed: bool) -> None:
        """Count a run of the tables' upkeep, its duration, and whether it failed."""
        with self._lock:
            self._counts.add(catalogue.UPKEEPS, 1)
            self._counts.add(catalogue.UPKEEP_SECONDS, seconds)
            self._counts.add(catalogue.UPKEEP_FAILURES, int(failed))

    def families(self) -> list[MetricFamily]:
        queries = list(self._queries.values())
        live = [
            gauge(catalogue.BATCH_RUNS_SECONDS, [((query.name,), query.running_s) for query in queries]),
            gauge(catalogue.RUNNING, [((query.name,), int(query.is_running())) for query in queries]),
            gauge(catalogue.DELIVERY_LOG_DEFERRED, [((), sum(query.deferred_rows for query in queries))]),
        ]
        with self._lock:
            return [*self._counts.families(self._now_ms()), *live]


class QueryMetrics:
    """The metrics of one query, as a `BatchObserver`. The fault point of `CommitSteps` must also call `on_step`.

    `count` calls a function with the job's `JobCounts`. `clock` returns seconds. The code that starts the query sets
    `is_running`, which returns whether the query runs.
    """

    def __init__(self, name: str, count: Callable[[Callable[[JobCounts], Any]], None], clock: Callable[[], float]):
        self.name, self._count, self._clock = name, count, clock
        self.is_running: Callable[[], bool] = lambda: False
        self._steps: CommitSteps | None = None
        self._led_s: float | None = None
        self._begun_s: float | None = None
        self._last_s = 0.0
        self._parts: dict[str, float] = {}
        self._batch: FinishedBatch | None = None

    def on_become_leader(self, steps: CommitSteps) -> None:
        """Count a start of the query, and load the counts of groups, members and share-partitions from its tables."""
        self._steps, self._led_s, self._begun_s = steps, self._clock(), None
        here = {writer.spec.name for writer in steps.writers}
        rows = [
            (spec.name, None, row) for spec in _COUNTED if spec.name in here for row in steps.current_rows(spec.name)
        ]

        def count(counts: JobCounts) -> None:
            counts.add(catalogue.STARTS, 1, self.name)
            counts.set(catalogue.LEADER_EPOCH, steps.leader_epoch, self.name)
            if SHARE_GROUPS.name in here:
                counts.load_tables(rows)

        self._count(count)

    def on_step(self, step: int, batch_id: int) -> None:
        """Record that a batch has reached a commit step."""
        now_s = self._clock()
        if step == 0:
            self._begun_s, self._parts = now_s, {}
        else:
            self._parts[_PARTS[step]] = now_s - self._last_s
        self._last_s = now_s

    def on_batch_computed(self, batch: Batch, row_like: FindRow) -> None:
        """Compare the batch's rows with the current ones, and store the changes for `on_batch_finished` to count."""
        assert self._steps is not None
        before = self._steps.positions
        self._batch = FinishedBatch(
            self.name,
            batch.now_ms,
            self._parts,  # the remaining steps fill it
            sum(max(0, to - before[partition]) for partition, to in batch.positions.items() if partition in before),
            len(batch.rejected),
            batch.tables,
            list(_changed(batch, row_like)),
            batch.responses,
            batch.windows,
        )

    def on_batch_finished(self) -> None:
        now_s, batch, led_s = self._clock(), self._batch, self._led_s
        assert batch is not None
        self._parts["hand_over" if self._parts else "operator"] = now_s - self._last_s
        self._begun_s = self._batch = self._led_s = None

        load_s = None if led_s is None else now_s - led_s
        self._count(lambda counts: counts.count_batch(batch, load_s))

    @property
    def running_s(self) -> float:
        """How long the current batch has been running, in seconds; 0 between two batches."""
        begun_s = self._begun_s
        return 0.0 if begun_s is None or not self.is_running() else self._clock() - begun_s

    @property
    def deferred_rows(self) -> int:
        """The number of rows of append-only tables that are in an outbox but not in their table yet."""
        return 0 if self._steps is None else self._steps.deferred_rows


def _changed(batch: Batch, row_like: FindRow) -> Iterator[RowChange]:
    for spec in _COUNTED:
        rows: Iterable[tuple[Any, Any]] = row_changes(spec, batch.tables, row_like)
        for before, row in rows:
            yield spec.name, before, None if row.get(DELETED) else row
