"""What a query's batches add to the metrics: once each, whatever fails in between, and at what cost."""

from __future__ import annotations

from typing import Any

import pytest

from sharegroup.core.operators.output import Output
from sharegroup.job.clock.handover import HandoverChange
from sharegroup.job.commit.commit_steps import CommitSteps
from sharegroup.job.commit.deferred_rows import TaskRunner, run_immediately
from sharegroup.job.commit.job_metrics import JobMetrics
from sharegroup.job.commit.query_run import QueryRun
from sharegroup.monitoring.metrics import job_catalogue as catalogue
from sharegroup.monitoring.metrics.metric import Labels, Metric, Observations
from sharegroup.monitoring.metrics.window_sizes import WindowSizes
from sharegroup.storage.schemas import GROUP_COORDINATOR_TABLES, SHARE_PARTITION_TABLES, TableSpec
from tests.harness.memory_tables import MemoryTables
from tests.tables.job_clocks import job_clock
from tests.tables.job_tables import T0

GROUPS, PARTITIONS = "group_coordinator", "share_partition"
TABLES: dict[str, tuple[TableSpec, ...]] = {GROUPS: GROUP_COORDINATOR_TABLES, PARTITIONS: SHARE_PARTITION_TABLES}


class Clock:
    """A clock that advances by a tenth of a second with each reading."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        self.now_s += 0.1
        return self.now_s


class Run:
    """A start of a query whose batches are counted. With `is_away`, the brokers accept nothing."""

    def __init__(
        self, metrics: JobMetrics, tables: MemoryTables, name: str, epoch: int, later: TaskRunner = run_immediately
    ) -> None:
        counted = metrics.query(name)
        counted.is_running = lambda: True
        writers = [tables.writer(spec, f"{name}{epoch}{spec.name}") for spec in TABLES[name]]
        steps = CommitSteps(writers, self, counted.on_step, later=later)
        self._run = QueryRun(name, steps, self, lambda: None, lambda: None, 100, job_clock(), counted)
        self.is_away = False
        self._run.become_leader(epoch, None, lambda query_id: 0)
        steps.query_id = f"query-{name}"

    def batch(self, batch_id: int, *outputs: Output) -> None:
        self._run.begin_batch(batch_id)
        self._run.finish_batch(batch_id, [output.encode() for output in outputs])

    def send(self, responses: Any, requests: Any) -> None:
        if self.is_away:
            raise ConnectionError("the brokers are away")

    def write(self, change: HandoverChange) -> None:
        pass


@pytest.fixture
def metrics() -> JobMetrics:
    return JobMetrics(10, 0, now_ms=lambda: T0 + 5_000, clock=Clock())


def shown(metrics: JobMetrics, metric: Metric) -> dict[Labels, float | Observations]:
    (family,) = (family for family in metrics.families() if family.metric is metric)
    return dict(family.series)


def acquired(records: int = 10, position: int = 1) -> Output:
    row = {
        "group_id": "g", "topic": "t", "topic_id": "id", "partition": 0, "first_offset": 0, "last_offset": records - 1,
        "from_state": "AVAILABLE", "to_state": "ACQUIRED", "cause": "fetch", "member_id": "m", "delivery_count": 1,
        "lock_deadline": None,
    }  # fmt: skip
    sizes = WindowSizes("g", "t", "id", 0, 0, records, 0, 0, 2 * records)
    return Output("k", T0, {"delivery_log": [row]}, positions={0: position}, windows=[list(sizes)])


def joined(state: str = "Stable", epoch: int = 1) -> Output:
    group = {"group_id": "g", "group_epoch": epoch, "assignment_epoch": epoch, "group_state": state}
    member = {
        "group_id": "g", "member_id": "m", "member_epoch": 1, "rack_id": None, "client_id": "c", "client_host": "h",
        "subscribed_topic_names": ["t"], "assignment": [],
    }  # fmt: skip
    return Output("g", T0, {"share_groups": [group], "share_group_members": [member]}, positions={0: epoch})


def test_a_batch_is_counted_with_the_time_of_each_part(metrics: JobMetrics) -> None:
    run = Run(metrics, MemoryTables(), PARTITIONS, 3)
    run.batch(0, acquired())
    assert shown(metrics, catalogue.RECORDS_ACQUIRED) == {("g",): 10}
    assert shown(metrics, catalogue.LAG) == {("g",): 20}
    assert shown(metrics, catalogue.OLDEST) == {("g",): 5.0}
    assert shown(metrics, catalogue.LEADER_EPOCH) == {(PARTITIONS,): 3}
    parts = shown(metrics, catalogue.PART_SECONDS)
    assert {part: pytest.approx(0.1) for _, part in parts} == {part: seconds for (_, part), seconds in parts.items()}
    assert [part for _, part in parts] == ["operator", "commit", "tables", "answer", "hand_over"]
    batches = shown(metrics, catalogue.BATCH_SECONDS)[PARTITIONS,]
    assert isinstance(batches, Observations)
    assert (batches.cumulative[-1], batches.sum) == (1, pytest.approx(0.5))


def test_a_batch_without_effects_is_counted_too(metrics: JobMetrics) -> None:
    run = Run(metrics, MemoryTables(), PARTITIONS, 1)
    run.batch(0, Output("k", T0, windows=acquired().windows))
    assert shown(metrics, catalogue.LAG) == {("g",): 20}
    assert shown(metrics, catalogue.PART_SECONDS) == {(PARTITIONS, "operator"): pytest.approx(0.1)}


def test_a_batch_that_fails_and_is_run_again_counts_once(metrics: JobMetrics) -> None:
    tables = MemoryTables()
    run = Run(metrics, tables, PARTITIONS, 1)
    run.is_away = True
    with pytest.raises(ConnectionError):
        run.batch(0, acquired())
    assert shown(metrics, catalogue.RECORDS_ACQUIRED) == {}
    Run(metrics, tables, PARTITIONS, 2).batch(0, acquired())
    assert shown(metrics, catalogue.RECORDS_ACQUIRED) == {("g",): 10}
    assert shown(metrics, catalogue.STARTS) == {(PARTITIONS,): 2}


def test_groups_are_those_of_the_tables_however_often_the_query_starts(metrics: JobMetrics) -> None:
    tables = MemoryTables()
    run = Run(metrics, tables, GROUPS, 1)
    run.batch(0, joined())
    run.batch(1, joined(epoch=2))
    run.is_away = True
    with pytest.raises(ConnectionError):
        run.batch(2, joined("Empty", 3))
    assert shown(metrics, catalogue.GROUPS)["Stable",] == 1
    Run(metrics, tables, GROUPS, 2).batch(2, joined("Empty", 3))
    assert shown(metrics, catalogue.GROUPS) == {("Empty",): 1, ("Stable",): 0, ("Dead",): 0}
    assert shown(metrics, catalogue.MEMBERS) == {("g",): 1}


def test_request_rows_are_those_between_two_positions(metrics: JobMetrics) -> None:
    run = Run(metrics, MemoryTables(), PARTITIONS, 1)
    run.batch(0, acquired(position=40))
    run.batch(1, acquired(position=47))
    assert shown(metrics, catalogue.REQUEST_ROWS) == {(PARTITIONS,): 7}


def test_deferred_rows_and_a_running_batch_are_counted(metrics: JobMetrics) -> None:
    waiting: list[Any] = []
    run = Run(metrics, MemoryTables(), PARTITIONS, 1, later=lambda work, urgent=False: waiting.append(work))
    run.batch(0, acquired())
    assert shown(metrics, catalogue.DELIVERY_LOG_DEFERRED) == {(): 1}
    waiting[0]()
    assert shown(metrics, catalogue.DELIVERY_LOG_DEFERRED) == {(): 0}
    assert shown(metrics, catalogue.BATCH_RUNS_SECONDS) == {(PARTITIONS,): 0}
    run._run.begin_batch(1)
    assert shown(metrics, catalogue.BATCH_RUNS_SECONDS) == {(PARTITIONS,): pytest.approx(0.1)}


def test_upkeep_is_counted(metrics: JobMetrics) -> None:
    metrics.count_upkeep(1.5, False)
    metrics.count_upkeep(0.5, True)
    assert shown(metrics, catalogue.UPKEEP_SECONDS) == {(): 2.0}
    assert (shown(metrics, catalogue.UPKEEPS), shown(metrics, catalogue.UPKEEP_FAILURES)) == ({(): 2}, {(): 1})
