"""The audit finds every planted defect in tables that are otherwise correct."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from sharegroup.core.operators import rows
from sharegroup.protocol.rows.share_partition_requests import AcknowledgeRequest, FetchRequest, SharePartitionRequest
from sharegroup.testing.delivery_audit import audit, progress
from sharegroup.testing.samples.sample_history import GROUP_ID, MEMBERS, TOPIC, SampleTables, write_sample_history
from sharegroup.types import AcknowledgementBatch

LOG_END_OFFSET = 10
ENDS = {("t", 0): LOG_END_OFFSET}
FETCH_ALL = FetchRequest("f", "g", "t", "id-t", 0, "m1", max_records=100)


LOAD = {
    "topic": "t",
    "partition": 0,
    "state_epoch": 0,
    "initializing": False,
    "start_offset": 0,
    "log": [0, LOG_END_OFFSET],
    "header": None,
    "batches": [],
}


def acknowledge(*batches: tuple[int, int, int]) -> AcknowledgeRequest:
    made = tuple(AcknowledgementBatch(first, last, (kind,)) for first, last, kind in batches)
    return AcknowledgeRequest("a", "g", "t", "id-t", 0, "m1", batches=made)


def run(path: Path, batches: Iterable[SharePartitionRequest], topic_id: str = "id-t", state_epoch: int = 0) -> str:
    """Run each request as a micro-batch, one millisecond after the last."""
    tables_path = str(path)
    tables = SampleTables(tables_path, "g", topic_id)
    tables.commit([rows.encode_row(rows.LOAD, json.dumps([LOAD | {"state_epoch": state_epoch}]))], 1_000)
    for number, request in enumerate(batches):
        row = f"0\t{number}\t{2_000 + number}\t{replace(request, topic_id=topic_id).encode().decode()}"
        tables.commit([rows.encode_row(rows.REQUEST, row)], 2_000 + number)
    return tables_path


def test_all_finished_is_right(tmp_path: Path) -> None:
    tables_path = run(
        tmp_path, [FETCH_ALL, acknowledge((0, 3, 1), (4, 5, 2), (6, 9, 3)), FETCH_ALL, acknowledge((4, 5, 1))]
    )
    assert audit(tables_path, "g", ENDS) == []
    now = progress(tables_path, "g")
    assert dict(now.outcomes) == {"accepted": 6, "rejected": 4}
    assert dict(now.deliveries) == {1: 8, 2: 2}
    assert (now.finished, now.redelivered, now.lag(ENDS), now.acquired.total()) == (10, 2, 0, 0)


def test_a_record_released_to_the_limit_is_archived(tmp_path: Path) -> None:
    # Throttled near the limit: a few records at a time.
    rounds: list[SharePartitionRequest] = [FETCH_ALL, acknowledge((0, 9, 2))] * 40
    tables_path = run(tmp_path, [FETCH_ALL, acknowledge((0, 8, 1), (9, 9, 2)), *rounds[: 2 * 4]])
    assert audit(tables_path, "g", ENDS) == []
    assert dict(progress(tables_path, "g").outcomes) == {"accepted": 9, "archived at the limit": 1}


@pytest.mark.parametrize(
    ("requests", "problems"),
    [
        (
            [FETCH_ALL, acknowledge((0, 3, 1))],
            ["t-0: there is no final state for 6 offset(s): 4, 5, 6, 7, 8, 9",
             "t-0: the start offset is 4, but the log ends at 10", "t-0: the range 4..9 is still ACQUIRED"],
        ),
        (
            [FETCH_ALL, acknowledge((1, 9, 1)), acknowledge((0, 0, 2))],
            ["t-0: there is no final state for 1 offset(s): 0", "t-0: the start offset is 0, but the log ends at 10",
             "t-0: the range 0..0 is still AVAILABLE"],
        ),
    ],
)  # fmt: skip
def test_unfinished_records_are_reported(
    tmp_path: Path, requests: list[SharePartitionRequest], problems: list[str]
) -> None:
    assert audit(run(tmp_path, requests), "g", ENDS) == problems


def test_a_record_that_was_finished_twice_is_reported(tmp_path: Path) -> None:
    tables_path = run(tmp_path, [FETCH_ALL, acknowledge((0, 9, 1))])
    again = SampleTables(tables_path, "g", "id-t")  # a leader that lost all state, as no leader should
    again.commit([rows.encode_row(rows.LOAD, json.dumps([LOAD]))], 9_000)
    for number, request in enumerate([replace(FETCH_ALL, max_records=3), acknowledge((0, 2, 1))]):
        again.commit([rows.encode_row(rows.REQUEST, f"0\t{number}\t9001\t{request.encode().decode()}")], 9_001)
    assert "t-0: there is more than one final state for 3 offset(s): 0, 1, 2" in audit(tables_path, "g", ENDS)


def test_of_a_topic_that_was_made_again_the_new_one_counts(tmp_path: Path) -> None:
    for state_epoch, topic_id in enumerate(("id-t", "id-again")):
        tables_path = run(tmp_path, [FETCH_ALL, acknowledge((0, 9 - state_epoch, 1))], topic_id, state_epoch)
    assert audit(tables_path, "g", ENDS) == [
        "t-0: there is no final state for 1 offset(s): 9",
        "t-0: the start offset is 9, but the log ends at 10",
        "t-0: the range 9..9 is still ACQUIRED",
    ]


def test_an_unknown_share_partition_is_reported(tmp_path: Path) -> None:
    tables_path = run(tmp_path, [FETCH_ALL, acknowledge((0, 9, 1))])
    problems = audit(tables_path, "g", {**ENDS, ("t", 1): 1})
    assert problems == [
        "t-1: there is no final state for 1 offset(s): 0",
        "t-1: share_group_state has no state of this partition",
    ]


def test_the_sample_history_has_something_of_everything(tmp_path: Path) -> None:
    write_sample_history(str(tmp_path), minutes=6)
    now = progress(str(tmp_path), GROUP_ID)
    assert set(now.outcomes) == {"accepted", "rejected", "archived at the limit"}
    assert set(now.acquired) <= set(MEMBERS)
    assert set(now.start_offsets) == {(TOPIC, 0), (TOPIC, 1)}
    assert now.redelivered > 0
