"""How long requests may wait for others at the source of the share_partition query."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from sharegroup.job.clock.unread_requests import MAX_LINGER_MS, NO_DEMANDS, LingerRules, UnreadRequests
from sharegroup.protocol.rows.probe import PROBE
from sharegroup.protocol.rows.reservation_requests import AssignRequest, ReassignRequest
from sharegroup.protocol.rows.share_partition_requests import AcknowledgeRequest, FetchRequest, UnacquireRequest
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange, OffsetRange, WaitsFor

LINGER_MS, NOW_MS = 700, 1_000
RULES = LingerRules(4, LINGER_MS)
NAMED = ("1", "g", "t", "id", 5, "m", 1)
ROOM, RECORDS = WaitsFor.ROOM, WaitsFor.RECORDS
THEIR_SHARD, ANOTHER = "g\tid\t1", "g\tid\t2"
BAD = [b"", b"{", b"[1]", b"7", b"\xff\xfe", b"[" * 100_000, b'{"a": "\\ud800"}', b"{}", b'{"reply_to": ""}']


def acknowledge(*types: int, is_renew_ack: bool = False, reply_to: str = "", linger_ms: int = 0) -> bytes:
    batches = (AcknowledgementBatch(0, 9, types),)
    return AcknowledgeRequest(
        *NAMED, reply_to, batches=batches, is_renew_ack=is_renew_ack, linger_ms=linger_ms
    ).encode()


ACKNOWLEDGEMENT = acknowledge(AcknowledgeType.ACCEPT)
ANSWERED = acknowledge(AcknowledgeType.ACCEPT, reply_to="me")
LINGERING = acknowledge(AcknowledgeType.ACCEPT, reply_to="me", linger_ms=300)
ASSIGNED = AssignRequest(
    *NAMED,
    ranges=(OffsetRange(0, 9),),
    requester="gateway",
    reservation_epoch=1,
    lock_duration_ms=30_000,
    valid_until_ms=0,
).encode()
REASSIGNED = ReassignRequest(
    *NAMED,
    acquired=(AcquiredRange(0, 9, 1),),
    to_member_id="m2",
    requester="gateway",
    lock_duration_ms=30_000,
    valid_until_ms=0,
).encode()
RELEASED = UnacquireRequest(*NAMED, ranges=(OffsetRange(0, 0),)).encode()


def fetch(linger_ms: int = 0, reply_to: str = "me") -> bytes:
    return FetchRequest(*NAMED, reply_to, max_records=1, linger_ms=linger_ms).encode()


def lingers_ms(value: bytes, waiting: Mapping[str, WaitsFor] = NO_DEMANDS, rules: LingerRules | None = RULES) -> int:
    unread = UnreadRequests(rules)
    unread.add([value], waiting, NOW_MS)
    assert unread.due_ms is not None
    assert not unread.is_due(unread.due_ms - 1)
    assert unread.is_due(unread.due_ms)
    return unread.due_ms - NOW_MS


@pytest.mark.parametrize(
    ("value", "waiting", "expected_ms"),
    [
        (ACKNOWLEDGEMENT, NO_DEMANDS, LINGER_MS),
        (ACKNOWLEDGEMENT, {ANOTHER: ROOM}, LINGER_MS),
        (ACKNOWLEDGEMENT, {ANOTHER: ROOM, THEIR_SHARD: ROOM}, 0),
        (ACKNOWLEDGEMENT, {THEIR_SHARD: RECORDS}, LINGER_MS),
        (acknowledge(AcknowledgeType.GAP, AcknowledgeType.REJECT), {THEIR_SHARD: RECORDS}, LINGER_MS),
        (acknowledge(AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE), {THEIR_SHARD: RECORDS}, 0),
        (acknowledge(AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE), NO_DEMANDS, LINGER_MS),
        (acknowledge(AcknowledgeType.RENEW, is_renew_ack=True), {THEIR_SHARD: RECORDS}, 0),
        (ASSIGNED, {THEIR_SHARD: ROOM}, LINGER_MS),
        (REASSIGNED, {THEIR_SHARD: RECORDS}, LINGER_MS),
        (ANSWERED, NO_DEMANDS, 0),
        (LINGERING, NO_DEMANDS, 300),
        (LINGERING, {THEIR_SHARD: RECORDS, ANOTHER: ROOM}, 300),
        (LINGERING, {THEIR_SHARD: ROOM}, 0),
        (acknowledge(AcknowledgeType.RELEASE, reply_to="me", linger_ms=300), {THEIR_SHARD: RECORDS}, 0),
        (acknowledge(AcknowledgeType.ACCEPT, reply_to="me", linger_ms=9_000), NO_DEMANDS, LINGER_MS),
        (RELEASED, {THEIR_SHARD: RECORDS}, 0),
        (RELEASED, NO_DEMANDS, LINGER_MS),
        (fetch(), NO_DEMANDS, 0),
        (fetch(300), NO_DEMANDS, 300),
        (fetch(300), {THEIR_SHARD: ROOM}, 300),
        (fetch(MAX_LINGER_MS + 1), NO_DEMANDS, MAX_LINGER_MS),
        (fetch(9_000, reply_to=""), NO_DEMANDS, LINGER_MS),
        *[(value, {THEIR_SHARD: ROOM}, LINGER_MS) for value in BAD],
    ],
)
def test_a_request_lingers_unless_somebody_waits(
    value: bytes, waiting: Mapping[str, WaitsFor], expected_ms: int
) -> None:
    assert lingers_ms(value, waiting) == expected_ms


@pytest.mark.parametrize("linger_ms", ["1", 1.5, -1, True, None, 2**70, [1]])
def test_a_wrong_time_is_none(linger_ms: object) -> None:
    assert lingers_ms(json.dumps({"reply_to": "me", "linger_ms": linger_ms}).encode()) == 0


@pytest.mark.parametrize("value", [ACKNOWLEDGEMENT, fetch(300), b"no row at all"])
def test_where_nothing_lingers_nothing_does(value: bytes) -> None:
    assert lingers_ms(value, rules=None) == 0


def test_a_probe_does_not_linger() -> None:
    assert lingers_ms(PROBE.encode()) == 0


def test_the_first_due_request_makes_the_others_due() -> None:
    unread = UnreadRequests(RULES)
    assert not unread.is_due(2**60)
    for value, at_ms in ((ACKNOWLEDGEMENT, 0), (fetch(200), 100), (fetch(400), 150)):
        unread.add([value], NO_DEMANDS, at_ms)
    assert unread.due_ms == 300


def test_topics_are_returned_once() -> None:
    unread = UnreadRequests(RULES)
    other = FetchRequest("2", "g", "t", "id-2", 0, "m", 1, "me", max_records=1).encode()
    unread.add([ACKNOWLEDGEMENT, other, *BAD, b'{"topic_id": 7}', b'{"topic_id": ""}'], NO_DEMANDS, NOW_MS)
    assert unread.pop_topics() == {"id", "id-2"}
    assert unread.pop_topics() == set()


@pytest.mark.parametrize(
    "batches", [None, 1, "x", [1], [[1]], [[0, 1, 2, 3]], [[0, 1, None]], [[0, 1, [[1]]]], [[0, 1, [9]]]]
)
def test_an_unreadable_request_is_due_for_those_who_wait(batches: object) -> None:
    row = {"type": "acknowledge", "group_id": "g", "topic_id": "id", "partition": 5, "batches": batches}
    assert lingers_ms(json.dumps(row).encode(), {THEIR_SHARD: RECORDS}) == 0
