"""The tables on a real S3 server, without a job: the fence, upkeep, and all that reads."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from deltalake import DeltaTable

from sharegroup.config import Config, parse_config
from sharegroup.errors import FencedLeaderError
from sharegroup.job.commit.commit_steps import CommitSteps
from sharegroup.job.lead.job_lead import JobLead
from sharegroup.spark.job.supervisor import is_outage
from sharegroup.storage import CachedTables, TableUnavailableError, read_groups, table_path
from sharegroup.storage.following.config_poll import ConfigPoll, file_values
from sharegroup.storage.following.pinned_groups import PinnedGroups
from sharegroup.storage.following.pinned_tables import PinnedTables
from sharegroup.storage.reading.in_flight import read_in_flight
from sharegroup.storage.schemas import (
    ALL_TABLES,
    GROUP_COORDINATOR_TABLES,
    SHARE_GROUP_JOB,
    SHARE_GROUP_STATE,
    SHARE_PARTITION_TABLES,
    SHARE_PARTITIONS,
)
from sharegroup.storage.upkeep.table_upkeep import TableUpkeep
from sharegroup.storage.upkeep.upkeep_process import UpkeepProcess, upkeep_settings
from sharegroup.storage.writing.delta_table import DeltaTableWriter, DeltaVersions
from sharegroup.storage.writing.fence import leader_epoch_of
from sharegroup.storage.writing.leaders import last_leader_epoch, record_leader
from sharegroup.storage.writing.versioned_table import TableStoreError, Upkeep
from sharegroup.types import SharePartitionKey
from tests.integration.s3_server import S3Server
from tests.integration.waiting import wait_until
from tests.tables.job_tables import RecordingProducer, batch

BUCKET = "tables"
RIVALS = 6


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        server.make_bucket(BUCKET)
        yield server


@pytest.fixture
def root(s3: S3Server) -> str:
    return f"s3a://{BUCKET}/{uuid.uuid4()}"


def job_that_leads(root: str, options: dict[str, str]) -> CommitSteps:
    """Of the share_partition query."""
    writers = [DeltaTableWriter(root, spec, options) for spec in SHARE_PARTITION_TABLES]
    steps = CommitSteps(writers, RecordingProducer())
    steps.become_leader()
    steps.query_id = str(uuid.uuid4())
    return steps


def test_of_jobs_that_lead_in_the_same_moment_one_does(root: str, s3: S3Server) -> None:
    led = DeltaVersions(root, SHARE_GROUP_STATE, s3.options)
    DeltaVersions(root, SHARE_GROUP_JOB, s3.options)
    begin = threading.Barrier(RIVALS)

    def lead(_: int) -> int:
        """The epoch, 0 for one that was fenced."""
        job = JobLead(DeltaTableWriter(root, SHARE_GROUP_JOB, s3.options), [led])
        begin.wait()
        try:
            return job.acquire_epoch()
        except FencedLeaderError:
            return 0

    with ThreadPoolExecutor(RIVALS) as pool:
        epochs = [epoch for epoch in pool.map(lead, range(RIVALS)) if epoch]
    assert epochs
    assert sorted(epochs) == list(range(1, len(epochs) + 1))  # no epoch was taken twice
    assert leader_epoch_of(DeltaVersions(root, SHARE_GROUP_JOB, s3.options)) == len(epochs)


def test_the_job_that_led_before_commits_no_more(root: str, s3: S3Server) -> None:
    first = job_that_leads(root, s3.options)
    first.commit(batch(0, offset=0))
    second = job_that_leads(root, s3.options)
    with pytest.raises(FencedLeaderError, match="leader epoch 2"):
        first.commit(batch(1, offset=1))
    second.commit(batch(0, offset=1))
    assert DeltaTable(table_path(root, SHARE_GROUP_STATE), storage_options=s3.options).count() == 2


def test_upkeep_has_the_options_in_its_own_process(root: str, s3: S3Server) -> None:
    steps = job_that_leads(root, s3.options)
    for batch_id in range(5):
        steps.commit(batch(batch_id, offset=batch_id))
    where = {"tables.path": root, "tables.storage.options": s3.options}
    process = UpkeepProcess(upkeep_settings(parse_config({"job": where}, "test")))
    try:
        process.request(SHARE_PARTITION_TABLES, steps.leader_epoch, int(time.time() * 1000))
        states, log = (table_path(root, spec) for spec in SHARE_PARTITION_TABLES)
        wait_until(lambda: len(DeltaTable(states, storage_options=s3.options).file_uris()) == 1, "its files are one")
        wait_until(lambda: not DeltaTable(log, storage_options=s3.options).file_uris(), "what was years old is gone")
        checkpoint = f"{log.removeprefix(f's3a://{BUCKET}/')}/_delta_log/_last_checkpoint"
        wait_until(lambda: checkpoint in s3.objects(BUCKET), "its log has a checkpoint")
    finally:
        process.close()
    steps.commit(batch(5, offset=5))  # goes over the upkeep's commits


def test_whoever_reads_has_the_options(root: str, s3: S3Server) -> None:
    for spec in ALL_TABLES:
        DeltaVersions(root, spec, s3.options)
    record_leader(root, "share_partition", 3, "query", "application", {0: 7}, s3.options)
    assert last_leader_epoch(root, "query", s3.options) == 3
    assert read_groups(CachedTables(root, s3.options)) == ()
    assert set(ConfigPoll(file_values(Config()), root, s3.options).in_force(0)) == {""}
    groups = {spec.name: table_path(root, spec) for spec in GROUP_COORDINATOR_TABLES}
    assert PinnedGroups(groups, s3.options).groups(dict.fromkeys(groups, 0)) == {}
    paths = {spec.name: table_path(root, spec) for spec in ALL_TABLES}
    pinned = PinnedTables(paths, s3.options)
    assert pinned.changes(-1, pinned.newest_version(SHARE_PARTITIONS.name)).listed == []
    assert pinned.states(0, [SharePartitionKey("g", "t", "id", 0)]) == {}
    assert read_in_flight(root, storage_options=s3.options) == ()


def test_a_store_that_is_away_is_an_outage_and_one_that_refuses_is_none(
    root: str, s3: S3Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    options = s3.options | {"max_retries": "1"}
    steps = job_that_leads(root, options)
    upkeep = TableUpkeep(DeltaVersions(root, SHARE_GROUP_STATE, options), "upkeep")
    s3.kill()
    try:
        with pytest.raises(TableStoreError) as commit:
            steps.commit(batch(0, offset=0))
        with pytest.raises(TableStoreError) as looking_after:
            upkeep.run(steps.leader_epoch, Upkeep(timedelta(hours=24), 1_000))
        with pytest.raises(TableUnavailableError) as reading:
            read_groups(root, options)
    finally:
        s3.start()
    for away in (commit, looking_after, reading):
        assert is_outage(away.value)
        assert "\n" not in str(away.value)
    steps.commit(batch(0, offset=0))
    for refused in (
        {"root": root, "options": s3.options | {"AWS_SECRET_ACCESS_KEY": "wrong"}},
        {"root": "s3a://no-such-bucket/tables", "options": s3.options},
    ):
        with pytest.raises(TableStoreError) as refusal:
            DeltaVersions(spec=SHARE_GROUP_STATE, **refused)
        assert not is_outage(refusal.value)
