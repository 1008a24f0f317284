"""Deleted states: tombstones, records in flight, waiting fetches, and recreated share-partitions."""

from __future__ import annotations

import json

from sharegroup.core.operators import rows
from sharegroup.core.operators.output import Output
from sharegroup.protocol.rows.share_group_requests import (
    DeletedNotice,
    InitializedNotice,
    ShareGroupRequest,
    decode_share_group_request,
)
from sharegroup.types import UNCHANGED

from .shard_driver import (
    KEY,
    LOCK_MS,
    T0,
    TOPIC,
    ShardDriver,
    answered,
    config,
    durable,
    fetch,
    load,
    log,
    transition,
)

TOMBSTONE = durable("Tombstone", (UNCHANGED, UNCHANGED), (UNCHANGED, UNCHANGED), UNCHANGED)


def delete(*deletions: tuple[int, int]) -> str:
    """Return the row that deletes the states of (partition, state epoch)."""
    return rows.encode_row(rows.DELETE, json.dumps([[*deletion, TOPIC] for deletion in deletions]))


def notices(output: Output) -> list[tuple[type, tuple[tuple[str, int, int], ...]]]:
    """Return the kinds of the notices with their states."""
    found = [decode_share_group_request(value) for _, value in output.requests]
    return [(type(notice), _states(notice)) for notice in found]


def _states(notice: ShareGroupRequest) -> tuple[tuple[str, int, int], ...]:
    match notice:
        case InitializedNotice():
            return notice.initialized
        case DeletedNotice():
            return notice.deleted
        case _:
            return ()


def test_deletion_removes_records_in_flight() -> None:
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, 10)), shard.line(fetch("f1"), 0), at=0)
    shard.send(fetch("f2", "m2"), at=5)
    output = shard.batch(delete((0, 1)), at=10)
    assert output.tables == {
        "share_group_state": [TOMBSTONE],
        "delivery_log": [transition(0, 9, "ACQUIRED>ARCHIVED", "reset", 1)],
    }
    assert output.responses == [answered("fetch", "f2", "m2")]
    assert notices(output) == [(DeletedNotice, (("id", 0, 1),))]
    assert (shard.state, output.deadline_ms, output.waiting) == (None, None, False)


def test_unloaded_share_partition_is_deleted_too() -> None:
    shard = ShardDriver()
    output = shard.batch(delete((0, 7)), at=0)
    assert (output.tables, notices(output)) == ({"share_group_state": [TOMBSTONE]}, [(DeletedNotice, (("id", 0, 7),))])
    assert shard.state is None


def test_other_share_partitions_of_the_shard_go_on() -> None:
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, 10)), load(0, (0, 10), partition=1), at=0)
    output = shard.batch(delete((0, 1)), shard.line(fetch("f1", partition=1), 10), at=10)
    assert output.responses == [answered("fetch", "f1", acquired=[[0, 9, 1]], until=10 + LOCK_MS, partition=1)]


def test_recreated_share_partition_starts_with_a_snapshot() -> None:
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, 10)), shard.line(fetch("f1"), 0), at=0)
    shard.batch(delete((0, 1)), at=10)
    output = shard.batch(config(), load(4, (0, 10), state_epoch=5, initializing=True), at=20)
    assert output.tables == {"share_group_state": [durable("ShareSnapshot", (0, 5), (4, 4), 0)]}
    assert notices(output) == [(InitializedNotice, (("id", 0, 5),))]
    fetched = shard.batch(log(12), shard.line(fetch("f2"), 30), at=30)
    assert fetched.responses == [answered("fetch", "f2", acquired=[[4, 11, 1]], until=30 + LOCK_MS)]


def test_altered_offset_replaces_the_old_state() -> None:
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, 10)), shard.line(fetch("f1"), 0), at=0)
    output = shard.batch(load(4, (0, 10), state_epoch=5, initializing=True), at=20)
    assert output.key == KEY
    assert output.now_ms == T0 + 20
    assert output.tables == {
        "share_group_state": [durable("ShareSnapshot", (1, 5), (4, 4), 0)],
        "delivery_log": [transition(0, 9, "ACQUIRED>ARCHIVED", "reset", 1)],
    }
