"""Topics that are deleted or created again under a shard, and logs whose offsets are unknown."""

from __future__ import annotations

import pytest

from sharegroup.core.operators.log_offsets import PartitionLog
from sharegroup.core.operators.output import Output
from sharegroup.core.operators.share_partition.shard_state import DELETED_MS
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_group_requests import (
    DeletedNotice,
    TopicDeletedNotice,
    decode_share_group_request,
)

from .shard_driver import (
    GROUP,
    KEY,
    LOCK_MS,
    REWRITE_MS,
    T0,
    TOPIC,
    TOPIC_ID,
    ShardDriver,
    acknowledge,
    answered,
    config,
    durable,
    fetch,
    gone,
    load,
    log,
    release,
    tick,
    transition,
    unacquire,
    unload,
)
from .test_shard_deletion import TOMBSTONE, delete, notices

DELETED = (int(ErrorCode.UNKNOWN_TOPIC_ID), f"topic {TOPIC} with id {TOPIC_ID} was deleted")
FOR_EVERYBODY = {"type": "topic_deleted", "reply_to": "*", "group_id": GROUP, "topic_id": TOPIC_ID}


def half_done() -> ShardDriver:
    """Return a shard with ten records: m1 has accepted 0..3, released 4 and holds 5..9; m2 waits for another record."""
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, 10)), shard.line(fetch("f1"), 0), at=0)
    shard.send(acknowledge("a1", (0, 3, 1), (4, 4, 2)), at=1)
    return shard


# -- deleted topics ----------------------------------------------------------------------------------------------------


def test_deleted_topic_finishes_records_in_flight_and_is_broadcast() -> None:
    shard = half_done()
    shard.batch(config(), shard.line(fetch("f2", "m2", max_records=1), 5), at=5)
    shard.send(fetch("f3", "m3"), at=6)
    output = shard.batch(gone(), at=10)
    assert output.tables == {
        "delivery_log": [
            transition(4, 4, "ACQUIRED>ARCHIVED", "topic_deleted", 2, "m2"),
            transition(5, 9, "ACQUIRED>ARCHIVED", "topic_deleted", 1),
        ],
        "share_group_state": [durable("ShareUpdate", (0, -1), (10, 10), -1)],
    }
    assert output.responses == [answered("fetch", "f3", "m3", error=DELETED), FOR_EVERYBODY]
    (notice,) = (decode_share_group_request(value) for _, value in output.requests)
    assert notice == TopicDeletedNotice(f"topic_deleted-{TOPIC_ID}", GROUP, topic_ids=(TOPIC_ID,))
    assert (output.waiting, output.deadline_ms) == (False, T0 + 10 + DELETED_MS)
    assert output.notes == ["topic orders with id id was deleted; group g no longer delivers its records"]


def test_requests_for_a_deleted_topic_are_rejected() -> None:
    shard = half_done()
    shard.batch(gone(), at=10)
    output = shard.send(fetch("f2"), acknowledge("a2", (5, 9, 1)), unacquire("u1", 5, 9), release("r1"), at=20)
    assert output.responses == [
        answered("fetch", "f2", error=DELETED),
        answered("acknowledge", "a2", error=DELETED),
        answered("unacquire", "u1", error=DELETED),
        answered("release_member", "r1"),
    ]
    assert output.tables == {}


def test_pending_requests_of_a_deleted_topic_are_rejected() -> None:
    shard = ShardDriver()
    shard.send(fetch("f1"), acknowledge("a1", (0, 0, 1)), at=0)
    output = shard.batch(gone(), at=10)
    assert output.responses == [
        answered("fetch", "f1", error=DELETED),
        answered("acknowledge", "a1", error=DELETED),
        FOR_EVERYBODY,
    ]
    assert notices(output) == [(TopicDeletedNotice, ())]


def test_deleted_topic_is_removed_from_the_state_after_a_while() -> None:
    shard = half_done()
    shard.batch(gone(), at=10)
    output = shard.batch(delete((0, 1)), at=20)
    assert (output.tables, notices(output)) == ({"share_group_state": [TOMBSTONE]}, [(DeletedNotice, (("id", 0, 1),))])
    assert shard.send(fetch("f2"), at=30).responses == [answered("fetch", "f2", error=DELETED)]
    shard.batch(tick(DELETED_MS + 9), at=DELETED_MS + 9)
    assert shard.state is not None
    shard.batch(tick(DELETED_MS + 10), at=DELETED_MS + 10)
    assert shard.state is None


def test_a_topic_that_is_to_be_led_after_all_is() -> None:
    shard = half_done()
    shard.batch(gone(), at=10)
    output = shard.batch(config(), load(12, (0, 15), state_epoch=2), shard.line(fetch("f2"), 20), at=20)
    assert output.responses == [answered("fetch", "f2", acquired=[[12, 14, 1]], until=20 + LOCK_MS)]


# -- without topic ids -------------------------------------------------------------------------------------------------


def all_read(**values: object) -> ShardDriver:
    """Return a shard with ten records of a topic without an id: 0..4 are accepted, m1 holds 5..9."""
    shard = ShardDriver()
    shard.batch(config(**values), load(0, (0, 10, None, False)), shard.line(fetch("f1"), 0), at=0)
    shard.send(acknowledge("a1", (0, 4, 1)), at=1)
    return shard


@pytest.mark.parametrize(
    ("reset", "start_offset"), [("earliest", 2), ("latest", 8), ("by_duration:PT1H", 2)]
)  # fmt: skip
def test_log_that_ends_below_acquired_offsets_is_a_new_topic(reset: str, start_offset: int) -> None:
    shard = all_read(auto_offset_reset=reset)
    shard.send(fetch("f2", "m2"), at=2)
    output = shard.batch(log(8, start=2, has_topic_id=False), at=10)
    assert output == Output(
        KEY,
        T0 + 10,
        tables={
            "delivery_log": [transition(5, 9, "ACQUIRED>ARCHIVED", "topic_deleted", 1)],
            "share_group_state": [durable("ShareSnapshot", (1, 1), (start_offset, start_offset), 0)],
        },
        responses=[answered("fetch", "f2", "m2")],
        notes=[
            "share-partition orders-0 of group g: the log ends at 8, but the acquired records end at 10. The "
            f"job treats it as the log of a new topic of the same name and reads it from {start_offset}"
        ],
        deadline_ms=T0 + 10 + REWRITE_MS,
    )
    output = shard.batch(log(12, start=2, has_topic_id=False), shard.line(fetch("f3", "m2"), 20), at=20)
    assert output.responses[0]["acquired"] == [[start_offset, 11, 1]]


def test_an_acknowledgement_for_the_old_log_does_nothing_to_the_new_one() -> None:
    shard = all_read(auto_offset_reset="earliest")
    shard.batch(log(8, has_topic_id=False), shard.line(fetch("f2", "m2"), 10), at=10)
    output = shard.send(acknowledge("a2", (5, 7, 1), grants=[(5, 9, 1)]), at=20)
    assert output.responses[0]["error_code"] == ErrorCode.INVALID_RECORD_STATE
    assert shard.window() == [[0, 7, "ACQUIRED", 1, "m2", 10 + LOCK_MS]]


def test_all_that_was_acquired_may_be_finished_when_the_new_log_comes() -> None:
    """The start offset was 1,000, and the new log has 50 records."""
    header = [4, 1, 1, 1_000, 0, 3, T0, 1]
    shard = ShardDriver()
    lines = config(auto_offset_reset="earliest"), load(0, (0, 50, None, False), header=header)
    output = shard.batch(*lines, shard.line(fetch("f1", max_records=100), 0), at=0)
    assert output.responses == [answered("fetch", "f1", acquired=[[0, 49, 1]], until=LOCK_MS)]
    (state,) = output.tables["share_group_state"]
    assert (state["record_type"], state["snapshot_epoch"], state["start_offset"]) == ("ShareSnapshot", 5, 0)
    assert len(output.notes) == 1


@pytest.mark.parametrize(
    "rows",
    [
        [log(10, has_topic_id=False)],  # nothing fell
        [log(20, has_topic_id=False), log(10, has_topic_id=False)],  # not below acquired offsets
        [log(10, start=7, has_topic_id=False)],  # records were deleted
    ],
)
def test_other_logs_are_not_treated_as_a_new_topic(rows: list[str]) -> None:
    shard = all_read(auto_offset_reset="earliest")
    for at, row in enumerate(rows, 10):
        output = shard.batch(row, at=at)
        assert output.notes == []
    assert shard.led().window.start_offset >= 5


def test_start_offset_may_be_beyond_the_log_end() -> None:
    shard = all_read(auto_offset_reset="earliest")
    output = shard.batch(load(100, (0, 50, None, False), state_epoch=2, initializing=True), at=10)
    assert output.notes == []
    shard.batch(log(60, has_topic_id=False), at=20)
    assert shard.led().window.start_offset == 100


# -- logs with unknown offsets -----------------------------------------------------------------------------------------

HEADER = [0, 1, 1, 0, 0, 0, T0 - 1_000, 1]
HELD = [[0, 3, 1, 1, "m1", T0 + LOCK_MS], [4, 9, 0, 1, None, None]]


def away() -> ShardDriver:
    """Return a shard loaded while the partition leader does not respond; m1 holds 0..3, and 4..9 were released."""
    shard = ShardDriver()
    shard.batch(config(), load(0, None, header=HEADER, batches=HELD), at=0)
    return shard


def test_without_log_offsets_acknowledgements_work_but_nothing_is_acquired() -> None:
    shard = away()
    output = shard.send(fetch("f1", "m2"), acknowledge("a1", (0, 1, 1)), unacquire("u1", 2, 2), at=12_000)
    assert output.responses == [answered("acknowledge", "a1"), answered("unacquire", "u1")]
    assert output.waiting
    output = shard.batch(log(20), at=13_000)
    assert output.responses == [answered("fetch", "f1", "m2", [[2, 2, 1], [4, 9, 2], [10, 12, 1]], 13_000 + LOCK_MS)]


def test_old_acknowledgement_finds_its_share_partition_in_the_first_batch() -> None:
    shard = ShardDriver()
    old = [shard.line(acknowledge(f"a{n}", (n, n, 1)), n) for n in range(2)]
    output = shard.batch(*old, load(0, None, header=HEADER, batches=HELD), config(), at=25_000)
    assert output.responses == [answered("acknowledge", "a0"), answered("acknowledge", "a1")]
    assert shard.led().window.start_offset == 2


def test_locks_run_out_without_a_leader() -> None:
    shard = away()
    output = shard.batch(tick(LOCK_MS + 1), at=LOCK_MS + 1)
    assert output.tables["delivery_log"] == [transition(0, 3, "ACQUIRED>AVAILABLE", "lock_timeout", 1)]


def test_log_offsets_are_part_of_the_state() -> None:
    shard = away()
    assert shard.led().log is None
    shard.batch(log(20, 0, 0, 15), at=10)
    assert shard.led().log == PartitionLog(0, 20, 15, True)
    shard.batch(unload(0), at=20)
    assert shard.state is None


def test_share_partition_without_state_can_start_without_log_offsets() -> None:
    shard = ShardDriver()
    output = shard.batch(config(), load(7, None, initializing=True), shard.line(fetch("f1"), 0), at=0)
    assert output.tables == {"share_group_state": [durable("ShareSnapshot", (0, 1), (7, 7), 0)]}
    output = shard.batch(log(20, start=9), at=10)
    assert output.responses == [answered("fetch", "f1", acquired=[[9, 18, 1]], until=10 + LOCK_MS)]
