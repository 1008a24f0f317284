"""A query without Spark: how it becomes the leader, and what its batches leave behind."""

from __future__ import annotations

from typing import Any

import pytest

from sharegroup.core.operators.output import Output
from sharegroup.errors import FencedLeaderError
from sharegroup.job.clock.handover import HandoverChange
from sharegroup.job.commit.commit_steps import CommitSteps
from sharegroup.job.commit.query_run import QueryRun
from sharegroup.job.lead.stale_checkpoint import Checkpoint, StaleCheckpointError
from sharegroup.kafka_clients.job_clock import PROBE_MS, BrokersTime, ClockReading
from sharegroup.storage.schemas import SHARE_PARTITION_TABLES
from tests.harness.memory_tables import MemoryTables
from tests.tables.job_clocks import Machine, job_clock
from tests.tables.job_tables import T0, RecordingProducer


class Run:
    """A start of a query; `log` records its actions in order."""

    def __init__(self, tables: MemoryTables, name: str, leader_epoch: int, upkeep_interval: int = 100) -> None:
        self.log: list[Any] = []
        self.producer = RecordingProducer()
        self._name, self._epoch = name, leader_epoch
        self.steps = CommitSteps(
            [tables.writer(spec, f"{name} {leader_epoch} {spec.name}") for spec in SHARE_PARTITION_TABLES], self
        )
        self.machine = Machine()
        self.clock = job_clock(self.machine)
        self.run = QueryRun(
            name, self.steps, self, self.on_lead, self.upkeep, upkeep_interval, self.clock,
            refresh_clock=self.refresh_clock,
        )  # fmt: skip

    def refresh_clock(self) -> None:
        self.log.append("probes")
        self.machine.tell(self.clock)

    def lead(self, checkpoint: Checkpoint | None = None) -> None:
        self.run.become_leader(self._epoch, checkpoint, lambda query_id: 0)
        self.steps.query_id = self._name

    def batch(self, batch_id: int, *outputs: Output) -> None:
        self.run.begin_batch(batch_id)
        self.run.finish_batch(batch_id, [output.encode() for output in outputs])

    def send(self, responses: Any, requests: Any) -> None:
        self.log.append(("send", [response["id"] for response in responses], list(requests)))

    def write(self, change: HandoverChange) -> None:
        self.log.append(change)

    def on_lead(self) -> None:
        self.log.append("leads")

    def upkeep(self) -> None:
        self.log.append("upkeep")


def read(position: int) -> Output:
    """Return the output of a key that has read a request, and needs a tick."""
    response = {"id": f"r{position}", "reply_to": "me"}
    return Output("k", T0, responses=[response], positions={0: position}, deadline_ms=T0 + position, waiting=True)


#: The reading of the tests' clock, which stands still.
CLOCK = ClockReading(5_000, T0)


def handed_over(position: int) -> HandoverChange:
    return HandoverChange({"k": T0 + position}, {"k": True}, {0: position}, CLOCK, {"k": []}, now_ms=T0)


def test_a_start_completes_the_last_batch_before_it_hands_anything_over() -> None:
    tables = MemoryTables()
    first = Run(tables, "first", 1)
    first.lead()
    assert first.log == ["leads", HandoverChange(clock=CLOCK)]
    first.batch(0, read(1))
    first.batch(1, Output("k", T0, deadline_ms=None))
    assert first.log[2:] == [
        ("send", ["r1"], []),
        handed_over(1),
        HandoverChange({"k": None}, {"k": False}, {0: 1}, CLOCK, {"k": []}, now_ms=T0),
    ]
    assert first.run.batches == 2

    second = Run(tables, "second", 2)
    second.lead()
    assert second.log == [("send", ["r1"], []), "leads", HandoverChange(positions={0: 1}, clock=CLOCK)]
    with pytest.raises(FencedLeaderError):
        first.batch(2, read(2))
    assert first.log[5:] == []


def test_a_start_continues_from_the_last_commit_of_the_fenced_leader() -> None:
    tables = MemoryTables()
    old = Run(tables, "old", 1)
    old.lead()
    old.batch(0, read(1))
    new = Run(tables, "new", 2)
    tables.before_next_commit(lambda: old.batch(1, read(2)))
    new.lead()
    assert new.log == [("send", ["r2"], []), "leads", HandoverChange(positions={0: 2}, clock=CLOCK)]
    new.batch(0, read(3))
    assert new.log[3:] == [("send", ["r3"], []), handed_over(3)]


def test_a_batch_has_the_brokers_time_and_has_it_again_when_it_runs_again() -> None:
    tables = MemoryTables()
    first = Run(tables, "q", 1)
    first.lead()
    first.machine.ahead_ms += 250
    first.machine.tell(first.clock)
    assert first.run.begin_batch(0) == BrokersTime(T0 + 250, T0 + 250)
    first.run.finish_batch(0, [read(1).encode()])

    second = Run(tables, "q", 2)
    second.lead()
    assert second.run.begin_batch(0) == BrokersTime(T0 + 250, T0 + 250)
    second.run.finish_batch(0, [read(1).encode()])
    assert second.run.begin_batch(1) == BrokersTime(T0, T0)


def test_the_brokers_time_is_requested_while_there_is_work() -> None:
    """A batch of probes alone does not count, because it would request the next probes forever."""
    run = Run(MemoryTables(), "q", 1)
    run.lead()
    run.batch(0, read(1))
    assert "probes" not in run.log
    run.machine.steady_ms += PROBE_MS
    run.batch(1, Output("", T0, positions={0: 2}))
    assert "probes" not in run.log
    run.batch(2, read(3))
    run.batch(3, read(4))
    assert run.log.count("probes") == 1


def test_upkeep_runs_after_a_number_of_commits() -> None:
    run = Run(MemoryTables(), "q", 1, upkeep_interval=2)
    run.lead()
    for batch_id in range(6):
        run.batch(batch_id, *([read(batch_id)] if batch_id % 2 else []))
    assert [number for number, entry in enumerate(run.log[2:]) if entry == "upkeep"] == [6]
    assert run.log[2:].count("upkeep") == 1


def test_a_late_commit_of_the_fenced_leader_can_make_a_checkpoint_stale() -> None:
    """The checkpoint was checked before the job became the leader, and is checked again when nobody else can write."""
    tables = MemoryTables()
    old = Run(tables, "query-1", 1)
    old.lead()
    old.batch(4, read(1))
    new = Run(tables, "query-1", 2)
    tables.before_next_commit(lambda: old.batch(5, read(2)))
    with pytest.raises(StaleCheckpointError, match="the tables have batch 5 of query query-1"):
        new.lead(Checkpoint("/c", "query-1", 4))
    assert new.log == []
    Run(tables, "query-1", 3).lead(Checkpoint("/c", "query-1", 5))


def test_rejected_rows_are_counted_and_the_first_of_them_logged(caplog: pytest.LogCaptureFixture) -> None:
    run = Run(MemoryTables(), "q", 1)
    run.lead()
    run.batch(0, Output("k", T0, rejected=[(0, offset, "bad") for offset in range(30)], notes=["a new log"]))
    assert run.run.rejected == 30
    assert [record.getMessage() for record in caplog.records] == [
        "query q: a new log",
        *[
            f"query q rejected the request in partition 0 at offset {offset} of its request topic: bad"
            for offset in range(20)
        ],
        "query q rejected 30 requests in batch 0, 30 since its start",
    ]
