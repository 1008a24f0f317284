"""How long requests may wait for others at the source of the share_partition query."""

from __future__ import annotations

import json

import pytest

from sharegroup.protocol.share_partition_requests import AcknowledgeRequest, FetchRequest
from sharegroup.types import AcknowledgementBatch, AcknowledgeType
from sharegroup.watch.unread_requests import LINGER_MS, MOST_MS, UnreadRequests

SHARDS, NOW_MS = 4, 1_000
NAMED = ("1", "g", "t", "id", 5, "m", 1)
ACKNOWLEDGEMENT = AcknowledgeRequest(*NAMED, batches=(AcknowledgementBatch(0, 0, (AcknowledgeType.ACCEPT,)),)).encode()
THEIR_SHARD, ANOTHER = "g\tid\t1", "g\tid\t2"
BAD = [b"", b"{", b"[1]", b"7", b"\xff\xfe", b"[" * 100_000, b'{"a": "\\ud800"}', b"{}", b'{"reply_to": ""}']


def fetch(linger_ms: int = 0, reply_to: str = "me") -> bytes:
    return FetchRequest(*NAMED, reply_to, max_records=1, linger_ms=linger_ms).encode()


def lingers_ms(value: bytes, waiting: set[str] | None = None, shards: int | None = SHARDS) -> int:
    unread = UnreadRequests(shards)
    unread.add([value], waiting or set(), NOW_MS)
    assert unread.due_ms is not None
    assert not unread.are_due(unread.due_ms - 1)
    assert unread.are_due(unread.due_ms)
    return unread.due_ms - NOW_MS


@pytest.mark.parametrize(
    ("value", "waiting", "expected_ms"),
    [
        (ACKNOWLEDGEMENT, set(), LINGER_MS),
        (ACKNOWLEDGEMENT, {ANOTHER}, LINGER_MS),
        (ACKNOWLEDGEMENT, {ANOTHER, THEIR_SHARD}, 0),
        (fetch(), set(), 0),
        (fetch(300), set(), 300),
        (fetch(300), {THEIR_SHARD}, 300),
        (fetch(MOST_MS + 1), set(), MOST_MS),
        (fetch(9_000, reply_to=""), set(), LINGER_MS),
        *[(value, {THEIR_SHARD}, LINGER_MS) for value in BAD],
    ],
)
def test_a_request_lingers_unless_somebody_waits(value: bytes, waiting: set[str], expected_ms: int) -> None:
    assert lingers_ms(value, waiting) == expected_ms


@pytest.mark.parametrize("linger_ms", ["1", 1.5, -1, True, None, 2**70, [1]])
def test_a_wrong_time_is_none(linger_ms: object) -> None:
    assert lingers_ms(json.dumps({"reply_to": "me", "linger_ms": linger_ms}).encode()) == 0


@pytest.mark.parametrize("value", [ACKNOWLEDGEMENT, fetch(300), b"no row at all"])
def test_where_nothing_lingers_nothing_does(value: bytes) -> None:
    assert lingers_ms(value, shards=None) == 0


def test_the_first_that_is_due_takes_the_others_along() -> None:
    unread = UnreadRequests(SHARDS)
    assert not unread.are_due(2**60)
    for value, at_ms in ((ACKNOWLEDGEMENT, 0), (fetch(200), 100), (fetch(400), 150)):
        unread.add([value], (), at_ms)
    assert unread.due_ms == 300


def test_topics_are_told_once() -> None:
    unread = UnreadRequests(SHARDS)
    other = FetchRequest("2", "g", "t", "id-2", 0, "m", 1, "me", max_records=1).encode()
    unread.add([ACKNOWLEDGEMENT, other, *BAD, b'{"topic_id": 7}', b'{"topic_id": ""}'], (), NOW_MS)
    assert unread.take_topics() == {"id", "id-2"}
    assert unread.take_topics() == set()
