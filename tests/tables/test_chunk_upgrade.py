"""Tables of current state from before they had chunks: upgraded once wherever the job dies, and read in both forms."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sharegroup.commit.commit_steps import CommitSteps
from sharegroup.commit.current_rows import CHUNK_ROWS
from sharegroup.commit.table_upgrade import refuse_older_checkpoints, upgrade_tables
from sharegroup.commit.upgraded_rows import newest_info
from sharegroup.errors import FencedLeaderError
from sharegroup.tables import KeptTables, read_group, read_group_configs, read_groups
from sharegroup.tables.config_poll import ConfigPoll
from sharegroup.tables.pinned_groups import PinnedGroups
from sharegroup.tables.rows_by_file import DeltaFiles, RowsByFile
from sharegroup.tables.schemas import (
    ALL_TABLES,
    GROUP_COORDINATOR_TABLES,
    SHARE_GROUP_MEMBERS,
    SHARE_PARTITIONS,
    TableSpec,
    table_path,
)
from sharegroup.testkit.table_sql import query
from tests.tables.group_batches import COUNT, batch, gone, group, partition
from tests.tables.job_tables import T0, Died, dies_after, start
from tests.tables.upgrade_commits import UpgradeCommits, die
from tests.tables.whole_tables import WHOLE_GROUP_TABLES, whole_table_writer

LOCK = "share.record.lock.duration.ms"
CONFIG = {"group_id": "g0", "config_name": LOCK, "config_value": "2000", "config_source": "DYNAMIC_GROUP_CONFIG"}
MEMBER = {
    "group_id": "g0",
    "member_id": "m",
    "member_epoch": 1,
    "client_id": "c",
    "client_host": "/10.0.0.1",
    "subscribed_topic_names": ["t"],
    "assignment": [{"topic": "t", "topic_id": "id-again", "partitions": [0]}],
}
#: One is being deleted whose topic was made again: the two have one name.
AGAIN = {**partition(0), "topic_id": "id-again", "state_epoch": 2}
FIRST, SECOND, OWED = (
    batch(0, [*map(partition, range(COUNT)), AGAIN], [group("g0"), group("g1")]),
    batch(1, [{**partition(0), "status": "deleting"}], [group("g1")]),
    batch(2, [gone(5), partition(COUNT), {**partition(7), "status": "deleting"}], [group("g2")]),
)
FIRST.tables |= {"share_group_members": [MEMBER], "share_group_configs": [CONFIG]}


def job_of_before(root: Path, dies: Callable[[int, int], None] | None = None) -> CommitSteps:
    return start(root, "groups-1", WHOLE_GROUP_TABLES, dies, whole_table_writer)[0]


def prepare(root: Path) -> None:
    upgrade_tables(str(root), T0)


def table(root: Path, spec: TableSpec) -> DeltaTable:
    return DeltaTable(table_path(str(root), spec))


def rows(root: Path, spec: TableSpec) -> list[str]:
    found = table(root, spec).to_pyarrow_table().to_pylist()
    return sorted(repr({name: value for name, value in row.items() if name != "chunk"}) for row in found)


def content(root: Path) -> dict[str, list[str]]:
    return {spec.name: rows(root, spec) for spec in GROUP_COORDINATOR_TABLES}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of the job of before, which every test has a copy of."""
    root = tmp_path_factory.mktemp("written") / "tables"
    prepare(root)  # makes those that the test does not write
    for spec in GROUP_COORDINATOR_TABLES:
        shutil.rmtree(table_path(str(root), spec))
    steps = job_of_before(root)
    steps.commit(FIRST)
    steps.commit(SECOND)
    return root


@pytest.fixture
def earlier(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "earlier"))


def test_the_rows_are_what_they_were_in_chunks(written: Path, earlier: Path) -> None:
    infos = [newest_info(table(earlier, spec)) for spec in ALL_TABLES]
    prepare(earlier)
    assert content(earlier) == content(written)
    assert [newest_info(table(earlier, spec)) for spec in ALL_TABLES] == infos
    for spec in GROUP_COORDINATOR_TABLES:
        assert table(earlier, spec).metadata().partition_columns == ["chunk"]
        schema = pa.schema(table(earlier, spec).schema())
        assert [(field.name, field.metadata) for field in schema] == [(f.name, f.metadata) for f in spec.schema]
    chunks = table(earlier, SHARE_PARTITIONS).to_pyarrow_table()["chunk"].value_counts().to_pylist()
    assert {each["values"]: each["counts"] for each in chunks} == {
        0: CHUNK_ROWS,
        1: CHUNK_ROWS,
        2: COUNT + 1 - 2 * CHUNK_ROWS,
    }
    versions = [table(earlier, spec).version() for spec in ALL_TABLES]
    prepare(earlier)
    assert [table(earlier, spec).version() for spec in ALL_TABLES] == versions


@pytest.mark.parametrize("is_upgraded", [False, True])
def test_both_forms_are_read(earlier: Path, is_upgraded: bool) -> None:
    if is_upgraded:
        prepare(earlier)
    root = str(earlier)
    for tables in (root, KeptTables(root)):
        assert [listing.group_id for listing in read_groups(tables)] == ["g0", "g1"]
        assert read_group_configs(tables) == {"g0": {LOCK: "2000"}}
        found = read_group(tables, "g0")
        assert found is not None
        assert found.members[0].assignment == {"t": ("id-again", (0,))}
        assert [(row.partition, row.topic_id) for row in found.share_partitions[:2]] == [(0, "id-again"), (1, "id-t")]
    listed = RowsByFile(SHARE_PARTITIONS)
    listed.go_to(DeltaFiles(table(earlier, SHARE_PARTITIONS), SHARE_PARTITIONS))
    assert len(listed.rows) == COUNT + 1
    poll = ConfigPoll({"group": {"group.share.min.record.lock.duration.ms": 1_000}}, root, {})
    assert poll.in_force(T0)["g0"]["record_lock_duration_ms"] == 2_000
    pinned = PinnedGroups({spec.name: table_path(root, spec) for spec in GROUP_COORDINATOR_TABLES}, {})
    groups = pinned.groups(pinned.newest_versions())
    assert groups["g0"]["share_group_members"] == [
        {**MEMBER, "rack_id": None, "group_instance_id": None, "incarnation_id": None}
    ]
    assert sum(len(of_group.get("share_partitions", ())) for of_group in groups.values()) == COUNT + 1
    counted = query(root, "SELECT count(*) AS n FROM share_partitions WHERE status = 'deleting'").to_pylist()
    assert counted == [{"n": 1}]


def test_a_reader_goes_on_over_the_upgrade(earlier: Path) -> None:
    kept, listed = KeptTables(str(earlier)), RowsByFile(SHARE_PARTITIONS)
    for _ in range(2):
        assert read_group(kept, "g0") == read_group(str(earlier), "g0")
        change = listed.go_to(DeltaFiles(table(earlier, SHARE_PARTITIONS), SHARE_PARTITIONS))
        prepare(earlier)
    assert not change


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Iterator[UpgradeCommits]:
    made = UpgradeCommits(monkeypatch)
    yield made
    assert made.count >= 8


@pytest.mark.parametrize("dies_before", range(1, 9))
def test_wherever_it_dies_it_is_done_once(
    earlier: Path, written: Path, commits: UpgradeCommits, dies_before: int
) -> None:
    commits.before(dies_before, die)
    with pytest.raises(Died):
        prepare(earlier)
    prepare(earlier)
    assert content(earlier) == content(written)


@pytest.mark.parametrize("at_commit", range(1, 9))
def test_of_two_jobs_one_does_it(earlier: Path, written: Path, commits: UpgradeCommits, at_commit: int) -> None:
    commits.before(at_commit, lambda: prepare(earlier))
    prepare(earlier)
    assert content(earlier) == content(written)
    assert len(table(earlier, SHARE_PARTITIONS).file_uris()) == 3


def test_the_job_of_before_is_fenced(tmp_path: Path) -> None:
    before = job_of_before(tmp_path)
    before.commit(FIRST)
    prepare(tmp_path)
    with pytest.raises(FencedLeaderError, match="share_groups"):
        before.commit(SECOND)


def test_a_checkpoint_stays_good(earlier: Path) -> None:
    """The rows are the same, so what the checkpoint has goes with them: the batch after the last is the next."""
    refuse_older_checkpoints(str(earlier), ["checkpoint"], lambda checkpoint: True)
    prepare(earlier)
    steps, _ = start(earlier, "groups-1", GROUP_COORDINATOR_TABLES)
    before = content(earlier)
    steps.commit(SECOND)
    assert content(earlier) == before
    steps.commit(OWED)
    expected = job_of_before_that_goes_on(earlier.parent / "other")
    assert content(earlier) == content(expected)


@pytest.mark.parametrize("dies_after_step", [2, 3])
def test_what_the_job_of_before_owed_comes_once(tmp_path: Path, earlier: Path, dies_after_step: int) -> None:
    """It dies in its last batch; the job after it has its checkpoint, and runs the batch again."""
    steps = job_of_before(earlier, dies_after(dies_after_step))
    with pytest.raises(Died):
        steps.commit(OWED)
    prepare(earlier)
    steps, _ = start(earlier, "groups-1", GROUP_COORDINATOR_TABLES)
    steps.commit(OWED)
    assert content(earlier) == content(job_of_before_that_goes_on(tmp_path / "other"))
    assert "id-again" in repr(rows(earlier, SHARE_GROUP_MEMBERS))


def job_of_before_that_goes_on(root: Path) -> Path:
    steps = job_of_before(root)
    for each in (FIRST, SECOND, OWED):
        steps.commit(each)
    return root
