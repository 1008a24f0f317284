"""Tables of the version before topics had identities, upgraded once wherever the job dies."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from sharegroup.commit import table_upgrade
from sharegroup.commit.commit_steps import Batch
from sharegroup.commit.retention import prunable_state
from sharegroup.commit.state_base_upkeep import StateBaseUpkeep
from sharegroup.commit.table_upgrade import OlderCheckpointError, refuse_older_checkpoints, upgrade_tables
from sharegroup.commit.upgraded_rows import newest_info
from sharegroup.commit.versioned_table import Upkeep, Write
from sharegroup.errors import FencedLeaderError
from sharegroup.tables import TableUnavailableError, read_group, read_offsets_by_group, read_share_group_offsets
from sharegroup.tables.schemas import (
    ALL_TABLES,
    DELIVERY_LOG,
    GROUP_COORDINATOR_TABLES,
    SHARE_GROUP_STATE,
    SHARE_GROUP_STATE_BASE,
    SHARE_PARTITION_TABLES,
    SHARE_PARTITIONS,
    TableSpec,
    table_path,
)
from sharegroup.tables.state_table import read_states
from tests.tables.earlier_tables import (
    BILLS,
    END_OFFSETS,
    LISTED,
    ORDERS,
    ORDERS_1,
    last_group_batch,
    states,
    write_earlier_tables,
)
from tests.tables.job_tables import T0, Died, dies_after, start
from tests.tables.upgrade_commits import UpgradeCommits, die

DAY_MS = 86_400_000
NOW_MS = T0 + DAY_MS


def prepare(root: Path) -> None:
    upgrade_tables(str(root), NOW_MS)


def table(root: Path, spec: TableSpec) -> DeltaTable:
    return DeltaTable(table_path(str(root), spec))


def rows(root: Path, spec: TableSpec) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table(root, spec).to_pyarrow_table().to_pylist()
    return found


def carried_over(root: Path) -> list[dict[str, Any]]:
    return [row for row in rows(root, SHARE_GROUP_STATE) if row["topic_id"] is not None]


def without_age(found: dict[Any, Any]) -> dict[Any, Any]:
    """States without what an upgrade begins anew: when the last snapshot was, and what came after it."""
    return {
        key: state._replace(header=state.header._replace(last_snapshot_ms=0, updates_since_snapshot=0))
        for key, state in found.items()
    }


def content(root: Path) -> dict[str, Any]:
    """All rows of all tables, in an order of their own."""
    return {spec.name: sorted(map(repr, rows(root, spec))) for spec in ALL_TABLES}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of the version before, which every test has a copy of."""
    root = tmp_path_factory.mktemp("written") / "tables"
    write_earlier_tables(root)
    return root


@pytest.fixture
def earlier(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "earlier"))


@pytest.fixture(scope="module")
def upgraded(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What they are after an upgrade in which nothing happens; for reading only."""
    root = Path(shutil.copytree(written, tmp_path_factory.mktemp("upgraded") / "tables"))
    prepare(root)
    return root


def test_the_states_are_what_they_were_under_their_topic_ids(upgraded: Path) -> None:
    read = read_states(table(upgraded, SHARE_GROUP_STATE))
    assert without_age(read) == without_age(states())
    assert {state.header.last_snapshot_ms for state in read.values()} == {NOW_MS}
    assert len(carried_over(upgraded)) == len(states())
    for row in carried_over(upgraded):
        key = next(key for key in LISTED if (row["group_id"], row["topic"]) == key[:2] and row["partition"] == key[3])
        assert (row["topic_id"], row["end_offset"]) == (key.topic_id, END_OFFSETS[key])
        assert (row["record_type"], row["batch_id"]) == ("ShareSnapshot", -1)


def test_history_and_columns_stay_as_they_were(written: Path, upgraded: Path) -> None:
    before = {spec.name: table(written, spec).to_pyarrow_table() for spec in (SHARE_GROUP_STATE, DELIVERY_LOG)}
    for spec in (SHARE_GROUP_STATE, DELIVERY_LOG):
        after = table(upgraded, spec).to_pyarrow_table()
        history = after.filter(pc.is_null(after["topic_id"])).select(before[spec.name].column_names)
        key = [
            ("leader_epoch", "ascending"),
            ("batch_id", "ascending"),
            ("group_id", "ascending"),
            ("topic", "ascending"),
        ]
        assert history.sort_by(key).to_pylist() == before[spec.name].sort_by(key).to_pylist()
        assert table(upgraded, spec).metadata().partition_columns == ["day"]
    for spec in ALL_TABLES:
        assert spec.missing_columns(pa.schema(table(upgraded, spec).schema())) == ()


def test_groups_and_offsets_are_read_as_before(written: Path, upgraded: Path) -> None:
    with pytest.raises(TableUnavailableError, match="share_partitions was written by an earlier version"):
        read_share_group_offsets(str(written), "g")
    offsets = read_offsets_by_group(str(upgraded), ["g", "h"])
    assert [tuple(row) for row in offsets["g"]] == [
        ("bills", "id-bills", 0, 100, 2, 0, 1),
        ("orders", "id-orders", 0, 10, 2, 2, 1),
        ("orders", "id-orders", 1, -1, -1, -1, 3),  # to be initialized under the next epoch
    ]
    assert [tuple(row) for row in offsets["h"]] == [
        ("bills", "id-bills", 0, 9, 2, 0, 1),
        ("orders", "id-orders", 0, 0, 2, 1, 1),
    ]
    group = read_group(str(upgraded), "g")
    assert group is not None
    assert group.members[0].assignment == {
        "bills": ("id-bills", (0,)),
        "gone": ("", (0,)),
        "orders": ("id-orders", (0, 1)),
    }
    assert group.topic_ids == {"bills": "id-bills", "orders": "id-orders"}


def test_it_is_done_once(upgraded: Path) -> None:
    versions = [table(upgraded, spec).version() for spec in ALL_TABLES]
    prepare(upgraded)
    assert [table(upgraded, spec).version() for spec in ALL_TABLES] == versions


def test_tables_that_are_missing_are_made(tmp_path: Path) -> None:
    refuse_older_checkpoints(str(tmp_path), ["checkpoint"], lambda _: True)
    upgrade_tables(str(tmp_path), NOW_MS)
    assert [table(tmp_path, spec).version() for spec in ALL_TABLES] == [0] * len(ALL_TABLES)


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Iterator[UpgradeCommits]:
    made = UpgradeCommits(monkeypatch)
    yield made
    assert made.count


@pytest.mark.parametrize("dies_before", range(1, 13))
def test_wherever_it_dies_it_is_done_once(
    earlier: Path, upgraded: Path, commits: UpgradeCommits, dies_before: int
) -> None:
    commits.before(dies_before, die)
    with pytest.raises(Died):
        prepare(earlier)
    prepare(earlier)
    assert content(earlier) == content(upgraded)


@pytest.mark.parametrize("at_commit", range(1, 13))
def test_of_two_jobs_one_does_it(earlier: Path, upgraded: Path, commits: UpgradeCommits, at_commit: int) -> None:
    commits.before(at_commit, lambda: prepare(earlier))
    prepare(earlier)
    assert content(earlier) == content(upgraded)


def test_a_store_that_takes_no_commit_is_told_of(earlier: Path, commits: UpgradeCommits) -> None:
    def refuse() -> None:
        raise CommitFailedError("disk is full")

    commits.before(2, refuse)
    with pytest.raises(CommitFailedError, match="disk is full"):
        prepare(earlier)


def test_the_job_of_before_is_fenced(tmp_path: Path) -> None:
    partitions, groups = write_earlier_tables(tmp_path)
    prepare(tmp_path)
    with pytest.raises(FencedLeaderError, match="share_group_state"):
        partitions.commit(Batch(9, T0, positions={0: 99}))
    late = dataclasses.replace(last_group_batch(), batch_id=9)
    with pytest.raises(FencedLeaderError, match="share_groups"):
        groups.commit(late)


def test_a_job_that_opened_them_before_another_one_led_them_leaves_them_alone(
    earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its handles say that there is something to be done."""
    opened, led = table_upgrade._opened, []

    def open_late(*arguments: Any) -> Any:
        tables = opened(*arguments)
        monkeypatch.undo()
        prepare(earlier)
        led.extend(start(earlier, specs=specs)[0] for specs in (SHARE_PARTITION_TABLES, GROUP_COORDINATOR_TABLES))
        return tables

    monkeypatch.setattr(table_upgrade, "_opened", open_late)
    prepare(earlier)
    for steps in led:
        for writer in steps.writers:
            assert writer.commit("mine", 0, lambda: Write(()))


def test_a_checkpoint_of_before_is_refused(earlier: Path) -> None:
    checkpoints = ["/data/checkpoint/group_coordinator", "/data/checkpoint/share_partition"]
    with pytest.raises(OlderCheckpointError, match=f"{checkpoints[1]} belongs to it: remove that checkpoint"):
        refuse_older_checkpoints(str(earlier), checkpoints, lambda checkpoint: checkpoint == checkpoints[1])
    prepare(earlier)
    refuse_older_checkpoints(str(earlier), checkpoints, lambda checkpoint: True)


def test_what_the_job_of_before_owed_is_put_in_by_its_own_keys(tmp_path: Path, upgraded: Path) -> None:
    """It died after its first commit of a batch that replaces a row whose topic id is another one now."""
    write_earlier_tables(tmp_path, dies_after(2))
    prepare(tmp_path)
    assert start(tmp_path, "groups-3", GROUP_COORDINATOR_TABLES)[0].positions == {0: 8}
    assert content(tmp_path) == content(upgraded)
    listed = [(row["partition"], row["topic_id"], row["status"]) for row in rows(tmp_path, SHARE_PARTITIONS)]
    assert (1, "id-orders", "initializing") in listed
    assert "id-before" not in {topic_id for _, topic_id, _ in listed}


def test_a_job_goes_on_with_upgraded_tables(earlier: Path) -> None:
    of_before = [spec for spec in ALL_TABLES if spec is not SHARE_GROUP_STATE_BASE]
    infos = [newest_info(table(earlier, spec)) for spec in of_before]
    prepare(earlier)
    assert [newest_info(table(earlier, spec)) for spec in of_before] == infos
    steps, _ = start(earlier, "partitions-3")
    assert (steps.leader_epoch, steps.positions) == (3, {0: 21})
    key = ORDERS._asdict()
    update = key | {"record_type": "ShareUpdate", "snapshot_epoch": 1, "state_epoch": -1, "start_offset": 15}
    update |= {"end_offset": 20, "delivery_complete_count": 0, "state_batches": []}
    steps.commit(Batch(0, NOW_MS + 1, {"share_group_state": [update]}, positions={0: 22}))
    read = read_states(table(earlier, SHARE_GROUP_STATE))
    assert {ORDERS, BILLS} <= set(read)
    assert read[ORDERS].header.start_offset == 15
    assert [tuple(batch) for batch in read[ORDERS].state_batches] == [(15, 19, 1, 1, "m2", T0 + 30_000)]
    groups, _ = start(earlier, "groups-3", GROUP_COORDINATOR_TABLES)
    gone = {**ORDERS_1._asdict(), "_deleted": True}
    groups.commit(Batch(0, NOW_MS + 1, {"share_partitions": [gone]}, positions={0: 9}))
    assert len(rows(earlier, SHARE_PARTITIONS)) == len(LISTED) - 1


def test_days_of_before_can_go(earlier: Path) -> None:
    prepare(earlier)
    state = table(earlier, SHARE_GROUP_STATE)
    base = StateBaseUpkeep(str(earlier)).run(state, Upkeep(timedelta(hours=24), 1_000))
    assert prunable_state(state, base, datetime(2023, 11, 20, tzinfo=UTC)) == "day < '2023-11-15'"
