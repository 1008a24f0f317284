"""The upkeep process on real tables, beside a job that commits batches to them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue

import psutil
import pytest
from deltalake import DeltaTable

from sharegroup.job.commit.commit_steps import CommitSteps
from sharegroup.storage.schemas import DELIVERY_LOG, SHARE_PARTITION_TABLES
from sharegroup.storage.upkeep.table_upkeep import TableUpkeep
from sharegroup.storage.upkeep.upkeep_process import UpkeepProcess
from sharegroup.storage.writing.delta_table import DeltaVersions
from sharegroup.storage.writing.versioned_table import Upkeep
from tests.tables.job_tables import batch, rows, start

DAY_MS = 86_400_000
#: A limit in seconds for a process of low priority on a busy machine.
LIMIT_S = 300
#: Fewer than the 15 conflicts after which delta-rs gives up a commit, so that no upkeep of these tests can starve.
BATCHES_BESIDE_UPKEEP = 10


@pytest.fixture
def ends() -> SimpleQueue[bool]:
    """For each upkeep that has ended, whether it failed."""
    return SimpleQueue()


@pytest.fixture
def process(tmp_path: Path, ends: SimpleQueue[bool]) -> Iterator[UpkeepProcess]:
    made = UpkeepProcess(
        {
            "tables_path": str(tmp_path),
            "storage_options": {},
            "retention_ms": DAY_MS,
            "local_versions": 1_000,
            "local_sync": True,
            "log_retention_ms": 36_500 * DAY_MS,
        },
        ended=lambda _, failed: ends.put(failed),
    )
    yield made
    made.close()


def now_ms(ago_ms: int = 0) -> int:
    """Return the brokers' time, which this machine's clock is ahead of."""
    return int(time.time() * 1000) - ago_ms


def await_true(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "the condition did not become true in time"
        time.sleep(0.05)


def committed(root: Path, batches: int) -> CommitSteps:
    """Return a job that leads, and has committed a number of batches."""
    steps, _ = start(root)
    for batch_id in range(batches):
        steps.commit(batch(batch_id, offset=batch_id))
    return steps


def files(root: Path, table: str) -> int:
    return len(DeltaTable(str(root / table)).file_uris())


def is_compacted(table: DeltaTable) -> bool:
    """Return whether there is a commit of upkeep among those since the last call."""
    known = table.version()
    table.update_incremental()
    new = table.version() - known
    return bool(new) and any(entry["operation"] == "OPTIMIZE" for entry in table.history(new))


def child() -> psutil.Process | None:
    running = [each for each in psutil.Process().children() if each.status() != psutil.STATUS_ZOMBIE]
    return next((each for each in running if "sharegroup.storage.upkeep.upkeep_worker" in each.cmdline()), None)


def test_the_process_merges_files_while_batches_are_committed(
    tmp_path: Path, process: UpkeepProcess, ends: SimpleQueue[bool]
) -> None:
    steps = committed(tmp_path, 1)
    process.request(SHARE_PARTITION_TABLES, steps.leader_epoch, now_ms())
    ends.get(timeout=LIMIT_S)  # from now on, the process runs
    batch_id = 0
    log = DeltaTable(str(tmp_path / "delivery_log"))
    while not is_compacted(log):
        process.request(SHARE_PARTITION_TABLES, steps.leader_epoch, now_ms())
        for _ in range(BATCHES_BESIDE_UPKEEP):
            batch_id += 1
            steps.commit(batch(batch_id, offset=batch_id))
        ends.get(timeout=LIMIT_S)
    steps.commit(batch(batch_id + 1, offset=batch_id + 1))

    assert rows(tmp_path, "delivery_log", "batch_id") == [(each,) for each in range(batch_id + 2)]
    steps, producer = start(tmp_path)
    assert steps.positions == {0: batch_id + 2}
    assert producer.sent == [([f"f{batch_id + 1}"], [("g", f"notice-{batch_id + 1}")])]


def test_a_process_that_was_killed_is_started_again(
    tmp_path: Path, process: UpkeepProcess, caplog: pytest.LogCaptureFixture
) -> None:
    steps = committed(tmp_path, 4)
    process.request(SHARE_PARTITION_TABLES, steps.leader_epoch, now_ms())
    killed = child()
    assert killed is not None
    os.kill(killed.pid, signal.SIGKILL)
    await_true(lambda: killed.status() == psutil.STATUS_ZOMBIE)
    process.request(SHARE_PARTITION_TABLES, steps.leader_epoch, now_ms())
    await_true(lambda: files(tmp_path, "delivery_log") == 1)
    assert "upkeep process ended with exit code -9; starting another" in caplog.text
    assert rows(tmp_path, "delivery_log", "batch_id") == [(each,) for each in range(4)]


def test_tables_of_another_leader_get_no_upkeep(
    tmp_path: Path, process: UpkeepProcess, caplog: pytest.LogCaptureFixture
) -> None:
    steps = committed(tmp_path, 4)
    start(tmp_path)
    process.request(SHARE_PARTITION_TABLES, steps.leader_epoch, now_ms())
    told = "upkeep of share_group_state for leader epoch 1 was cancelled: the table now has leader epoch 2"
    await_true(lambda: told in caplog.text)
    assert files(tmp_path, "share_group_state") == 4


def test_nothing_is_deleted_by_a_clock_that_is_far_ahead(
    tmp_path: Path, process: UpkeepProcess, caplog: pytest.LogCaptureFixture
) -> None:
    steps = committed(tmp_path, 4)
    process.request(SHARE_PARTITION_TABLES, steps.leader_epoch, now_ms(ago_ms=2 * DAY_MS))
    await_true(lambda: "ahead of the brokers' clocks: upkeep would delete files of" in caplog.text)
    assert files(tmp_path, "share_group_state") == 4


def test_the_process_ends_with_the_job(tmp_path: Path, process: UpkeepProcess) -> None:
    steps = committed(tmp_path, 1)
    process.request(SHARE_PARTITION_TABLES, steps.leader_epoch, now_ms())
    running = child()
    assert running is not None
    process.close()
    assert not running.is_running()


def test_a_version_of_today_is_read_after_the_vacuum_of_its_old_files(tmp_path: Path) -> None:
    """The files are days old and were merged just now; time travel to an earlier version needs them."""
    steps = committed(tmp_path, 4)
    kept = DeltaTable(str(tmp_path / "delivery_log")).version()
    week_ago = time.time() - 7 * 86_400
    for path in (tmp_path / "delivery_log").glob("day=*/*.parquet"):
        os.utime(path, (week_ago, week_ago))
    upkeep = TableUpkeep(DeltaVersions(str(tmp_path), DELIVERY_LOG), "upkeep")
    upkeep.run(steps.leader_epoch, Upkeep(timedelta(hours=24), 1_000))
    assert files(tmp_path, "delivery_log") == 1
    assert DeltaTable(str(tmp_path / "delivery_log"), version=kept).to_pyarrow_table().num_rows == 4


def test_files_of_no_version_are_removed(tmp_path: Path) -> None:
    """A failed commit leaves its file behind."""
    steps = committed(tmp_path, 1)
    day = next((tmp_path / "delivery_log").glob("day=*"))
    orphan = day / "part-of-nothing.parquet"
    orphan.write_bytes(b"PAR1")
    week_ago = time.time() - 7 * 86_400
    os.utime(orphan, (week_ago, week_ago))
    fresh = day / "part-of-the-next-commit.parquet"
    fresh.write_bytes(b"PAR1")
    upkeep = TableUpkeep(DeltaVersions(str(tmp_path), DELIVERY_LOG), "upkeep")
    upkeep.run(steps.leader_epoch, Upkeep(timedelta(hours=24), 1_000))
    assert (orphan.exists(), fresh.exists()) == (False, True)
