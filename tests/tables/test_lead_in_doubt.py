"""A query restarts in a hiccup of the store: the commit of its new leader epoch is made, and its response is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.errors import FencedLeaderError
from sharegroup.storage.writing.versioned_table import TableStoreError
from tests.harness.memory_tables import MemoryTables
from tests.tables.table_kinds import DeltaTableKind, TableKind
from tests.tables.test_job_lead import job_lead


@pytest.fixture(params=["delta", "memory"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> TableKind:
    return DeltaTableKind(tmp_path) if request.param == "delta" else MemoryTables()


def test_a_store_that_is_away_after_the_commit_of_an_epoch_fences_nobody(tables: TableKind) -> None:
    lead = job_lead(tables, "a")
    lead.acquire_epoch()
    assert lead.epoch_for("groups") == lead.epoch_for("partitions") == 1
    # the query `partitions` has failed and starts again
    tables.lose_next_response()
    table = lead._deciding._table
    refresh, looks = table.refresh, []

    def refresh_once() -> None:
        looks.append(None)
        if len(looks) > 1:  # the first look is before the commit
            raise TableStoreError("the store is away")
        refresh()

    table.refresh = refresh_once  # type: ignore[method-assign]
    with pytest.raises(TableStoreError, match="the store is away"):
        lead.epoch_for("partitions")
    table.refresh = refresh  # type: ignore[method-assign]

    try:
        lead.check()  # the job's check every two seconds
        epoch = lead.epoch_for("partitions")  # the supervisor starts the query again
    except FencedLeaderError as error:
        pytest.fail(f"the job ends with exit code 3, but no other job has ever existed: {error}")
    assert epoch > 1
