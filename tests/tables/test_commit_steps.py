"""The commit steps on real Delta tables: repeated batches, crashes after each step, fences, upkeep."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from sharegroup.core.operators.output import Output
from sharegroup.errors import FencedLeaderError
from sharegroup.job.commit import commit_steps
from sharegroup.job.commit.commit_steps import Batch, CommitSteps
from sharegroup.storage.reading.state_table import read_states
from sharegroup.storage.schemas import GROUP_COORDINATOR_TABLES, SHARE_GROUP_STATE
from sharegroup.storage.writing import delta_table
from sharegroup.storage.writing.delta_table import DeltaTableWriter
from sharegroup.storage.writing.versioned_table import NotCommittedError, Write
from sharegroup.types import SharePartitionKey
from tests.tables.job_tables import T0, TOPIC_ID, Died, RecordingProducer, UpkeepOf, batch, dies_after, rows, start

#: (tables with batch 1, what the dead job has sent), for a job that dies after each step of batch 1.
SENT = (["f1"], [("g", "notice-1")])
AFTER_STEP = {1: ([], []), 2: (["share_group_state"], []), 3: (["share_group_state"], [])}
AFTER_STEP[4] = (["share_group_state"], [SENT])


def written(root: Path, batch_id: int) -> list[str]:
    """Return the tables with rows of a batch; a row appears twice for a batch that was written twice."""
    return [
        table
        for table in ("share_group_state", "delivery_log")
        for found in rows(root, table, "batch_id")
        if found == (batch_id,)
    ]


def test_a_batch_goes_through_all_steps(tmp_path: Path) -> None:
    steps, producer = start(tmp_path)
    steps.commit(batch(0))
    assert written(tmp_path, 0) == ["share_group_state", "delivery_log"]
    assert producer.sent == [(["f0"], [("g", "notice-0")])]
    assert rows(tmp_path, "delivery_log", "cause", "leader_epoch", "first_offset") == [("fetch", 1, 0)]
    key = SharePartitionKey("g", "orders", TOPIC_ID, 0)
    state = read_states(DeltaTable(str(tmp_path / "share_group_state")))[key]
    assert (state.header.last_snapshot_ms, state.state_batches[0].lock_deadline_ms) == (T0, T0 + 30_000)
    assert read_states(DeltaTable(str(tmp_path / "share_group_state")), ["another"]) == {}
    assert read_states(DeltaTable(str(tmp_path / "share_group_state")), []) == {}


def test_a_repeated_batch_is_written_once_and_its_responses_sent_again(tmp_path: Path) -> None:
    steps, producer = start(tmp_path)
    for _ in range(2):
        steps.commit(batch(0))
    assert written(tmp_path, 0) == ["share_group_state", "delivery_log"]
    assert producer.sent == [(["f0"], [("g", "notice-0")])] * 2


def test_a_batch_without_effects_commits_nothing(tmp_path: Path) -> None:
    steps, producer = start(tmp_path)
    versions = [writer.version for writer in steps.writers]
    steps.commit(Batch.from_outputs(0, [Output("k", T0, deadline_ms=5, waiting=True)]))
    assert ([writer.version for writer in steps.writers], producer.sent) == (versions, [])


@pytest.mark.parametrize("step", AFTER_STEP)
def test_a_job_that_died_and_kept_its_checkpoint_runs_the_batch_again(tmp_path: Path, step: int) -> None:
    steps, _ = start(tmp_path)
    steps.commit(batch(0))
    steps, producer = start(tmp_path, fault_point=dies_after(step))
    producer.sent.clear()
    with pytest.raises(Died):
        steps.commit(batch(1))
    assert (written(tmp_path, 1), producer.sent) == AFTER_STEP[step]

    steps, producer = start(tmp_path)
    steps.commit(batch(1))
    for batch_id in (0, 1):
        assert written(tmp_path, batch_id) == ["share_group_state", "delivery_log"]
    assert producer.sent[-1] == SENT


@pytest.mark.parametrize("step", AFTER_STEP)
def test_a_job_without_checkpoint_completes_the_batch_from_its_outbox(tmp_path: Path, step: int) -> None:
    steps, _ = start(tmp_path)
    steps.commit(batch(0))
    steps, _ = start(tmp_path, fault_point=dies_after(step))
    with pytest.raises(Died):
        steps.commit(batch(1))

    steps, producer = start(tmp_path, query_id="query-2")
    is_durable = step > 1
    assert written(tmp_path, 1) == (["share_group_state", "delivery_log"] if is_durable else [])
    assert producer.sent == [SENT if is_durable else (["f0"], [("g", "notice-0")])]
    assert steps.positions == {0: 2 if is_durable else 1}

    steps.commit(batch(0, offset=50, position=9))  # batch ids restart, under another query id
    assert written(tmp_path, 0) == ["share_group_state"] * 2 + ["delivery_log"] * 2
    start(tmp_path, query_id="query-3")
    assert len(rows(tmp_path, "delivery_log", "batch_id")) == 3 if is_durable else 2


class Postponed:
    """A task runner that runs tasks when the test calls it."""

    def __init__(self) -> None:
        self.work: Callable[[], None] = lambda: None
        self.urgent: list[bool] = []

    def __call__(self, work: Callable[[], None], urgent: bool = False) -> None:
        self.work = work
        self.urgent.append(urgent)


def test_deferred_rows_are_written_after_the_responses_in_one_commit(tmp_path: Path) -> None:
    later = Postponed()
    steps, producer = start(tmp_path, later=later)
    for batch_id in range(3):
        steps.commit(batch(batch_id))
    assert [ids for ids, _ in producer.sent] == [["f0"], ["f1"], ["f2"]]
    assert rows(tmp_path, "delivery_log", "batch_id") == []
    before = DeltaTable(str(tmp_path / "delivery_log")).version()
    later.work()
    assert rows(tmp_path, "delivery_log", "batch_id", "time") == [
        (batch_id, datetime.fromtimestamp((T0 + batch_id) / 1000, UTC)) for batch_id in range(3)
    ]
    assert DeltaTable(str(tmp_path / "delivery_log")).version() == before + 1
    later.work()  # nothing is deferred any longer
    assert DeltaTable(str(tmp_path / "delivery_log")).version() == before + 1


def test_few_rows_may_be_put_off_and_many_are_urgent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_steps, "_MAX_CARRIED_ROWS", 2)
    later = Postponed()
    steps, _ = start(tmp_path, later=later)
    for batch_id in range(3):
        steps.commit(batch(batch_id))
    later.work()
    steps.commit(batch(3))
    assert later.urgent == [False, False, True, False]


@pytest.mark.parametrize("query_id", ["query-1", "query-2"], ids=["checkpoint kept", "checkpoint deleted"])
@pytest.mark.parametrize("is_written", [0, 1, 2])
def test_deferred_rows_of_a_dead_job_are_written_by_the_next(tmp_path: Path, query_id: str, is_written: int) -> None:
    """Its thread had written nothing, the first batch, or everything that was deferred when the last batch began."""
    later = Postponed()
    steps, _ = start(tmp_path, later=later)
    for batch_id in range(3):
        if batch_id == is_written:
            later.work()
        steps.commit(batch(batch_id))
    steps, _ = start(tmp_path, query_id=query_id)
    assert rows(tmp_path, "delivery_log", "batch_id", "leader_epoch") == [(batch_id, 1) for batch_id in range(3)]
    if query_id == "query-1":
        steps.commit(batch(2))  # Spark runs the last batch again
    assert len(rows(tmp_path, "delivery_log", "batch_id")) == 3


def test_batches_wait_when_too_many_rows_of_a_log_are_deferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_steps, "_MAX_DEFERRED_ROWS", 1)
    steps, _ = start(tmp_path, later=Postponed())
    steps.commit(batch(0))
    assert rows(tmp_path, "delivery_log", "batch_id") == []
    steps.commit(batch(1))
    assert rows(tmp_path, "delivery_log", "batch_id") == [(0,), (1,)]


def test_a_fenced_writer_writes_nothing_later(tmp_path: Path) -> None:
    later = Postponed()
    steps, _ = start(tmp_path, later=later)
    steps.commit(batch(0))
    start(tmp_path)
    with pytest.raises(FencedLeaderError):
        later.work()
    assert rows(tmp_path, "delivery_log", "batch_id") == [(0,)], "the row is the new leader's"


def test_positions_of_all_request_partitions_are_kept(tmp_path: Path) -> None:
    steps, _ = start(tmp_path)
    steps.commit(Batch(0, T0, positions={0: 5, 1: 3}))
    steps.commit(Batch(1, T0, positions={1: 4, 11: 1}))
    steps, _ = start(tmp_path)
    assert steps.positions == {0: 5, 1: 4, 11: 1}
    assert (steps.last_info or {})["batch_id"] == 1


def test_leader_epochs_rise_with_each_start(tmp_path: Path) -> None:
    assert [start(tmp_path)[0].leader_epoch for _ in range(3)] == [1, 2, 3]


def test_a_new_leader_fences_the_old_one_before_it_sends_anything(tmp_path: Path) -> None:
    old, old_producer = start(tmp_path)
    old.commit(batch(0))
    new, _ = start(tmp_path)
    old_producer.sent.clear()
    for _ in range(2):  # a fenced writer stays fenced
        with pytest.raises(FencedLeaderError, match="own leader epoch: 1; now in the table: leader epoch 2"):
            old.commit(batch(1))
    assert old_producer.sent == []
    new.commit(batch(1))
    assert written(tmp_path, 1) == ["share_group_state", "delivery_log"]


def test_a_commit_whose_response_was_lost_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store has the commit, and reports for the retry that the version exists already."""
    write = delta_table.write_deltalake

    def lose_the_answer(table: DeltaTable, *args: Any, **options: Any) -> None:
        write(DeltaTable(table.table_uri), *args, **options)
        raise CommitFailedError("this version is there already")

    with monkeypatch.context() as patch:
        patch.setattr(delta_table, "write_deltalake", lose_the_answer)
        steps, producer = start(tmp_path)
        steps.commit(batch(0))
    steps.commit(batch(1))
    assert [written(tmp_path, batch_id) for batch_id in (0, 1)] == [["share_group_state", "delivery_log"]] * 2
    assert producer.sent == [(["f0"], [("g", "notice-0")]), SENT]


def test_another_leader_s_commit_of_the_same_batch_is_not_ours(tmp_path: Path) -> None:
    """Both leaders have epoch 1 and the same checkpoint."""
    old, _ = start(tmp_path)
    other = DeltaTableWriter(str(tmp_path), SHARE_GROUP_STATE)
    other.commit("query-1", 0, lambda: Write(()))
    with pytest.raises(FencedLeaderError, match="own leader epoch: 1; now in the table: leader epoch 1"):
        old.commit(batch(0))


def test_a_store_that_fails_fences_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, _ = start(tmp_path)

    def fail(*args: Any, **options: Any) -> None:
        raise CommitFailedError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(delta_table, "write_deltalake", fail)
        with pytest.raises(NotCommittedError, match="no space left"):
            steps.commit(batch(0))
    steps.commit(batch(0))
    assert written(tmp_path, 0) == ["share_group_state", "delivery_log"]


def test_upkeep_bounds_the_files_and_keeps_what_a_restart_needs(tmp_path: Path) -> None:
    steps, _ = start(tmp_path)
    for batch_id in range(8):
        steps.commit(batch(batch_id, offset=batch_id))
    before = [rows(tmp_path, table, "batch_id", "time") for table in ("share_group_state", "delivery_log")]
    UpkeepOf(tmp_path).run(steps)
    for writer in steps.writers:
        assert len(DeltaTable(str(tmp_path / writer.spec.name)).file_uris()) == 1
    assert [rows(tmp_path, table, "batch_id", "time") for table in ("share_group_state", "delivery_log")] == before
    steps.commit(batch(8))  # the writer keeps its handle

    steps, producer = start(tmp_path)
    assert (steps.positions, producer.sent) == ({0: 9}, [(["f8"], [("g", "notice-8")])])
    assert steps.writers[0].newest_batch("query-1") == 8


def test_upkeep_keeps_versions_for_the_given_time(tmp_path: Path) -> None:
    steps, _ = start(tmp_path)
    steps.commit(batch(0))
    kept = DeltaTable(str(tmp_path / "delivery_log")).version()
    steps.commit(batch(1))
    UpkeepOf(tmp_path).run(steps, timedelta(days=7))
    three_days_ago = (datetime.now(UTC) - timedelta(days=3)).timestamp()
    for path in (tmp_path / "delivery_log").rglob("*"):
        os.utime(path, (three_days_ago, three_days_ago))
    version = steps.writers[1].version
    UpkeepOf(tmp_path).run(steps, timedelta(days=7))
    assert DeltaTable(str(tmp_path / "delivery_log"), version=kept).to_pyarrow_table().num_rows == 1
    assert steps.writers[1].version == version  # the property is set once, and nothing else was due
    UpkeepOf(tmp_path).run(steps)
    with pytest.raises(DeltaError):
        DeltaTable(str(tmp_path / "delivery_log"), version=kept)


def test_upkeep_keeps_the_given_number_of_local_versions(tmp_path: Path) -> None:
    steps, _ = start(tmp_path)
    upkeep = UpkeepOf(tmp_path)
    for batch_id in range(12):
        steps.commit(batch(batch_id))
        upkeep.run(steps, timedelta(days=7), 5)
    oldest, newest = oldest_version(tmp_path), DeltaTable(str(tmp_path / "delivery_log")).version()
    assert 0 < oldest <= newest - 5


def oldest_version(root: Path) -> int:
    return min(int(path.stem) for path in (root / "delivery_log" / "_delta_log").glob("*.json"))


def test_upkeep_alone_leaves_the_last_batch_to_be_found(tmp_path: Path) -> None:
    """The newest commits are then those of the upkeep."""
    steps, _ = start(tmp_path)
    for batch_id in range(3):
        steps.commit(batch(batch_id))
    UpkeepOf(tmp_path).run(steps, prune_before={"delivery_log": "day < '2000-01-01'"})
    steps, producer = start(tmp_path)
    assert (steps.positions, producer.sent) == ({0: 3}, [(["f2"], [("g", "notice-2")])])


def test_upkeep_prunes_old_days(tmp_path: Path) -> None:
    steps, _ = start(tmp_path)
    old, new = batch(0), batch(1)
    old.now_ms -= 3 * 86_400_000
    for each in (old, new):
        steps.commit(each)
    UpkeepOf(tmp_path).run(steps, prune_before={"delivery_log": "day < '2023-11-14'"})
    assert (written(tmp_path, 0), written(tmp_path, 1)) == (
        ["share_group_state"],
        ["share_group_state", "delivery_log"],
    )


# -- the coordinator's tables of current state -------------------------------------------------------------------------


def joined(batch_id: int, member_id: str, leaves: bool = False) -> Batch:
    """Return a batch in which a member joins, or leaves, a group with one share-partition."""
    member = {
        "group_id": "g",
        "member_id": member_id,
        "member_epoch": batch_id + 1,
        "rack_id": None,
        "client_id": "c",
        "client_host": "/127.0.0.1",
        "subscribed_topic_names": ["orders"],
        "assignment": [{"topic": "orders", "topic_id": TOPIC_ID, "partitions": [0]}],
    }
    group = {
        "group_id": "g",
        "group_epoch": batch_id + 1,
        "assignment_epoch": batch_id + 1,
        "group_state": "Stable",
    }
    partition = {
        "group_id": "g",
        "topic": "orders",
        "topic_id": TOPIC_ID,
        "partition": 0,
        "status": "initializing",
        "state_epoch": 1,
        "start_offset": -1,
        "auto_offset_reset": "earliest",
    }
    tables = {
        "share_groups": [group],
        "share_group_members": [member | {"_deleted": True} if leaves else member],
        "share_partitions": [partition],
    }
    return Batch(batch_id, T0 + batch_id, tables, [{"id": f"h{batch_id}", "reply_to": "me"}], positions={0: batch_id})


def members(root: Path) -> list[tuple[str, int]]:
    return rows(root, "share_group_members", "member_id", "member_epoch")  # type: ignore[return-value]


def test_current_rows_are_put_and_taken_away(tmp_path: Path) -> None:
    steps, _ = start(tmp_path, specs=GROUP_COORDINATOR_TABLES)
    steps.commit(joined(0, "m1"))
    steps.commit(joined(1, "m2"))
    assert members(tmp_path) == [("m1", 1), ("m2", 2)]
    steps.commit(joined(2, "m1"))
    steps.commit(joined(3, "m2", leaves=True))
    steps.commit(joined(4, "m3", leaves=True))  # a member that was never there
    assert members(tmp_path) == [("m1", 3)]
    steps, _ = start(tmp_path, specs=GROUP_COORDINATOR_TABLES)
    steps.commit(joined(5, "m4"))
    assert members(tmp_path) == [("m1", 3), ("m4", 6)]
    assert rows(tmp_path, "share_groups", "group_epoch") == [(6,)]
    assert len(rows(tmp_path, "share_partitions", "topic")) == 1


def test_current_rows_of_the_old_leader_s_last_batch_stay(tmp_path: Path) -> None:
    """The row was committed after the new leader had opened its tables, and before it led them."""
    old, _ = start(tmp_path, specs=GROUP_COORDINATOR_TABLES)
    writers = [DeltaTableWriter(str(tmp_path), spec) for spec in GROUP_COORDINATOR_TABLES]
    new = CommitSteps(writers, RecordingProducer())
    old.commit(joined(0, "m1"))
    new.become_leader(2)
    new.query_id = "query-2"
    new.commit(joined(0, "m2"))
    assert members(tmp_path) == [("m1", 1), ("m2", 1)]


def test_rows_that_did_not_change_keep_their_time(tmp_path: Path) -> None:
    steps, _ = start(tmp_path, specs=GROUP_COORDINATOR_TABLES)
    steps.commit(joined(0, "m1"))
    steps, _ = start(tmp_path, specs=GROUP_COORDINATOR_TABLES)
    steps.commit(joined(1, "m2"))
    times = rows(tmp_path, "share_group_members", "member_id", "time")
    assert [(member, round(time.timestamp() * 1000) - T0) for member, time in times] == [("m1", 0), ("m2", 1)]


def test_a_crash_between_the_coordinators_tables_is_completed(tmp_path: Path) -> None:
    steps, _ = start(tmp_path, specs=GROUP_COORDINATOR_TABLES)
    steps.commit(joined(0, "m1"))
    steps, _ = start(tmp_path, specs=GROUP_COORDINATOR_TABLES, fault_point=dies_after(2))
    with pytest.raises(Died):
        steps.commit(joined(1, "m2"))
    assert members(tmp_path) == [("m1", 1)]
    _, producer = start(tmp_path, query_id="query-2", specs=GROUP_COORDINATOR_TABLES)
    assert members(tmp_path) == [("m1", 1), ("m2", 2)]
    assert producer.sent == [(["h1"], [])]


def test_a_new_leader_fences_the_writer_of_current_rows(tmp_path: Path) -> None:
    old, _ = start(tmp_path, specs=GROUP_COORDINATOR_TABLES)
    old.commit(joined(0, "m1"))
    start(tmp_path, specs=GROUP_COORDINATOR_TABLES)
    with pytest.raises(FencedLeaderError, match="share_groups"):
        old.commit(joined(1, "m2"))
    assert members(tmp_path) == [("m1", 1)]


# -- merging the outputs of all keys -----------------------------------------------------------------------------------


def test_outputs_are_merged_in_the_order_of_their_keys() -> None:
    first = Output(
        "a",
        T0,
        tables={"t": [{"n": 1}]},
        responses=[{"id": "x"}],
        requests=[("k", "v")],
        rejected=[(0, 1, "bad")],
        notes=["first"],
        positions={0: 5, 1: 2},
        deadline_ms=7,
        reservers=["g1"],
        leases={"g1": 9, "g2": 5},
        waiting=True,
    )
    second = Output(
        "b", T0 + 1, {"t": [{"n": 2}]}, [{"id": "y"}], notes=["second"], positions={0: 4}, deadline_ms=None,
        leases={"g1": 8},
    )  # fmt: skip
    first, second = (Output.decode(output.encode()) for output in (first, second))
    merged = [Batch.from_outputs(3, outputs) for outputs in ([first, second], [second, first])]
    assert merged[0] == merged[1]
    assert merged[0] == Batch(
        3,
        T0 + 1,
        tables={"t": [{"n": 1}, {"n": 2}]},
        responses=[{"id": "x"}, {"id": "y"}],
        requests=[("k", "v")],
        rejected=[[0, 1, "bad"]],  # type: ignore[list-item]  # JSON has no tuples
        notes=["first", "second"],
        positions={0: 5, 1: 2},
        deadlines={"a": 7, "b": None},
        waiting={"a": True, "b": False},
        reservers={"a": ["g1"], "b": []},
        leases={"g1": 9, "g2": 5},
    )
