"""Two jobs on the same tables, in every order: one runs, and the other one is fenced.

Each job acquires its epoch, becomes the leader of its tables one by one, and then commits batches. An action of one job
may come between any two steps of the other, and into its commits.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from sharegroup.errors import FencedLeaderError
from sharegroup.job.commit.commit_steps import CommitSteps
from sharegroup.job.lead.job_lead import CHECK_INTERVAL_S, JobLead, LeadWatch
from sharegroup.storage.schemas import (
    DELIVERY_LOG,
    GROUP_COORDINATOR_TABLES,
    SHARE_GROUP_JOB,
    SHARE_GROUP_STATE,
    SHARE_GROUPS,
    SHARE_PARTITION_TABLES,
    TableSpec,
)
from sharegroup.storage.upkeep.table_upkeep import TableUpkeep
from sharegroup.storage.writing.leaders import record_leader
from sharegroup.storage.writing.table_writer import TableWriter
from sharegroup.storage.writing.versioned_table import NotCommittedError, Upkeep, Write
from tests.harness.memory_tables import MemoryTables
from tests.tables.job_tables import RecordingProducer, batch
from tests.tables.table_kinds import DeltaTableKind, TableKind

THREE_TABLES = (SHARE_GROUP_STATE, DELIVERY_LOG, SHARE_GROUPS)
QUERIES = {"group_coordinator": GROUP_COORDINATOR_TABLES, "share_partition": SHARE_PARTITION_TABLES}


@pytest.fixture(params=["delta", "memory"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> TableKind:
    return DeltaTableKind(tmp_path) if request.param == "delta" else MemoryTables()


def job_lead(tables: TableKind, name: str, specs: Sequence[TableSpec] = THREE_TABLES) -> JobLead:
    return JobLead(tables.writer(SHARE_GROUP_JOB, f"{name}-deciding"), [tables.table(spec) for spec in specs])


def fenced(mine: int, there: int) -> pytest.RaisesExc[FencedLeaderError]:
    return pytest.RaisesExc(FencedLeaderError, match=rf"leader epoch {there} \(epoch of this job: {mine}\)")


# -- the deciding epoch ------------------------------------------------------------------------------------------------


def test_each_job_acquires_a_higher_epoch(tables: TableKind) -> None:
    assert [job_lead(tables, name).acquire_epoch() for name in ("a", "b", "c")] == [1, 2, 3]


def test_the_epoch_is_above_those_of_tables_that_an_earlier_version_led(tables: TableKind) -> None:
    tables.writer(DELIVERY_LOG, "earlier").become_leader(7)
    lead = job_lead(tables, "a")
    assert (lead.acquire_epoch(), lead.epoch) == (8, 8)


def test_of_two_that_decide_in_the_same_moment_the_second_is_fenced(tables: TableKind) -> None:
    first, second = job_lead(tables, "first"), job_lead(tables, "second")
    tables.before_next_commit(lambda: first.acquire_epoch() and None)
    with pytest.raises(FencedLeaderError, match="own leader epoch: 1; now in the table: leader epoch 1"):
        second.acquire_epoch()
    first.check()
    assert tables.writer(SHARE_GROUP_JOB, "reader").leader_epoch == 1


def test_a_lost_response_does_not_cost_the_leadership(tables: TableKind) -> None:
    lead = job_lead(tables, "a")
    tables.lose_next_response()
    assert lead.acquire_epoch() == 1
    lead.check()
    assert job_lead(tables, "b").acquire_epoch() == 2


def test_a_store_that_rejects_commits_gives_no_epoch(tables: TableKind) -> None:
    lead = job_lead(tables, "a")
    tables.reject_next_commit()
    with pytest.raises(NotCommittedError):
        lead.acquire_epoch()
    assert (lead.epoch, lead.acquire_epoch()) == (0, 1)


def test_leader_rows_do_not_conflict_with_batches(tmp_path: Path) -> None:
    tables = DeltaTableKind(tmp_path)
    lead = job_lead(tables, "a")
    tables.before_next_commit(lambda: record_leader(tables.root, "share_partition", 9, "earlier", "application", {}))
    assert lead.acquire_epoch() == 1
    record_leader(tables.root, "share_partition", 1, "mine", "application", {})
    lead.check()
    assert (lead.epoch_for("q"), lead.epoch_for("q")) == (1, 2)
    assert len(tables.rows(SHARE_GROUP_JOB)) == 2


def test_a_query_that_starts_again_has_another_epoch(tables: TableKind) -> None:
    lead = job_lead(tables, "a")
    lead.acquire_epoch()
    epochs = [lead.epoch_for(query) for query in ("groups", "partitions", "partitions", "groups", "groups")]
    assert epochs == [1, 1, 2, 2, 3]


def test_a_restarted_query_does_not_become_the_leader_again(tables: TableKind) -> None:
    a, b = job_lead(tables, "a"), job_lead(tables, "b")
    a.acquire_epoch()
    a.epoch_for("groups")
    b.acquire_epoch()
    for start in (lambda: a.epoch_for("groups"), lambda: a.epoch_for("partitions"), a.acquire_epoch, a.check):
        with fenced(1, 2):
            start()
    b.check()


def test_a_later_job_of_an_earlier_version_is_found_in_its_tables(tables: TableKind) -> None:
    lead = job_lead(tables, "a")
    lead.acquire_epoch()
    lead.epoch_for("groups")
    tables.writer(DELIVERY_LOG, "earlier").become_leader(2)
    with fenced(1, 2):
        lead.epoch_for("groups")


# -- two jobs ----------------------------------------------------------------------------------------------------------


class Job:
    """A job whose start is run step by step: its epoch, then its tables; `take_all` runs the remaining steps."""

    def __init__(self, tables: TableKind, name: str, specs: Sequence[TableSpec] = THREE_TABLES) -> None:
        self.name = name
        self.lead = job_lead(tables, name, specs)
        self.writers = [tables.writer(spec, f"{name}-{spec.name}") for spec in specs]
        self._upkeep = TableUpkeep(tables.table(specs[0]), f"{name}-upkeep")
        self.fenced = False
        self._steps = self._start()
        self._batch_id = 0

    def step(self) -> None:
        """Run the next step of the start, which stops at the first fence."""
        if not self.fenced:
            self.fenced = not self._attempt(lambda: next(self._steps, None))

    def batch(self) -> bool:
        """Commit a batch to each table; return whether all commits succeeded."""
        return self._attempt(lambda: [self._commit(writer) for writer in self.writers])

    def compact(self) -> None:
        """Run the upkeep of the first table, and ignore its errors."""
        with contextlib.suppress(FencedLeaderError, NotCommittedError):
            self._upkeep.run(self.lead.epoch, Upkeep(timedelta(hours=24), 1_000))

    def looks(self) -> bool:
        """Return whether the job still leads according to its own check."""
        return self._attempt(self.lead.check)

    def _start(self) -> Iterator[None]:
        epoch = self.lead.acquire_epoch()
        yield
        for writer in self.writers:
            writer.become_leader(epoch)
            yield

    def _commit(self, writer: TableWriter) -> None:
        self._batch_id += 1
        info = {"leader_epoch": self.lead.epoch, "batch_id": self._batch_id}
        row = {"group_id": self.name}
        write = Write([row]) if writer.spec.is_append_only else Write([{**row, "chunk": 0}], [0])
        writer.commit(self.name, self._batch_id, lambda: write, info)

    @staticmethod
    def _attempt(action: Callable[[], object]) -> bool:
        try:
            action()
        except FencedLeaderError:
            return False
        return True


def exactly_one_runs(tables: TableKind, *jobs: Job) -> Job:
    """Check that exactly one job can commit repeatedly, and that a commit or check stops the others."""
    running = [job for job in jobs if not job.fenced and job.looks()]
    assert len(running) == 1
    for _ in range(2):
        for job in jobs:
            assert job.batch() == (job is running[0])
    assert [job.looks() for job in jobs] == [job is running[0] for job in jobs]
    newest = max(job.lead.epoch for job in jobs)
    assert running[0].lead.epoch == newest
    for writer in running[0].writers:
        reader = tables.writer(writer.spec, "reader")
        assert (reader.leader_epoch, reader.last_info) == (newest, writer.last_info)
    return running[0]


def orders(of_each: int) -> list[str]:
    """Return all interleavings of the steps of "a" and of "b"."""
    places = itertools.combinations(range(2 * of_each), of_each)
    return ["".join("a" if place in of_a else "b" for place in range(2 * of_each)) for of_a in places]


@pytest.mark.parametrize("order", orders(4))
def test_in_each_order_of_two_starts_one_runs(order: str) -> None:
    """Each start has an epoch and three tables."""
    tables = MemoryTables()
    jobs = {name: Job(tables, name) for name in "ab"}
    for name in order:
        jobs[name].step()
    runs = exactly_one_runs(tables, *jobs.values())
    assert runs.name == order.replace(order[0], "")[0]  # the job that decided last


@pytest.mark.parametrize("compaction", ["none", "before", "after"])
@pytest.mark.parametrize("order", orders(2))
def test_in_each_order_of_two_leads_over_a_running_job_one_runs(tables: TableKind, order: str, compaction: str) -> None:
    """Both have their epochs already. The compaction of the running job comes right before, or after, a lead commit."""
    specs = (DELIVERY_LOG, SHARE_GROUPS)
    running = Job(tables, "running", specs)
    for _ in range(3):
        running.step()
    assert all(running.batch() for _ in range(3))
    jobs = {name: Job(tables, name, specs) for name in "ab"}
    for job in jobs.values():
        job.step()
    if compaction == "before":
        tables.before_next_commit(running.compact)
        tables.before_next_commit(lambda: None)  # of the compaction itself
    elif compaction == "after":
        tables.before_next_commit(jobs[order[0]].step)
        running.compact()
        order = order[1:]
    for name in order:
        jobs[name].step()
    assert exactly_one_runs(tables, running, *jobs.values()) is jobs["b"]


@pytest.mark.parametrize("seed", range(60))
def test_one_job_runs_whatever_interrupts_the_commits(tmp_path: Path, seed: int) -> None:
    """Four jobs start, commit, compact and check, also between another's read and commit; responses are lost."""
    chance = random.Random(seed)
    tables: TableKind = DeltaTableKind(tmp_path) if seed < 5 else MemoryTables()
    jobs = [Job(tables, name) for name in "abcd"]
    started = dict.fromkeys(jobs, 0)
    busy: list[Job] = []

    def act(depth: int) -> None:
        """Run an action of a job that is not in the middle of another one."""
        idle = [job for job in jobs if job not in busy]
        if not idle:
            return
        job = chance.choice(idle)
        busy.append(job)
        if depth and chance.random() < 0.5:
            tables.before_next_commit(lambda: act(depth - 1))
        if chance.random() < 0.1:
            tables.lose_next_response()
        if started[job] < 4:
            started[job] += 1
            job.step()
        elif not job.fenced:
            chance.choice([job.batch, job.compact, job.looks])()
        busy.remove(job)

    while min(started.values()) < 4:
        act(depth=2)
    for _ in range(10):
        act(depth=2)
    busy += jobs  # from now on nothing interrupts a commit
    exactly_one_runs(tables, *jobs)


# -- crashes during the start ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_a_job_that_dies_while_becoming_the_leader_can_be_replaced(tables: TableKind, steps: int) -> None:
    """It has decided, and leads none, some or all of the tables; nobody else leads until another job starts."""
    running, died = Job(tables, "running"), Job(tables, "died")
    for _ in range(4):
        running.step()
    assert running.batch()
    for _ in range(steps):
        died.step()
    assert not running.looks()
    if steps > 1:
        assert not running.batch()
    after = Job(tables, "after")
    for _ in range(4):
        after.step()
    assert after.lead.epoch == 3
    assert exactly_one_runs(tables, running, after) is after


def test_a_paused_job_does_not_become_the_leader_again(tables: TableKind) -> None:
    asleep, awake = Job(tables, "asleep"), Job(tables, "awake")
    for _ in range(2):
        asleep.step()
    for _ in range(4):
        awake.step()
    for _ in range(2):
        asleep.step()
    assert exactly_one_runs(tables, asleep, awake) is awake


def test_a_new_leader_completes_the_last_durable_batch_of_the_old_one(tables: TableKind) -> None:
    """The old leader's batch is committed to the first table, with its outbox, while the new leader starts."""

    def steps_of(name: str) -> tuple[CommitSteps, RecordingProducer]:
        producer = RecordingProducer()
        writers = [tables.writer(spec, f"{name}-{spec.name}") for spec in SHARE_PARTITION_TABLES]
        return CommitSteps(writers, producer), producer

    (old, old_producer), (new, new_producer) = steps_of("old"), steps_of("new")
    old.become_leader(1)
    old.query_id = "old"
    old.commit(batch(0))

    def old_commits() -> None:
        """Commit when the new leader does not lead the first table yet, but is about to lead the other one."""
        tables.before_next_commit(lambda: None)
        tables.before_next_commit(lambda: new.writers[1].become_leader(2))
        with pytest.raises(FencedLeaderError):
            old.commit(batch(1))

    tables.before_next_commit(old_commits)
    new.writers[0].become_leader(2)
    answers = [(["f0"], [("g", "notice-0")]), (["f1"], [("g", "notice-1")])]
    assert old_producer.sent == answers, "the responses are durable: the new leader sends the same ones"

    new, new_producer = steps_of("newer")
    new.become_leader(3)
    assert (new.positions, (new.last_info or {})["batch_id"], new.newest_batch("old")) == ({0: 2}, 1, 1)
    new.complete_last_batch()
    assert new_producer.sent == [(["f1"], [("g", "notice-1")])]
    logged = [(row["batch_id"], row["leader_epoch"]) for row in tables.rows(DELIVERY_LOG)]
    assert sorted(logged) == [(0, 1), (1, 1)]


# -- regular checks ----------------------------------------------------------------------------------------------------


def test_a_job_without_commits_detects_a_newer_leader(caplog: pytest.LogCaptureFixture) -> None:
    tables, now = MemoryTables(), [0.0]
    lead = job_lead(tables, "a")
    lead.acquire_epoch()
    watch = LeadWatch(lead.check, lambda: now[0])
    watch.poll()
    tables.is_unavailable = True
    watch.poll()  # not due
    for _ in range(3):
        now[0] += CHECK_INTERVAL_S
        watch.poll()
    failed = "cannot check which job leads; retrying: the store is away"
    assert [record.message for record in caplog.records] == [failed]
    tables.is_unavailable = False
    now[0] += CHECK_INTERVAL_S
    watch.poll()
    job_lead(tables, "b").acquire_epoch()
    now[0] += CHECK_INTERVAL_S - 0.1
    watch.poll()
    now[0] += 0.1
    with fenced(1, 2):
        watch.poll()
