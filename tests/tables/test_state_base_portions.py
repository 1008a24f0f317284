"""The newest micro-batch of `share_group_state` reaches over the end of a portion of the records for the base."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from unittest import mock

from deltalake import DeltaTable

from sharegroup.storage.schemas import SHARE_GROUP_STATE, table_path
from sharegroup.storage.upkeep import state_base_upkeep
from sharegroup.storage.upkeep.state_base_upkeep import StateBaseUpkeep
from sharegroup.storage.writing.versioned_table import Upkeep
from tests.tables.job_tables import batch, start


def test_a_base_is_written_whatever_the_size_of_the_newest_batch(tmp_path: Path) -> None:
    steps, _ = start(tmp_path)
    made = batch(0)
    (row,) = made.tables["share_group_state"]
    made.tables["share_group_state"] = [{**row, "partition": partition} for partition in range(6)]
    steps.commit(made)
    state = DeltaTable(table_path(str(tmp_path), SHARE_GROUP_STATE))
    with mock.patch.object(state_base_upkeep, "_PORTION_RECORDS", 4):
        StateBaseUpkeep(str(tmp_path), least_records=1).run(state, Upkeep(timedelta(hours=24), 1_000))
