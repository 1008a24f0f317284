"""Requests of gateways: to reserve offsets after the end of the log, to assign them to members, to give them back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sharegroup.core.operators.output import Output
from sharegroup.core.operators.share_partition.partition_configs import SnapshotRules
from sharegroup.core.operators.share_partition.reserves import RETRY_DENIED_MS, RETRY_MS
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.reservation_requests import AssignRequest, ReassignRequest, ReserveRequest
from sharegroup.protocol.rows.share_partition_requests import FetchRequest
from sharegroup.protocol.rows.share_partition_responses import WANTED
from sharegroup.types import WaitsFor

from .shard_driver import (
    GATEWAY,
    GROUP,
    LEASE_MS,
    LOCK_MS,
    T0,
    TOPIC,
    TOPIC_ID,
    ShardDriver,
    acknowledge,
    assign,
    config,
    durable,
    fence,
    fetch,
    gone,
    leases_over,
    load,
    log,
    reassign,
    release,
    reserve,
    tick,
    transition,
    unreserve,
)

OTHER = "gateway-2"
ACQUIRED = 1


def waiting(request_id: str, member: str = "m1", gateway: str = GATEWAY, reserves: bool = True) -> FetchRequest:
    """Return a fetch of a gateway's member that waits for long."""
    return replace(fetch(request_id, member, max_wait_ms=300_000), reply_to=gateway, reserves=reserves)


def empty_shard(*requests: ReserveRequest | FetchRequest, end: int = 0) -> ShardDriver:
    """Return a shard with a share-partition of a log with `end` records, after a batch with these requests."""
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, end)), *[shard.line(request, 0) for request in requests], at=0)
    return shard


def reserved(output: Output, gateway: str = GATEWAY) -> list[list[list[int]]]:
    """Return what is reserved for a gateway, by each response to its reserves."""
    return [
        response["acquired"]
        for response in output.responses
        if (response["type"], response["reply_to"]) == ("reserve", gateway)
    ]


def logged(output: Output) -> list[dict[str, Any]]:
    return output.tables.get("delivery_log", [])


def states(output: Output) -> list[dict[str, Any]]:
    return output.tables.get("share_group_state", [])


def test_offsets_after_the_log_are_reserved_while_a_fetch_waits() -> None:
    shard = empty_shard(waiting("f1"))
    output = shard.send(reserve("r1"), at=10)
    assert output.responses == [
        {
            "type": "reserve", "id": "r1", "reply_to": GATEWAY, "group_id": GROUP, "topic": TOPIC, "topic_id": TOPIC_ID,
            "partition": 0, "member_id": "", "error_code": 0, "error_message": None, "reservation_epoch": 1,
            "acquired": [[0, 9, 0]], "log_end_offset": 0,
            "record_lock_duration_ms": LOCK_MS, "static_record_lock_duration_ms": 300_000,
        }
    ]  # fmt: skip
    holder = (0, 9, ACQUIRED, 0, "gateway-1#1", None)
    assert states(output) == [durable("ShareUpdate", (0, -1), (-1, 10), -1, holder)]
    assert logged(output) == []
    assert output.waiting == WaitsFor.NOTHING.value
    assert (output.reservers, output.leases) == ([GATEWAY], {GATEWAY: T0 + 10 + LEASE_MS})


def test_records_that_are_there_are_acquired_and_nothing_is_reserved_before_that() -> None:
    shard = empty_shard()
    output = shard.batch(log(12), shard.line(waiting("f1"), 10), shard.line(reserve("r1"), 10), at=10)
    assert [response["acquired"] for response in output.responses] == [[[0, 9, 1]], []]
    assert output.responses[1]["retry_ms"] == RETRY_MS
    output = shard.send(waiting("f2"), reserve("r2"), at=20)
    assert [response["acquired"] for response in output.responses] == [[[10, 11, 1]], [[12, 21, 0]]]


def test_nothing_is_reserved_while_a_member_waits_that_cannot_reserve() -> None:
    shard = empty_shard(waiting("f1"), waiting("f2", "spark", "spark", reserves=False))
    output = shard.send(reserve("r1"), at=10)
    assert (reserved(output), output.responses[0]["retry_ms"]) == ([[]], RETRY_DENIED_MS)
    shard.send(release("left", "spark", epoch=3), at=20)
    assert reserved(shard.send(reserve("r2"), at=30)) == [[[0, 9, 0]]]


def test_gateways_are_told_that_members_wait_that_cannot_reserve() -> None:
    shard = empty_shard(reserve("r1"))
    output = shard.send(waiting("f1", "spark", "spark", reserves=False), at=20)
    assert [(response["type"], response["reply_to"]) for response in output.responses] == [(WANTED, GATEWAY)]
    assert shard.send(waiting("f2", "m2", OTHER), at=30).responses == []  # it reserves as well
    assert output.waiting == WaitsFor.RECORDS


def test_assignment_locks_from_its_append_and_is_logged_as_a_fetch() -> None:
    shard = empty_shard(reserve("r1"))
    output = shard.batch(shard.line(assign(0, 3), 700), shard.line(acknowledge("a", (0, 1, 1)), 800), at=2_000)
    assert shard.window() == [
        [2, 3, "ACQUIRED", 1, "m1", 700 + LOCK_MS],
        [4, 9, "ACQUIRED", 0, "gateway-1#1", None],
    ]
    assert logged(output) == [
        transition(0, 3, "AVAILABLE>ACQUIRED", "fetch", 1, until=700 + LOCK_MS),
        transition(0, 1, "ACQUIRED>ACKNOWLEDGED", "accept", 1),
    ]
    assert [response["error_code"] for response in output.responses] == [0]


def test_a_short_lock_is_as_long_as_it_was_told() -> None:
    shard = empty_shard(reserve("r1"))
    shard.batch(shard.line(assign(0, 3, lock_ms=1_000), 700), at=5_000)
    assert shard.window()[0] == [0, 3, "ACQUIRED", 1, "m1", 1_700]
    assert logged(shard.batch(tick(1_701), at=5_100)) == [transition(0, 3, "ACQUIRED>AVAILABLE", "lock_timeout", 1)]


def test_assignment_appended_within_the_lease_precedes_the_lapse() -> None:
    shard = empty_shard(reserve("r1"))
    shard.batch(shard.line(assign(0, 3), LEASE_MS), leases_over(GATEWAY), at=60_000)
    assert shard.window() == [[0, 3, "ACQUIRED", 1, "m1", LEASE_MS + LOCK_MS]]


@pytest.mark.parametrize(
    "request_row",
    [
        assign(8, 10),  # beyond the reservation
        assign(0, 3, gateway=OTHER),
        assign(0, 3, epoch=2),
    ],
)
def test_other_assignments_are_rejected_and_recorded(request_row: AssignRequest) -> None:
    shard, at = empty_shard(reserve("r1")), 10
    before = shard.window()
    output = shard.batch(shard.line(request_row, at), shard.line(replace(request_row, reply_to="me"), at), at=at)
    assert [response["error_code"] for response in output.responses] == [ErrorCode.INVALID_RECORD_STATE]
    assert len(output.rejected) == 1
    assert (shard.window(), logged(output)) == (before, [])


def test_assignment_appended_too_late_to_be_sent_has_no_effect() -> None:
    shard = empty_shard(reserve("r1"))
    output = shard.batch(shard.line(assign(0, 3, valid_until=99), 100), at=100)
    assert (output.responses, output.rejected, output.tables) == ([], [], {})


def test_reservation_of_an_ended_lease_leaves_no_trace() -> None:
    shard = empty_shard(reserve("r1"))
    assert shard.batch(tick(10 * LEASE_MS), leases_over(OTHER), at=LEASE_MS).reservers == [GATEWAY]
    output = shard.batch(leases_over(GATEWAY), at=LEASE_MS + 1)
    assert (shard.window(), output.reservers) == ([], [])
    assert states(output) == [durable("ShareUpdate", (0, -1), (-1, 0), -1)]  # the end offset ends the reservation
    assert logged(output) == []
    output = shard.batch(log(3), shard.line(fetch("f1"), LEASE_MS + 2), at=LEASE_MS + 2)
    assert [response["acquired"] for response in output.responses] == [[[0, 2, 1]]]


def test_records_of_an_ended_slice_before_another_one_go_to_waiting_members() -> None:
    shard = empty_shard(reserve("r1", 4))
    shard.send(reserve("r2", 4, OTHER), at=100)
    fetches = shard.line(waiting("f1", gateway=OTHER), LEASE_MS)
    output = shard.batch(log(6), leases_over(GATEWAY), fetches, at=LEASE_MS + 1)
    assert [response["acquired"] for response in output.responses] == [[[0, 3, 1]]]
    assert reserved(shard.send(reserve("r3", 4), at=LEASE_MS + 2)) == [[[8, 11, 0]]]


def test_fetches_of_a_gateway_end_with_its_lease() -> None:
    shard = empty_shard(reserve("r1", 4), waiting("f1"), waiting("f2", "m2", OTHER))
    output = shard.batch(log(4), leases_over(GATEWAY), at=LEASE_MS + 1)
    assert [(response["id"], response["acquired"]) for response in output.responses] == [
        ("f1", []),
        ("f2", [[0, 3, 1]]),
    ]


def test_unreserved_offsets_go_to_another_gateway() -> None:
    shard = empty_shard(reserve("r1"))
    output = shard.send(assign(0, 1), unreserve((0, 6)), reserve("r2", 8, OTHER), at=10)
    assert reserved(output, OTHER) == [[[2, 6, 0], [10, 12, 0]]]
    output = shard.send(unreserve(), reserve("r3", 5, OTHER), at=20)
    assert reserved(output, OTHER) == [[[2, 6, 0], [10, 12, 0]]]
    assert shard.window()[-1][:2] == [10, 12]


def test_new_epoch_ends_the_reservation_of_the_earlier_one() -> None:
    shard = empty_shard(reserve("r1"))
    assert reserved(shard.send(reserve("r2", 4, epoch=2), at=10)) == [[[0, 3, 0]]]
    output = shard.send(assign(0, 1, epoch=1), reserve("r3", 9, epoch=1), assign(2, 3, epoch=2), at=20)
    assert (reserved(output), len(output.rejected)) == ([[]], 1)
    assert shard.window() == [
        [0, 1, "ACQUIRED", 0, "gateway-1#2", None],
        [2, 3, "ACQUIRED", 1, "m1", 20 + LOCK_MS],
    ]


def test_reset_ends_reservations() -> None:
    shard = empty_shard(reserve("r1"))
    output = shard.batch(load(0, (0, 5), state_epoch=2), shard.line(assign(0, 1), 20), at=20)
    assert (len(output.rejected), shard.window(), logged(output)) == (1, [], [])


def test_requests_for_a_deleted_topic_are_rejected() -> None:
    shard = empty_shard(reserve("r1"))
    shard.batch(gone(), at=10)
    output = shard.send(reserve("r2"), assign(0, 1), unreserve(), at=20)
    assert [(response["id"], response["error_code"]) for response in output.responses] == [
        ("r2", ErrorCode.UNKNOWN_TOPIC_ID)
    ]
    assert len(output.rejected) == 2


def test_assignment_to_a_member_that_left_counts_and_is_released_at_once() -> None:
    shard = empty_shard(reserve("r1"))
    shard.send(release("left", epoch=3), at=10)
    output = shard.send(assign(0, 1, member_epoch=3), assign(2, 3, member_epoch=4), at=20)
    assert logged(output) == [
        transition(0, 1, "AVAILABLE>ACQUIRED", "fetch", 1, until=20 + LOCK_MS),
        transition(0, 1, "ACQUIRED>AVAILABLE", "member_left", 1),
        transition(2, 3, "AVAILABLE>ACQUIRED", "fetch", 1, until=20 + LOCK_MS),
    ]
    assert shard.window()[0] == [0, 1, "AVAILABLE", 1, None, None]


def test_reservation_counts_against_the_record_locks() -> None:
    shard = ShardDriver()
    first = config(partition_max_record_locks=12)
    output = shard.batch(first, load(), shard.line(reserve("r1"), 0), shard.line(reserve("r2", 9, OTHER), 0), at=0)
    assert (reserved(output), reserved(output, OTHER)) == ([[[0, 9, 0]]], [[[10, 11, 0]]])


def test_without_topic_ids_nothing_is_reserved() -> None:
    shard = ShardDriver()
    output = shard.batch(config(), load(0, (0, 0, None, False)), shard.line(reserve("r1"), 0), at=0)  # type: ignore[arg-type]
    assert reserved(output) == [[]]


def test_reservation_is_restored_from_the_tables() -> None:
    shard = empty_shard(reserve("r1"))
    (row,) = states(shard.batch(shard.line(assign(0, 1), 10), at=10))
    assert row["record_type"] == "ShareUpdate"
    batches = [
        [0, 1, ACQUIRED, 1, "m1", T0 + 10 + LOCK_MS],
        [2, 9, ACQUIRED, 0, "gateway-1#1", None],
    ]
    again = ShardDriver(SnapshotRules())
    again.batch(config(), load(0, None, header=shard.led().header.dump(), batches=batches), at=20)
    again.batch(log(5), again.line(assign(2, 3), 30), again.line(waiting("f1", "m2", OTHER), 30), at=30)
    assert again.window() == [
        [0, 1, "ACQUIRED", 1, "m1", 10 + LOCK_MS],
        [2, 3, "ACQUIRED", 1, "m1", 30 + LOCK_MS],
        [4, 9, "ACQUIRED", 0, "gateway-1#1", None],
    ]


def test_request_for_a_share_partition_that_is_not_loaded_waits_for_the_load() -> None:
    shard = ShardDriver()
    shard.batch(shard.line(reserve("r1"), 0), at=0)
    assert reserved(shard.batch(config(), load(), at=100)) == [[[0, 9, 0]]]


def test_request_that_is_given_back_in_the_same_batch_reserves_nothing() -> None:
    shard = empty_shard()
    assert reserved(shard.send(reserve("r1"), unreserve(), at=10)) == [[]]
    assert shard.window() == []
    assert reserved(shard.send(reserve("r2", epoch=2), at=20)) == [[[0, 9, 0]]]


def acquired_shard(limit_on: int = 4) -> ShardDriver:
    """Return a shard whose member m1 has acquired the records 0 to 3."""
    shard = ShardDriver()
    shard.batch(config(), load(0, (0, limit_on)), shard.line(fetch("f1"), 0), at=0)
    return shard


def test_released_records_are_delivered_to_the_member_in_the_row() -> None:
    shard = acquired_shard()
    output = shard.batch(shard.line(reassign(1, 2), 700), at=2_000)
    assert shard.window() == [
        [0, 0, "ACQUIRED", 1, "m1", LOCK_MS],
        [1, 2, "ACQUIRED", 2, "m2", 700 + LOCK_MS],
        [3, 3, "ACQUIRED", 1, "m1", LOCK_MS],
    ]
    assert logged(output) == [
        transition(1, 2, "ACQUIRED>AVAILABLE", "release", 1),
        transition(1, 2, "AVAILABLE>ACQUIRED", "fetch", 2, member="m2", until=700 + LOCK_MS),
    ]
    assert (output.responses, output.rejected) == ([], [])


def test_released_records_may_return_to_the_same_member() -> None:
    shard = acquired_shard()
    shard.batch(shard.line(reassign(0, 3, to="m1"), 5), shard.line(acknowledge("a", (0, 3, 1)), 6), at=10)
    assert shard.window() == []


def test_released_records_are_delivered_above_a_lowered_limit() -> None:
    """They have been sent already, and their next release archives them."""
    shard = acquired_shard()
    shard.batch(config(delivery_count_limit=1), shard.line(reassign(0, 3), 5), at=10)
    assert shard.window() == [[0, 3, "ACQUIRED", 2, "m2", 5 + LOCK_MS]]


@pytest.mark.parametrize(
    "request_row",
    [
        reassign(0, 4),  # beyond what the member holds
        reassign(0, 3, count=2),  # of another delivery
        reassign(0, 3, member="m3"),
    ],
)
def test_other_releases_to_a_member_are_rejected_and_recorded(request_row: ReassignRequest) -> None:
    shard = acquired_shard()
    before = shard.window()
    output = shard.batch(shard.line(request_row, 10), at=10)
    assert (len(output.rejected), shard.window(), logged(output)) == (1, before, [])


def test_release_to_a_member_appended_too_late_to_be_sent_has_no_effect() -> None:
    shard = acquired_shard()
    output = shard.batch(shard.line(reassign(0, 3, valid_until=99), 100), at=100)
    assert (output.responses, output.rejected, output.tables) == ([], [], {})


def test_released_records_for_a_fenced_process_are_released_again() -> None:
    shard = acquired_shard()
    shard.send(fence("new", 50, "m2"), at=50)
    shard.send(reassign(0, 3, incarnation="old"), at=60)
    assert shard.window() == [[0, 3, "AVAILABLE", 2, None, None]]
