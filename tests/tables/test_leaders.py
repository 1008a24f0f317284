"""The history of leaders in its table."""

from __future__ import annotations

from pathlib import Path

from sharegroup.storage.writing.leaders import last_leader_epoch, record_leader


def test_the_last_start_of_a_query_is_found_by_its_id(tmp_path: Path) -> None:
    assert last_leader_epoch(str(tmp_path), "mine") == 0
    for epoch, query_id in ((1, "mine"), (2, "mine"), (3, "another")):
        record_leader(str(tmp_path), "share_partition", epoch, query_id, "application", {0: 7})

    assert [last_leader_epoch(str(tmp_path), query_id) for query_id in ("mine", "another", "no")] == [2, 3, 0]
