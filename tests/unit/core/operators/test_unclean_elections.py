"""An unclean leader election that removes delivered records: reports and later deliveries."""

from __future__ import annotations

import json

import pytest

from sharegroup.core.operators import rows
from sharegroup.types import Cause

from .shard_driver import LOCK_MS, ShardDriver, acknowledge, fetch, load, tick


def log(end: int, epoch: int, epoch_start: int | None = None) -> str:
    return rows.encode_row(rows.LOG, json.dumps([[0, 0, end, None, True, epoch, epoch_start]]))


@pytest.fixture
def shard() -> ShardDriver:
    """Return a shard with 12 records: member m1 has accepted 0 to 4 and 6, and holds 5 and 7 to 9."""
    shard = ShardDriver()
    shard.batch(load(log=(0, 12, None, True, 3, 0)), shard.line(fetch("f1"), 0), at=0)
    shard.send(acknowledge("a1", (0, 4, 1), (6, 6, 1)), at=1)
    return shard


@pytest.mark.parametrize(
    "moved",
    [log(3, 4, 3), log(15, 4, 3), log(15, 7, 3), log(3, 3)],
    ids=["it ends there", "it has grown since", "several elections", "the same leader, without its records"],
)
def test_finished_offsets_are_reported_as_skipped(shard: ShardDriver, moved: str) -> None:
    output = shard.batch(moved, at=2)
    assert [
        (row["first_offset"], row["last_offset"], row["from_state"], row["to_state"], row["cause"])
        for row in output.tables["delivery_log"]
    ] == [
        (3, 4, "ARCHIVED", "ARCHIVED", Cause.UNCLEAN_ELECTION),
        (6, 6, "ACKNOWLEDGED", "ACKNOWLEDGED", Cause.UNCLEAN_ELECTION),
    ]
    (note,) = output.notes
    assert "orders-0 of group g: an unclean leader election truncated the log at 3; the delivered offsets 3..9" in note
    again = shard.batch(moved, at=3)
    assert not again.notes, "once"


@pytest.mark.parametrize("moved", [log(15, 4, 12), log(15, 4), log(15, 3, 0)])
def test_a_clean_election_says_nothing(shard: ShardDriver, moved: str) -> None:
    output = shard.batch(moved, at=2)
    assert not output.notes
    assert "delivery_log" not in output.tables


def test_undelivered_records_are_not_reported(shard: ShardDriver) -> None:
    assert not shard.batch(log(14, 4, 10), at=2).notes


def test_the_log_of_an_earlier_leader_is_not_believed(shard: ShardDriver) -> None:
    shard.batch(log(15, 4, 12), at=2)
    output = shard.batch(log(3, 3), at=3)
    assert not output.notes
    assert shard.led().window.log_end_offset == 15


def test_unfinished_offsets_deliver_the_new_records(shard: ShardDriver) -> None:
    shard.batch(log(3, 4, 3), at=2)
    shard.batch(shard.line(fetch("f2", member="m2"), LOCK_MS + 1), tick(LOCK_MS + 1), at=LOCK_MS + 1)
    output = shard.batch(log(13, 4, 3), at=LOCK_MS + 2)
    assert [response["acquired"] for response in output.responses] == [[[5, 5, 2], [7, 9, 2], [10, 12, 1]]]


def test_load_detects_a_log_that_ends_below_delivered_offsets() -> None:
    driver = ShardDriver()
    driver.batch(load(log=(0, 12, None, True, 3, 0)), driver.line(fetch("f1"), 0), at=0)
    driver.send(acknowledge("a1", (0, 9, 1)), at=1)
    known = driver.led().header.dump()
    fresh = ShardDriver()
    output = fresh.batch(load(log=(0, 4, None, True, 5, 4), header=known, state_epoch=1), at=2)
    assert [(row["first_offset"], row["last_offset"]) for row in output.tables["delivery_log"]] == [(4, 9)]
