"""The base and the records after it equal all records, wherever the base ends."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.core.share_coordinator.durable_rows import state_row, tombstone_row
from sharegroup.core.share_coordinator.records import RecordKind, ShareGroupStateRecord
from sharegroup.core.share_coordinator.state_batch_combiner import combine_batches
from sharegroup.job.commit.table_rows import stamp_rows
from sharegroup.storage.reading.state_base import StateBases, cut_of
from sharegroup.storage.reading.state_table import fold_states, read_states
from sharegroup.storage.schemas import SHARE_GROUP_STATE, SHARE_GROUP_STATE_BASE, table_path
from sharegroup.storage.upkeep import state_base_upkeep
from sharegroup.storage.upkeep.state_base_upkeep import StateBaseUpkeep, make_base
from sharegroup.storage.writing.delta_table import DeltaVersions
from sharegroup.storage.writing.versioned_table import Upkeep
from sharegroup.types import SharePartitionKey, StateBatch
from tests.tables.job_tables import T0, batch, start
from tests.unit.core.share_coordinator.state_batch_strategies import our_batches

KEYS = [SharePartitionKey("g", "orders", "orders-1", partition) for partition in (0, 1)]
KEYS.append(SharePartitionKey("h", "orders", "orders-1", 0))
KINDS = [RecordKind.UPDATE, RecordKind.UPDATE, RecordKind.SNAPSHOT, RecordKind.TOMBSTONE]
UPKEEP = Upkeep(timedelta(hours=24), 1_000)
SCHEMA = SHARE_GROUP_STATE.schema
NO_BASE = SHARE_GROUP_STATE_BASE.schema.empty_table()


class History:
    """Records as a job writes them: a snapshot first, updates with its epoch, a tombstone, and again from the start.

    Between two snapshots the start offset never decreases.
    """

    def __init__(self) -> None:
        self._epochs: dict[SharePartitionKey, int] = {}
        self._starts: dict[SharePartitionKey, int] = {}

    def row(
        self, key: SharePartitionKey, kind: RecordKind, start: int, batches: Sequence[StateBatch]
    ) -> dict[str, Any]:
        if kind is RecordKind.TOMBSTONE:
            self._epochs.pop(key, None)
            return tombstone_row(key)
        if key not in self._epochs:
            kind = RecordKind.SNAPSHOT
        epoch = self._epochs[key] = self._epochs.get(key, -1) + (kind is RecordKind.SNAPSHOT)
        if kind is RecordKind.UPDATE and start != -1:
            start = max(start, self._starts[key])
        if kind is RecordKind.SNAPSHOT or start != -1:
            self._starts[key] = start
        state_epoch = epoch if kind is RecordKind.SNAPSHOT else -1
        record = ShareGroupStateRecord(kind, key, epoch, state_epoch, 0, start, start, combine_batches(batches))
        return {**key._asdict(), **state_row(record, start + 40)}


@st.composite
def histories(draw: st.DrawFn) -> list[pa.Table]:
    """Return what some batches append, in order."""
    history, leader_epoch, appended = History(), 1, []
    for batch_id in range(draw(st.integers(1, 12))):
        leader_epoch += draw(st.sampled_from([0, 0, 0, 1]))
        rows = [
            history.row(
                key,
                draw(
                    st.sampled_from([RecordKind.UPDATE, RecordKind.UPDATE, RecordKind.SNAPSHOT, RecordKind.TOMBSTONE])
                ),
                draw(st.sampled_from([-1, 0, 5, 11])),
                draw(st.lists(our_batches(), max_size=3)),
            )
            for key in draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=3))
        ]
        stamped = stamp_rows(rows, leader_epoch=leader_epoch, batch_id=batch_id, now_ms=T0 + 7_200_000 * batch_id)
        appended.append(pa.Table.from_pylist(stamped, schema=SCHEMA))
    return appended


@given(histories(), st.lists(st.integers(0, 12), max_size=4))
def test_a_base_and_the_later_records_equal_all_records(appended: list[pa.Table], cuts: list[int]) -> None:
    base, at = NO_BASE, 0
    for low, high in pairwise([0, *sorted(cuts)]):
        rows = pa.concat_tables([SCHEMA.empty_table(), *reversed(appended[low:high])])
        if len(rows):
            base, at = make_base(base, rows, high), high
    later = pa.concat_tables([SCHEMA.empty_table(), *reversed(appended[at:])])
    everything = pa.concat_tables(appended)
    assert fold_states(later, base) == fold_states(everything)
    if len(everything) and len(later):
        assert make_base(base, later, 99).equals(make_base(NO_BASE, everything, 99))


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[Path]:
    """Return a job's tables after 12 batches, with bases for some versions."""
    steps, _ = start(tmp_path)
    bases, state = StateBaseUpkeep(str(tmp_path), None, 3), DeltaVersions(str(tmp_path), SHARE_GROUP_STATE)
    for batch_id in range(12):
        steps.commit(batch(batch_id, offset=batch_id))
        state.refresh()
        bases.run(state.handle, UPKEEP)
    return tmp_path


def state_table(root: Path, version: int | None = None) -> DeltaTable:
    return DeltaTable(table_path(str(root), SHARE_GROUP_STATE), version=version)


def bases_of(root: Path) -> StateBases:
    return StateBases(table_path(str(root), SHARE_GROUP_STATE_BASE))


def test_each_version_has_its_base(tables: Path) -> None:
    bases, used = bases_of(tables), set()
    for version in range(state_table(tables).version() + 1):
        base, state = bases.at_most(version), state_table(tables, version)
        cut = None if base is None else cut_of(base)
        assert cut is None or cut.version <= version
        used.add(cut)
        assert read_states(state, None, base) == read_states(state)
        assert read_states(state, ["g"], base) == read_states(state)
        assert read_states(state, ["another"], base) == {}
    assert len(used) == 5, "none before the first batch, then one after each three records"


def test_a_base_is_written_after_enough_new_records(tables: Path) -> None:
    bases, state = StateBaseUpkeep(str(tables), None, 3), DeltaVersions(str(tables), SHARE_GROUP_STATE)
    version = bases.run(state.handle, UPKEEP).version()
    assert bases.run(state.handle, UPKEEP).version() == version
    steps, _ = start(tables)
    for batch_id in range(12, 15):
        steps.commit(batch(batch_id, offset=batch_id))
    state.refresh()
    after = cut_of(bases.run(state.handle, UPKEEP))
    assert after is not None
    assert (after.version, after.leader_epoch, after.batch_id) == (state.version, 2, 14)


def test_only_the_base_and_later_records_are_read(tables: Path) -> None:
    """Nothing else is opened: the files before the cut may be elsewhere, or missing."""
    expected = read_states(state_table(tables))
    base = bases_of(tables).newest()
    assert base is not None
    cut = cut_of(base)
    assert cut is not None
    files = pa.table(state_table(tables).get_add_actions(flatten=True))
    before = [path for path, newest in zip(files["path"].to_pylist(), files["max.batch_id"].to_pylist(), strict=True)
              if newest is not None and newest <= cut.batch_id]  # fmt: skip
    assert len(before) > 8
    for path in before:
        (tables / SHARE_GROUP_STATE.name / path).unlink()
    assert read_states(state_table(tables), None, base) == expected
    with pytest.raises(OSError, match=r"parquet"):
        read_states(state_table(tables))


def test_a_table_without_a_base_is_read_whole(tmp_path: Path) -> None:
    steps, _ = start(tmp_path)
    steps.commit(batch(0))
    assert bases_of(tmp_path).at_most(99) is None
    assert len(read_states(state_table(tmp_path), None, bases_of(tmp_path).newest())) == 1


def test_many_records_are_folded_in_portions(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_base_upkeep, "_PORTION_RECORDS", 4)
    again = tables / "again"
    shutil.copytree(tables / SHARE_GROUP_STATE.name, again / SHARE_GROUP_STATE.name)
    state = state_table(again)
    in_portions = StateBaseUpkeep(str(again)).run(state, UPKEEP)
    assert read_states(state, None, in_portions) == read_states(state)
    at_once = make_base(NO_BASE, state.to_pyarrow_table(), state.version())
    assert in_portions.to_pyarrow_table().equals(at_once)


def test_a_base_may_end_without_a_share_partition(tmp_path: Path) -> None:
    steps, _ = start(tmp_path)
    steps.commit(batch(0))
    bases, state = StateBaseUpkeep(str(tmp_path), None, 1), DeltaVersions(str(tmp_path), SHARE_GROUP_STATE)
    (key,) = read_states(state_table(tmp_path))
    bases.run(state.handle, UPKEEP)
    deleted = batch(1)
    deleted.tables = {SHARE_GROUP_STATE.name: [tombstone_row(key)]}
    steps.commit(deleted)
    state.refresh()
    base = bases.run(state.handle, UPKEEP)
    cut = cut_of(base)
    assert cut is not None
    assert cut.batch_id == 1
    assert read_states(state_table(tmp_path), None, base) == {}
