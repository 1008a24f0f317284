"""Who led, and that a job whose query starts again does not take the lead back."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.errors import FencedLeaderError
from sharegroup.spark.leaders import last_leader_epoch, record_leader
from tests.tables.job_tables import start


def test_the_last_start_of_a_query_is_found_by_its_id(tmp_path: Path) -> None:
    assert last_leader_epoch(str(tmp_path), "mine") == 0
    for epoch, query_id in ((1, "mine"), (2, "mine"), (3, "another")):
        record_leader(str(tmp_path), "share_partition", epoch, query_id, "application", {0: 7})

    assert [last_leader_epoch(str(tmp_path), query_id) for query_id in ("mine", "another", "no")] == [2, 3, 0]


def test_a_query_that_starts_again_leaves_the_lead_to_a_job_that_came_after_it(tmp_path: Path) -> None:
    start(tmp_path)
    steps, _ = start(tmp_path)
    steps.check_lead(None)
    steps.check_lead(led_with=2)

    with pytest.raises(FencedLeaderError, match=r"leader epoch 2 \(mine: 1\)"):
        steps.check_lead(led_with=1)
