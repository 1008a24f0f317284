"""A batch that runs again, with the effects that are in the tables or with others."""

from __future__ import annotations

import dataclasses
import functools
import logging
from pathlib import Path

import pytest

from sharegroup.core.operators.output import Output
from sharegroup.job.clock.handover import HandoverChange
from sharegroup.job.commit.commit_steps import Batch, CommitSteps
from sharegroup.job.commit.query_run import QueryRun
from sharegroup.job.commit.repeated_batch import RepeatedBatchError
from sharegroup.storage.schemas import SHARE_PARTITION_TABLES
from tests.harness.memory_tables import MemoryTables
from tests.tables.job_clocks import job_clock
from tests.tables.job_tables import T0, RecordingProducer, batch, start


def other(**values: object) -> Batch:
    """Return the batch that `batch(1)` makes, with other values."""
    return dataclasses.replace(batch(1), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("again", "named"),
    [
        (other(tables={}), "delivery_log, share_group_state"),
        (other(responses=[]), "responses"),
        (other(requests=[("g", "another notice")]), "requests"),
        (other(positions={}), r"position of request partition 0 \(2 before, None now\)"),
        (Batch(1), "delivery_log, requests, responses, share_group_state"),
    ],
    ids=["rows", "responses", "requests", "positions", "no effects"],
)
def test_a_repeated_batch_with_other_effects_is_rejected(tmp_path: Path, again: Batch, named: str) -> None:
    steps, _ = start(tmp_path)
    steps.commit(batch(1))
    steps, producer = start(tmp_path)
    producer.sent.clear()
    versions = [writer.version for writer in steps.writers]
    with pytest.raises(RepeatedBatchError, match=f"batch 1 ran again, and its effects differ .*: {named}"):
        steps.commit(again)
    assert ([writer.version for writer in steps.writers], producer.sent) == (versions, [])


def test_the_error_names_the_configuration_that_changed(tmp_path: Path) -> None:
    steps, _ = start(tmp_path)
    steps.rules = {"snapshot.records": 1}
    steps.commit(batch(1))
    steps, _ = start(tmp_path)
    steps.rules = {"snapshot.records": 2}
    with pytest.raises(RepeatedBatchError, match=r"changed configuration: snapshot.records \(1 before, 2 now\)"):
        steps.commit(other(responses=[]))


def test_other_rules_with_the_same_effects_are_accepted(tmp_path: Path) -> None:
    steps, _ = start(tmp_path)
    steps.rules = {"snapshot.records": 1}
    steps.commit(batch(1))
    steps, producer = start(tmp_path)
    steps.rules = {"snapshot.records": 2}
    steps.commit(batch(1))
    assert producer.sent[-1] == (["f1"], [("g", "notice-1")])


def test_another_query_with_the_same_batch_id_is_not_compared(tmp_path: Path) -> None:
    steps, _ = start(tmp_path)
    steps.commit(batch(1))
    steps, producer = start(tmp_path, query_id="query-2")
    steps.commit(other(responses=[]))
    assert producer.sent[-1] == ([], [("g", "notice-1")])


class _NoHandOver:
    def write(self, change: HandoverChange) -> None:
        """Discard the change."""


def _run(tables: MemoryTables, leader_epoch: int, dropped: list[str]) -> QueryRun:
    writers = [tables.writer(spec, f"{spec.name} {leader_epoch}") for spec in SHARE_PARTITION_TABLES]
    steps = CommitSteps(writers, RecordingProducer())
    drop = functools.partial(dropped.append, "q")
    run = QueryRun("q", steps, _NoHandOver(), lambda: None, lambda: None, 100, job_clock(), drop_checkpoint=drop)
    run.become_leader(leader_epoch, None, lambda query_id: 0)
    steps.query_id = "query-1"
    return run


def test_the_checkpoint_is_dropped_with_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    tables, dropped = MemoryTables(), list[str]()
    _run(tables, 1, dropped).finish_batch(0, [Output("k", T0, positions={0: 5}).encode()])
    again = _run(tables, 2, dropped)
    with caplog.at_level(logging.WARNING), pytest.raises(RepeatedBatchError):
        again.finish_batch(0, [Output("k", T0, positions={0: 4}).encode()])
    assert dropped == ["q"]
    assert [record.getMessage() for record in caplog.records] == [
        "query q: batch 0 ran again, and its effects differ from those of its first run: position of request "
        "partition 0 (5 before, 4 now); the checkpoint is dropped, and the query recovers from the tables"
    ]


def test_dying_before_the_drop_leaves_the_next_start_to_find_it() -> None:
    tables, dropped = MemoryTables(), list[str]()
    _run(tables, 1, dropped).finish_batch(0, [Output("k", T0, positions={0: 5}).encode()])
    for leader_epoch in (2, 3):
        with pytest.raises(RepeatedBatchError):
            _run(tables, leader_epoch, dropped).finish_batch(0, [])
    assert dropped == ["q", "q"]
