"""A commit of delivery_log is applied, its response is lost, and the store stays away until there are more rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sharegroup.storage.schemas import DELIVERY_LOG, TableSpec
from sharegroup.storage.writing.delta_table import DeltaTableWriter
from sharegroup.storage.writing.table_writer import TableWriter
from sharegroup.storage.writing.versioned_table import TableStoreError
from tests.tables.job_tables import batch, rows, start
from tests.tables.table_kinds import DeltaTableKind


def test_rows_after_a_lost_response_are_in_the_delivery_log(tmp_path: Path) -> None:
    log_store = DeltaTableKind(tmp_path)
    tasks: list[Callable[[], None]] = []

    def writer(root: str, spec: TableSpec) -> TableWriter:
        return log_store.writer(spec, "writer-1") if spec is DELIVERY_LOG else DeltaTableWriter(root, spec)

    steps, _ = start(tmp_path, writer=writer, later=lambda work, urgent=False: tasks.append(work))
    steps.commit(batch(0))
    log_store.lose_next_response()  # the commit with batch 0 is applied
    table = steps.writers[1]._table
    refresh = table.refresh
    table.refresh = lambda: (_ for _ in ()).throw(TableStoreError("the store is away"))  # ... and no look-up succeeds
    with pytest.raises(TableStoreError):  # `RetryingWorker` tries again in a second
        tasks[-1]()
    table.refresh = refresh

    steps.commit(batch(1, offset=1))  # the next batch of the same job
    tasks[-1]()  # the store is back
    steps.commit(batch(2, offset=2))
    tasks[-1]()

    assert rows(tmp_path, "delivery_log", "batch_id") == [(0,), (1,), (2,)]
