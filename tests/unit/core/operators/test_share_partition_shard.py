"""The operator of share-partitions, rows to whole outputs: loading, acquiring, acknowledging, expiry, rejections."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from sharegroup.core.operators.output import Output
from sharegroup.core.operators.share_partition.partition_configs import SnapshotRules
from sharegroup.core.operators.share_partition.share_partition_operator import SharePartitionOperator
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_partition_requests import SharePartitionRequest
from sharegroup.types import AcquiredRange, OffsetRange

from .shard_driver import (
    COLD_MS,
    GROUP,
    KEY,
    LOCK_MS,
    REWRITE_MS,
    T0,
    TOPIC_ID,
    ShardDriver,
    acknowledge,
    answered,
    config,
    durable,
    fetch,
    known,
    load,
    log,
    release,
    tick,
    transition,
    unacquire,
    unload,
)


def acquired_ten() -> ShardDriver:
    """Return a shard where member m1 holds 0..9 since time 0."""
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, 10)), shard.line(fetch("f0"), 0), at=0)
    return shard


def errors(output: Output) -> list[tuple[str, int]]:
    return [(response["id"], response["error_code"]) for response in output.responses]


def test_initialization_is_durable_and_sends_a_notice() -> None:
    shard = ShardDriver()
    output = shard.batch(config(), load(7, (5, 12), initializing=True, state_epoch=3), at=0)
    notice = {
        "type": "initialized",
        "id": "initialized-id-0-3",
        "group_id": GROUP,
        "reply_to": "",
        "initialized": [[TOPIC_ID, 0, 3]],
    }
    assert output == Output(
        KEY,
        T0,
        tables={"share_group_state": [durable("ShareSnapshot", (0, 3), (7, 7), 0)]},
        requests=[[GROUP, json.dumps(notice, separators=(",", ":"))]],  # type: ignore[list-item]  # JSON has no tuples
        deadline_ms=T0 + REWRITE_MS,
    )


def test_fetch_is_served_immediately() -> None:
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, 100)), at=0)
    output = shard.send(fetch("f1", max_records=10), at=20)
    assert output == Output(
        KEY,
        T0 + 20,
        tables={
            "delivery_log": [transition(0, 9, "AVAILABLE>ACQUIRED", "fetch", 1, until=20 + LOCK_MS)],
            "share_group_state": [durable("ShareUpdate", (0, -1), (-1, 10), -1, (0, 9, 1, 1, "m1", 20 + LOCK_MS))],
        },
        responses=[answered("fetch", "f1", acquired=[[0, 9, 1]], until=20 + LOCK_MS)],
        positions={0: 1},
        deadline_ms=T0 + 20 + LOCK_MS,
    )


def test_fetch_waits_until_the_log_has_records() -> None:
    shard = ShardDriver()
    shard.batch(config(), load(), at=0)
    assert shard.send(fetch("f1"), at=10) == Output(
        KEY, T0 + 10, positions={0: 1}, deadline_ms=T0 + 10 + 5_000, waiting=True
    )
    output = shard.batch(log(3), at=900)
    assert output.responses == [answered("fetch", "f1", acquired=[[0, 2, 1]], until=900 + LOCK_MS)]
    assert not output.waiting


def test_a_fetch_is_answered_with_nothing_at_its_deadline() -> None:
    shard = ShardDriver()
    shard.batch(config(), load(), at=0)
    shard.send(fetch("f1", max_wait_ms=500), at=10)
    assert shard.batch(tick(508), at=509).responses == []
    assert shard.batch(tick(511), at=512) == Output(
        KEY, T0 + 512, responses=[answered("fetch", "f1")], deadline_ms=T0 + REWRITE_MS
    )


def test_an_acknowledgement_moves_the_start_offset() -> None:
    shard = acquired_ten()
    output = shard.send(acknowledge("a1", (0, 4, 1), (7, 7, 2), (9, 9, 3)), at=50)
    assert output == Output(
        KEY,
        T0 + 50,
        tables={
            "delivery_log": [
                transition(0, 4, "ACQUIRED>ACKNOWLEDGED", "accept", 1),
                transition(7, 7, "ACQUIRED>AVAILABLE", "release", 1),
                transition(9, 9, "ACQUIRED>ARCHIVED", "reject", 1),
            ],
            "share_group_state": [
                durable("ShareUpdate", (0, -1), (5, 10), 1, (7, 7, 0, 1, None, None), (9, 9, 4, 1, None, None))
            ],
        },
        responses=[answered("acknowledge", "a1")],
        positions={0: 2},
        deadline_ms=T0 + LOCK_MS,
    )
    assert shard.window() == [
        [5, 6, "ACQUIRED", 1, "m1", LOCK_MS],
        [7, 7, "AVAILABLE", 1, None, None],
        [8, 8, "ACQUIRED", 1, "m1", LOCK_MS],
        [9, 9, "ARCHIVED", 1, None, None],
    ]


def test_renewal_response_has_the_new_deadline() -> None:
    shard = acquired_ten()
    output = shard.send(acknowledge("a1", (0, 9, 4)), at=20_000)
    assert output.responses == [answered("acknowledge", "a1", acquired=[[0, 9, 1]], until=20_000 + LOCK_MS)]
    assert shard.window() == [[0, 9, "ACQUIRED", 1, "m1", 20_000 + LOCK_MS]]


def test_renewal_response_has_the_renewed_ranges() -> None:
    """Finished records are skipped without an error, whoever held them (Kafka's rule)."""
    shard = acquired_ten()
    shard.send(acknowledge("a1", (0, 4, 1)), at=10)
    output = shard.send(acknowledge("a2", (0, 9, 4)), acknowledge("a3", (0, 4, 4), member="m2"), at=20_000)
    assert output.responses == [
        answered("acknowledge", "a2", acquired=[[5, 9, 1]], until=20_000 + LOCK_MS),
        answered("acknowledge", "a3", member="m2"),
    ]


def test_disabled_renewal_is_rejected_as_in_kafka_and_marked() -> None:
    shard = acquired_ten()
    output = shard.batch(config(renew_acknowledge_enable=False), shard.line(acknowledge("a1", (0, 9, 4)), 10), at=10)
    message = "RENEW is not allowed: share.renew.acknowledge.enable is false for this group"
    refused = answered("acknowledge", "a1", error=(ErrorCode.INVALID_RECORD_STATE, message))
    assert output.responses == [refused | {"renewals_off": True}]


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (
            acknowledge("a", (0, 9, 1), member="m2"),
            ErrorCode.INVALID_RECORD_STATE,
            "offsets 0..9 are held by another member",
        ),
        (acknowledge("a", (5, 4, 1)), ErrorCode.INVALID_REQUEST, "first offset 5 is after last offset 4"),
        (acknowledge("a", (0, 9, 9)), ErrorCode.INVALID_REQUEST, "there is no acknowledge type 9"),
        (acknowledge("a", (5, 12, 1)), ErrorCode.INVALID_REQUEST, "5..12 reaches past the records in flight"),
        (unacquire("a", 0, 3, member="m2"), ErrorCode.INVALID_RECORD_STATE, "offsets 0..3 are held by another member"),
    ],
)
def test_rejected_request_changes_nothing(request_, code, message) -> None:  # type: ignore[no-untyped-def]
    shard = acquired_ten()
    before = shard.window()
    output = shard.send(request_, at=50)
    expected = answered(request_.type, "a", member=request_.member_id, error=(code, message))
    assert output == Output(KEY, T0 + 50, responses=[expected], positions={0: 2}, deadline_ms=T0 + LOCK_MS)
    assert shard.window() == before


# -- time --------------------------------------------------------------------------------------------------------------


def test_an_acknowledgement_counts_from_its_append() -> None:
    """The append time counts, even if the batch runs after the lock's end and its tick is later, too."""
    shard = acquired_ten()
    output = shard.batch(
        shard.line(acknowledge("in-time", (0, 4, 1)), LOCK_MS),
        shard.line(acknowledge("late", (5, 9, 1)), LOCK_MS + 1),
        tick(LOCK_MS + 500),
        at=LOCK_MS + 600,
    )
    assert errors(output) == [("in-time", 0), ("late", ErrorCode.INVALID_RECORD_STATE)]
    assert [(row["first_offset"], row["cause"]) for row in output.tables["delivery_log"]] == [
        (0, "accept"),
        (5, "lock_timeout"),
    ]
    assert shard.window() == [[5, 9, "AVAILABLE", 1, None, None]]


def test_late_acknowledgement_does_not_apply_to_a_later_delivery() -> None:
    """The member's waiting fetch acquired the same records again after their lock expired."""
    shard = acquired_ten()
    shard.send(fetch("f1", max_wait_ms=60_000), at=1)
    again = shard.batch(tick(LOCK_MS + 1), at=LOCK_MS + 2)
    assert again.responses[0]["acquired"] == [[0, 9, 2]]
    first, second = [(0, 9, 1)], [(0, 9, 2)]
    output = shard.send(
        acknowledge("late", (0, 4, 1), (5, 9, 2), grants=first),
        acknowledge("late-renewal", (0, 9, 4), grants=first),
        acknowledge("in-time", (0, 9, 1), grants=second),
        at=LOCK_MS + 3,
    )
    late = (ErrorCode.INVALID_RECORD_STATE, "offsets 0..4 have delivery count 2, not 1")
    late_renewal = (ErrorCode.INVALID_RECORD_STATE, "offsets 0..9 have delivery count 2, not 1")
    assert output.responses == [
        answered("acknowledge", "late", error=late),
        answered("acknowledge", "late-renewal", error=late_renewal),
        answered("acknowledge", "in-time"),
    ]
    assert output.tables["delivery_log"] == [transition(0, 9, "ACQUIRED>ACKNOWLEDGED", "accept", 2)]


@pytest.mark.parametrize(
    ("known_ms", "append_ms", "code"),
    [
        (LOCK_MS, LOCK_MS + 10, ErrorCode.INVALID_RECORD_STATE),
        (LOCK_MS, LOCK_MS, ErrorCode.NONE),
        (None, LOCK_MS + 10, ErrorCode.NONE),  # as in Kafka: finished records are skipped
    ],
)
def test_late_acknowledgement_of_records_others_finished_is_rejected(
    known_ms: int | None, append_ms: int, code: ErrorCode
) -> None:
    shard = acquired_ten()
    shard.batch(tick(LOCK_MS + 1), at=LOCK_MS + 1)
    shard.send(fetch("f2", member="m2"), at=LOCK_MS + 2)
    shard.send(acknowledge("by-m2", (0, 9, 3), member="m2"), at=LOCK_MS + 3)
    deadline_ms = -1 if known_ms is None else T0 + known_ms
    late = replace(acknowledge("late", (0, 9, 1), grants=[(0, 9, 1)]), lock_deadline_ms=deadline_ms)
    output = shard.batch(shard.line(late, append_ms), at=LOCK_MS + 20)
    assert errors(output) == [("late", code)]
    assert output.tables == {}


def test_the_time_of_a_batch_alone_expires_nothing() -> None:
    shard = acquired_ten()
    assert shard.batch(log(10), at=10 * LOCK_MS).tables == {}
    assert shard.batch(tick(LOCK_MS), at=10 * LOCK_MS).tables == {}
    output = shard.batch(tick(LOCK_MS + 1), at=10 * LOCK_MS)
    assert output.tables["delivery_log"] == [transition(0, 9, "ACQUIRED>AVAILABLE", "lock_timeout", 1)]


def test_a_lock_that_ran_out_archives_at_the_delivery_limit() -> None:
    shard = ShardDriver()
    shard.batch(config(delivery_count_limit=2), load(0, (0, 1)), at=0)
    for count in (1, 2):
        at = count * 2 * LOCK_MS
        shard.send(fetch(f"f{count}"), at=at)
        shard.batch(tick(at + LOCK_MS + 1), at=at + LOCK_MS + 2)
    assert (shard.led().window.start_offset, shard.window()) == (1, [])


# -- giving back, leaving ----------------------------------------------------------------------------------------------


def test_unacquire_gives_the_attempt_back() -> None:
    shard = acquired_ten()
    output = shard.send(unacquire("u1", 4, 9), at=50)
    assert output.responses == [answered("unacquire", "u1")]
    assert output.tables["delivery_log"] == [transition(4, 9, "ACQUIRED>AVAILABLE", "unacquire", 0)]
    assert shard.window() == [[0, 3, "ACQUIRED", 1, "m1", LOCK_MS], [4, 9, "AVAILABLE", 0, None, None]]
    output = shard.send(fetch("f1", member="m2"), at=60)
    assert output.responses[0]["acquired"] == [[4, 9, 1]]


def never_delivered(request_id: str, *acquired: tuple[int, int, int], member: str = "m1") -> SharePartitionRequest:
    """Return ranges with the delivery counts of their acquisition."""
    return replace(unacquire(request_id, 0, 0, member), ranges=(), acquired=tuple(AcquiredRange(*a) for a in acquired))


def test_unsent_records_get_their_delivery_back() -> None:
    shard = acquired_ten()
    shard.batch(tick(LOCK_MS + 1), at=LOCK_MS + 1)
    output = shard.send(never_delivered("u1", (4, 9, 1)), at=LOCK_MS + 2)
    assert output.responses == [answered("unacquire", "u1")]
    assert output.tables["delivery_log"] == [transition(4, 9, "AVAILABLE>AVAILABLE", "unacquire", 0)]
    assert shard.window() == [[0, 3, "AVAILABLE", 1, None, None], [4, 9, "AVAILABLE", 0, None, None]]
    again = shard.send(fetch("f1", member="m2"), never_delivered("u2", (4, 9, 1)), at=LOCK_MS + 3)
    assert again.responses[-1]["acquired"] == [[0, 3, 2], [4, 9, 1]]


def end_of_session(request_id: str, requester: str, *delivered: tuple[int, int]) -> SharePartitionRequest:
    ranges = tuple(OffsetRange(*pair) for pair in delivered)
    return replace(release(request_id), reply_to="", requester=requester, delivered=ranges)


def test_session_that_ends_late_keeps_records_of_a_newer_session() -> None:
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, 20)), at=0)
    shard.send(replace(fetch("f0"), reply_to="a"), at=1)
    shard.send(release("r0"), replace(fetch("f1", max_records=5), reply_to="b"), at=2)
    before = shard.window()
    assert before[0] == [0, 4, "ACQUIRED", 2, "m1", 2 + LOCK_MS]
    assert shard.send(end_of_session("r1", "a"), at=3).tables == {}
    assert shard.window() == before
    shard.send(end_of_session("r2", "b", (0, 1)), at=4)
    assert [(first, last, state, count) for first, last, state, count, *_ in shard.window()] == [
        (0, 1, "AVAILABLE", 2),
        (2, 9, "AVAILABLE", 1),
    ]


def test_session_that_ends_after_a_start_from_the_tables_releases_what_it_sent() -> None:
    """The tables do not contain the gateways, so the other records may be those of a session at another gateway."""
    shard = ShardDriver()
    header, held = [0, 1, 1, 0, 0, T0, 0, 1], [[0, 9, 1, 1, "m1", T0 + LOCK_MS]]
    shard.batch(config(), load(0, (0, 20), header=header, batches=held), at=0)
    shard.send(end_of_session("r1", "a", (0, 3), (20, 29)), at=1)
    assert shard.window() == [
        [0, 3, "AVAILABLE", 1, None, None],
        [4, 9, "ACQUIRED", 1, "m1", LOCK_MS],
    ]


def test_first_of_two_sessions_to_end_releases_nothing() -> None:
    """The first gateway did not notice that its member had left, so its read-ahead acquired records again."""
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, 20)), at=0)
    shard.send(release("opens"), replace(fetch("f1", max_records=5), reply_to="b"), at=1)
    shard.send(replace(fetch("f2", max_records=5), reply_to="a"), at=2)
    before = shard.window()
    assert shard.send(end_of_session("r1", "a"), at=3).tables == {}
    assert shard.window() == before
    shard.send(end_of_session("r2", "b", (0, 4)), at=4)
    assert [(first, last, state, count) for first, last, state, count, *_ in shard.window()] == [
        (0, 4, "AVAILABLE", 1),
        (5, 9, "AVAILABLE", 0),
    ]


@pytest.mark.parametrize(("opened_at", "is_released"), [(1, False), (2, False), (3, True), (-1 - T0, True)])
def test_late_session_opening_keeps_records_of_later_fetches(opened_at: int, is_released: bool) -> None:
    """The row was lost and sent again after the member had opened a session at another gateway."""
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, 20)), at=0)
    shard.send(replace(fetch("f1"), reply_to="b"), at=2)
    before = shard.window()
    output = shard.send(replace(release("late"), opened_ms=T0 + opened_at), at=100)
    assert output.responses == [answered("release_member", "late")]
    assert (shard.window() != before) == is_released
    if is_released:
        assert shard.window() == [[0, 9, "AVAILABLE", 1, None, None]]


def test_of_two_gateways_nothing_is_remembered_beyond_the_members_leaving() -> None:
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, 20)), at=0)
    shard.send(replace(fetch("f0"), reply_to="a"), at=1)
    assert known(shard)["requesters"] == {"0": [{"m1": {"a": T0 + 1}}, 0, {}]}
    shard.send(release("r0", epoch=3), at=2)
    assert known(shard)["requesters"] == {}


def test_direct_member_is_no_requester() -> None:
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, 20)), at=0)
    shard.send(replace(fetch("f0"), reply_to="m1"), at=1)
    assert known(shard)["requesters"] == {}


@pytest.mark.parametrize("delivered", [(), ((2, 3),), ((0, 1), (3, 3), (9, 20)), ((0, 9),)])
def test_release_undoes_deliveries_that_were_not_sent(delivered: tuple[tuple[int, int], ...]) -> None:
    shard = acquired_ten()
    request = replace(release("r1"), delivered=tuple(OffsetRange(*pair) for pair in delivered))
    output = shard.send(request, at=50)
    assert output.responses == [answered("release_member", "r1")]
    sent = {offset for first, last in delivered for offset in range(first, last + 1)}
    counts = {
        offset: count for first, last, _, count, *_ in shard.window() for offset in range(first, last + 1)
    }  # fmt: skip
    assert counts == {offset: int(offset in sent) for offset in range(10)}
    assert {state for _, _, state, *_ in shard.window()} == {"AVAILABLE"}


def test_departed_member_is_released_once_and_its_session_rejected() -> None:
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, 10)), shard.line(fetch("f0", epoch=5), 0), at=0)
    first = shard.send(release("r1", epoch=5), at=10)
    assert first.tables["delivery_log"] == [transition(0, 9, "ACQUIRED>AVAILABLE", "member_left", 1)]
    assert first.responses == [answered("release_member", "r1")]

    old = shard.send(fetch("f1", epoch=5), acknowledge("a1", (0, 9, 1), epoch=4), at=20)
    assert errors(old) == [
        ("f1", ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        ("a1", ErrorCode.INVALID_SHARE_SESSION_EPOCH),
    ]

    again = shard.send(fetch("f2", epoch=6), at=30)  # the same member came back
    assert again.responses[0]["acquired"] == [[0, 9, 2]]
    repeated = shard.send(release("r1", epoch=5), at=40)
    assert (repeated.tables, errors(repeated)) == ({}, [("r1", 0)])
    assert shard.window() == [[0, 9, "ACQUIRED", 2, "m1", 30 + LOCK_MS]]


def test_a_member_that_left_waits_for_nothing() -> None:
    shard = ShardDriver()
    shard.batch(config(), load(), shard.line(fetch("f1", epoch=5), 0), shard.line(release("r1", epoch=5), 1), at=1)
    assert shard.batch(log(10), at=10).responses == []
    assert shard.window() == []


def test_departed_member_is_evicted_after_ten_minutes() -> None:
    shard = acquired_ten()
    shard.send(release("r1", epoch=5), at=0)
    shard.batch(tick(600_000), at=600_000)
    assert errors(shard.send(fetch("f1", epoch=5), at=600_000)) == [("f1", ErrorCode.INVALID_SHARE_SESSION_EPOCH)]
    shard.batch(tick(600_001), at=600_001)
    assert errors(shard.send(fetch("f2", epoch=5), at=600_001)) == [("f2", 0)]


def test_only_so_many_departed_members_are_remembered() -> None:
    shard = acquired_ten()
    shard.send(*[release("r", member=f"m{number}", epoch=1) for number in range(1_001)], at=0)
    output = shard.send(fetch("first", member="m0", epoch=1), fetch("second", member="m1", epoch=1), at=1)
    assert ("second", ErrorCode.INVALID_SHARE_SESSION_EPOCH) in errors(output)
    assert ("first", ErrorCode.INVALID_SHARE_SESSION_EPOCH) not in errors(output)


# -- not loaded (yet, or any more) -------------------------------------------------------------------------------------


def test_requests_wait_for_their_share_partition_to_be_loaded() -> None:
    shard = ShardDriver()
    early = shard.send(fetch("f1"), acknowledge("a1", (0, 3, 1), member="m2"), at=0)
    assert early == Output(KEY, T0, positions={0: 2}, deadline_ms=T0 + 5_000)
    batches = [[0, 3, 1, 1, "m2", T0 + LOCK_MS]]
    header = [0, 1, 1, 0, 0, 0, T0 - 1_000, 1]
    output = shard.batch(config(), load(0, (0, 10), header=header, batches=batches), at=2_000)
    assert output.responses == [
        answered("acknowledge", "a1", member="m2"),
        answered("fetch", "f1", acquired=[[4, 9, 1]], until=2_000 + LOCK_MS),
    ]
    assert '"parked":[]' in (shard.state or "")


def test_requests_without_a_load_are_rejected_and_not_kept() -> None:
    shard = ShardDriver()
    shard.send(fetch("f1"), acknowledge("a1", (0, 3, 1)), release("r1"), at=0)
    unknown = (int(ErrorCode.UNKNOWN_TOPIC_ID), "group g has no share-partition of topic orders with id id")
    at_fetch_time = shard.batch(tick(5_001), at=5_001)
    assert at_fetch_time == Output(
        KEY, T0 + 5_001, responses=[answered("fetch", "f1", error=unknown)], deadline_ms=T0 + 10_000
    )
    output = shard.batch(tick(10_001), at=10_001)
    assert output == Output(
        KEY,
        T0 + 10_001,
        responses=[answered("acknowledge", "a1", error=unknown), answered("release_member", "r1", error=unknown)],
    )
    assert shard.state is None


def test_parked_requests_are_bounded() -> None:
    shard = ShardDriver()
    output = shard.send(*[fetch(f"f{number}", member=f"m{number}") for number in range(1_002)], at=0)
    assert errors(output) == [(f"f{number}", ErrorCode.UNKNOWN_TOPIC_ID) for number in (1_000, 1_001)]


def test_an_old_request_is_not_parked() -> None:
    shard = ShardDriver()
    output = shard.batch(shard.line(fetch("f1", max_wait_ms=100), 0), at=101)
    assert errors(output) == [("f1", ErrorCode.UNKNOWN_TOPIC_ID)]


def test_unknown_partition_of_a_known_topic_is_rejected() -> None:
    shard = acquired_ten()
    output = shard.batch(shard.line(fetch("f1", max_wait_ms=100, partition=7), 0), at=101)
    unknown = (int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "group g has no share-partition orders-7")
    assert output.responses == [answered("fetch", "f1", partition=7, error=unknown)]


def test_unload_removes_share_partitions_and_answers_their_fetches() -> None:
    shard = ShardDriver()
    shard.batch(config(), load(), load(partition=2), shard.line(fetch("f1"), 0), at=0)
    output = shard.batch(unload(0), at=10)
    assert output == Output(
        KEY, T0 + 10, responses=[answered("fetch", "f1")], deadline_ms=T0 + REWRITE_MS, waiting=False
    )
    assert list(known(shard)["partitions"]) == ["2"]
    shard.batch(unload(2), at=20)
    assert shard.state is None


def test_unload_and_load_in_one_batch_take_the_loaded_state() -> None:
    """This happens when the number of shards changes."""
    shard = acquired_ten()
    header = [4, 1, 1, 6, 0, 3, T0, 1]
    shard.batch(load(0, (0, 10), header=header, batches=[[6, 9, 0, 1, None, None]]), unload(0), at=10)
    assert (shard.led().header.snapshot_epoch, shard.window()) == (4, [[6, 9, "AVAILABLE", 1, None, None]])


def test_repeated_load_changes_nothing() -> None:
    shard = acquired_ten()
    before = shard.window()
    output = shard.batch(load(0, (0, 10)), at=10)
    assert (output.tables, shard.window()) == ({}, before)


def test_a_higher_state_epoch_begins_again() -> None:
    shard = acquired_ten()
    shard.send(fetch("f1", member="m2"), at=5)
    output = shard.batch(load(4, (0, 10), state_epoch=2, initializing=True), at=10)
    assert output.tables == {
        "delivery_log": [
            transition(0, 9, "ACQUIRED>ARCHIVED", "reset", 1),
        ],
        "share_group_state": [durable("ShareSnapshot", (1, 2), (4, 4), 0)],
    }
    assert output.responses == [answered("fetch", "f1", member="m2")]
    assert json.loads(output.requests[0][1])["initialized"] == [["id", 0, 2]]
    assert shard.send(fetch("f2"), at=20).responses[0]["acquired"] == [[4, 9, 1]]


def test_state_of_an_older_epoch_is_replaced_when_loaded() -> None:
    shard = ShardDriver()
    header = [7, 1, 1, 6, 0, 3, T0, 1]
    output = shard.batch(config(), load(2, (0, 10), state_epoch=2, header=header), at=0)
    assert output.tables == {"share_group_state": [durable("ShareSnapshot", (8, 2), (2, 2), 0)]}


def test_load_detects_records_lost_before() -> None:
    shard = ShardDriver()
    header = [7, 1, 1, 0, 0, 3, T0, 1]
    batches = [[0, 9, 1, 1, "m1", T0 + LOCK_MS]]
    output = shard.batch(config(), load(0, (5, 20), header=header, batches=batches), at=0)
    assert output.tables == {
        "delivery_log": [transition(0, 4, "ACQUIRED>ARCHIVED", "log_truncated", 1)],
        "share_group_state": [durable("ShareUpdate", (7, -1), (5, 10), -1)],
    }


# -- rows --------------------------------------------------------------------------------------------------------------


def test_bad_rows_are_rejected_with_their_coordinates() -> None:
    shard = acquired_ten()
    output = shard.batch(
        shard.line(b"{not json", 5),
        shard.line(b'{"type":"fetch"}', 5),
        shard.line(
            b'{"id":"x","reply_to":"me","type":"fetch","group_id":"g","topic":"orders","topic_id":"id","partition":0}',
            5,
        ),
        shard.line(replace(acknowledge("a1", (0, 9, 1), member="m2"), reply_to=""), 5),
        shard.line(replace(fetch("f1"), topic_id="id\t0"), 5),
        at=5,
    )
    assert [(partition, offset) for partition, offset, _ in output.rejected] == [(0, 1), (0, 2), (0, 3), (0, 4)]
    assert [reason for _, _, reason in output.rejected][1:] == [
        "id must be a non-empty string",
        "INVALID_REQUEST: the field member_id is missing",
        "INVALID_RECORD_STATE: offsets 0..9 are held by another member",
    ]
    assert errors(output) == [("x", ErrorCode.INVALID_REQUEST), ("f1", ErrorCode.INVALID_REQUEST)]
    assert (output.positions, output.tables) == ({0: 6}, {})


@pytest.mark.parametrize("field", ["type", "group_id", "topic", "topic_id", "partition", "member_id"])
@pytest.mark.parametrize("value", ["\U0001f600" * 100_000, [["x"] * 200_000], 10**4_000])
def test_no_answer_repeats_more_than_a_right_row_could_have(field: str, value: object) -> None:
    shard = ShardDriver()
    row = json.loads(fetch("f1").encode()) | {field: value}
    output = shard.batch(shard.line(json.dumps(row).encode(), 5), at=5)
    assert errors(output) == [("f1", ErrorCode.INVALID_REQUEST)]
    assert len(output.encode()) < 30_000


def test_the_order_in_which_spark_hands_over_the_rows_means_nothing() -> None:
    def lines(shard: ShardDriver) -> list[str]:
        requests = [fetch("f1", max_records=4), fetch("f2", member="m2"), acknowledge("a1", (0, 1, 1)), release("r1")]
        source = [config(), load(0, (0, 5)), load(0, (0, 7), partition=1), unload(3), log(9, partition=1), tick(60)]
        return source + [shard.line(request, at) for at, request in enumerate(requests)]

    first = ShardDriver()
    expected = first.batch(*lines(first), at=100)
    for seed in range(20):
        shard = ShardDriver()
        shuffled = lines(shard)
        random.Random(seed).shuffle(shuffled)
        assert (shard.batch(*shuffled, at=100), shard.state) == (expected, first.state)


def test_state_of_another_format_is_rejected() -> None:
    with pytest.raises(ValueError, match="format 99, but this job reads format 1: remove the checkpoint"):
        SharePartitionOperator(KEY, GROUP, TOPIC_ID, SnapshotRules(), '{"version":99}')


# -- durable records ---------------------------------------------------------------------------------------------------


def test_batch_writes_one_record_per_share_partition() -> None:
    shard = ShardDriver()
    output = shard.batch(
        config(),
        load(0, (0, 10)),
        load(0, (0, 3), partition=1),
        shard.line(fetch("f1"), 0),
        shard.line(fetch("f2", partition=1), 0),
        at=0,
    )
    both = [(row["partition"], row["record_type"]) for row in output.tables["share_group_state"]]
    assert both == [(0, "ShareSnapshot"), (1, "ShareSnapshot")]
    output = shard.send(
        acknowledge("a1", (0, 4, 1)), acknowledge("a2", (5, 6, 2)), fetch("f3", member="m2", max_records=1), at=1
    )
    assert output.tables["share_group_state"] == [
        durable(
            "ShareUpdate", (0, -1), (5, 10), -1, (5, 5, 1, 2, "m2", 1 + LOCK_MS), (6, 6, 0, 1, None, None)
        )
    ]  # fmt: skip


def test_snapshots_come_after_so_many_updates() -> None:
    shard = ShardDriver(SnapshotRules(updates_per_snapshot=2))
    shard.batch(config(), load(0, (0, 10)), at=0)
    kinds = []
    for number in range(6):
        output = shard.send(fetch(f"f{number}", member=f"m{number}", max_records=1), at=number)
        kinds += [(row["record_type"], row["snapshot_epoch"]) for row in output.tables["share_group_state"]]
    update, snapshot = "ShareUpdate", "ShareSnapshot"
    assert kinds == [(update, 0), (update, 0), (snapshot, 1), (update, 1), (update, 1), (snapshot, 2)]


def test_tick_writes_a_snapshot_of_a_cold_share_partition() -> None:
    shard = acquired_ten()
    shard.send(acknowledge("a1", (0, 8, 1)), at=10)
    shard.send(acknowledge("a2", (9, 9, 1)), at=20)
    before = shard.batch(tick(COLD_MS - 1), at=COLD_MS - 1)
    assert (before.tables, before.deadline_ms) == ({}, T0 + COLD_MS)
    output = shard.batch(tick(COLD_MS), at=COLD_MS)
    assert output == Output(
        KEY,
        T0 + COLD_MS,
        tables={"share_group_state": [durable("ShareSnapshot", (1, 1), (10, 10), 0)]},
        deadline_ms=T0 + COLD_MS + REWRITE_MS,
    )
    later = shard.batch(tick(COLD_MS + REWRITE_MS), at=COLD_MS + REWRITE_MS)
    assert later.tables == {"share_group_state": [durable("ShareSnapshot", (2, 1), (10, 10), 0)]}
