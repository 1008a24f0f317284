"""An upkeep process that is paused between two of its steps, while another job takes over and works for hours."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from sharegroup.storage.upkeep.upkeep_worker import UpkeepWorker
from sharegroup.storage.writing import delta_upkeep
from tests.tables.job_tables import batch, rows, start

HOUR_S = 3_600
SETTINGS = {
    "storage_options": {}, "retention_ms": 24 * HOUR_S * 1000, "local_versions": 1_000, "local_sync": True,
    "log_retention_ms": 36_500 * 24 * HOUR_S * 1000,
}  # fmt: skip


def age_files(root: Path, hours: float) -> None:
    """Make all files look as if they were written some hours ago: that much time passes."""
    then = time.time() - hours * HOUR_S
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


@pytest.mark.parametrize("table", ["share_group_state", "delivery_log"])
def test_a_paused_upkeep_of_a_fenced_job_deletes_no_live_file(tmp_path: Path, table: str) -> None:
    old, _ = start(tmp_path)
    for batch_id in range(2):
        old.commit(batch(batch_id, offset=batch_id))
    worker = UpkeepWorker({**SETTINGS, "tables_path": str(tmp_path)})
    compact = delta_upkeep._compact

    def compact_and_pause(handle: Any, properties: Any) -> None:
        compact(handle, properties)
        if handle.metadata().name != table:
            return
        # the machine of the old job is suspended here; another job takes over and works for three hours
        new, _ = start(tmp_path, "query-2")
        for batch_id in range(3):
            new.commit(batch(batch_id, offset=10 + batch_id))
        age_files(tmp_path, 3)

    with mock.patch.object(delta_upkeep, "_compact", compact_and_pause):
        worker.run([table], old.leader_epoch, int(time.time() * 1000))

    assert len(rows(tmp_path, table, "batch_id")) == 5
