"""Reading the ends of logs: one session for each broker, whose partitions do not disturb each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.gateway.records import tail_reader
from sharegroup.gateway.records.batch_cache import BatchCache, CacheKey, batches_from
from sharegroup.gateway.records.log_reader import LogPosition
from sharegroup.gateway.records.slicing import Limits, slice_response
from sharegroup.gateway.records.tail_reader import LOST_AFTER_S, TailReader
from sharegroup.types import AcquiredRange
from tests.harness.event_loop import EventLoop, advance, until
from tests.unit.gateway.known_cluster import KnownCluster
from tests.unit.gateway.tail_broker import TailBroker

A, B = UUID(int=1), UUID(int=2)
KEY_A, KEY_B = CacheKey(A, 0, False), CacheKey(B, 0, False)


class Sent(NamedTuple):
    """What a Fetch request names."""

    session_id: int
    epoch: int
    offsets: dict[UUID, int]
    forgotten: list[UUID]


class Tails:
    """A reader of the topics `orders` and `bills`, both on node 1, and what it has reported."""

    def __init__(self) -> None:
        self.cluster = KnownCluster(orders=(A, 1), bills=(B, 1))
        self.broker, self.cache = TailBroker(), BatchCache(10**6)
        self.read: list[tuple[CacheKey, int]] = []
        self.lost: list[CacheKey] = []
        self.reader = TailReader(
            self.cluster, self.broker, self.cache, lambda key, offset: self.read.append((key, offset)), self.lost.append
        )
        self._requests = 0

    def follow(self, topic_id: UUID, offset: int) -> None:
        topic = self.cluster.topic_by_id(topic_id)
        assert topic is not None
        self.reader.follow(LogPosition(topic, 0, False), offset)

    async def request(self) -> Sent:
        """Wait for the next request."""
        await until(lambda: len(self.broker.requests) > self._requests)
        request = self.broker.requests[self._requests]
        self._requests += 1
        offsets = {topic.topic_id: each.fetch_offset for topic in request.topics for each in topic.partitions}
        forgotten = [topic.topic_id for topic in request.forgotten_topics_data]
        return Sent(request.session_id, request.session_epoch, offsets, forgotten)

    async def fail(self) -> None:
        """Take the broker away, and wait until a read has failed."""
        self.broker.is_away, self.broker.failures = True, 0
        self.broker.change()
        await until(lambda: self.broker.failures)


@pytest.fixture
def tails(loop: EventLoop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tails]:
    monkeypatch.setattr(tail_reader, "PACE_S", 0.0)
    monkeypatch.setattr(tail_reader, "RETRY_S", 0.0)
    tails = Tails()
    yield tails
    loop.call(tails.reader.close)


async def test_new_batches_are_cached_and_reported(tails: Tails) -> None:
    tails.follow(A, 5)
    tails.broker.append(A, 5, 3)
    await until(lambda: tails.read)
    assert tails.read == [(KEY_A, 8)]
    assert [chunk[:2] for chunk in tails.cache.lookup(KEY_A, 6)] == [(5, 7)]
    tails.broker.append(A, 8, 2)
    await until(lambda: len(tails.read) == 2)
    assert (tails.read[1], tails.reader.offset(KEY_A)) == ((KEY_A, 10), 10)


async def test_partitions_of_a_broker_share_a_session_that_names_changes_only(tails: Tails) -> None:
    tails.follow(A, 5)
    tails.follow(B, 9)
    assert await tails.request() == Sent(0, 0, {A: 5, B: 9}, [])
    tails.broker.append(A, 5, 1)
    assert await tails.request() == Sent(7, 1, {A: 6}, [])


async def test_removed_partition_is_forgotten_and_its_records_are_ignored(tails: Tails) -> None:
    tails.follow(A, 5)
    tails.follow(B, 9)
    await tails.request()
    tails.reader.remove(KEY_A)
    tails.broker.append(A, 5, 1)
    assert (await tails.request()).forgotten == [A]
    assert (tails.read, tails.cache.last_offset(KEY_A)) == ([], -1)


async def test_lost_session_and_lost_connection_begin_again_with_all_partitions(tails: Tails) -> None:
    beginning = Sent(0, 0, {A: 5}, [])
    tails.follow(A, 5)
    assert await tails.request() == beginning
    tails.broker.error_code = int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    tails.broker.change()
    assert await tails.request() == beginning
    await tails.fail()
    tails.broker.is_away = False
    assert await tails.request() == beginning


async def test_offset_that_does_not_exist_is_reported_and_other_partitions_go_on(tails: Tails) -> None:
    tails.broker.log_start_offset = 8
    tails.follow(A, 5)
    tails.follow(B, 9)
    tails.broker.append(B, 9, 1)
    await until(lambda: tails.read and tails.lost)
    assert (tails.read, tails.lost) == ([(KEY_B, 10)], [KEY_A])


async def test_partition_is_read_again_after_its_broker_did_not_lead_it(tails: Tails) -> None:
    tails.broker.errors[A, 0] = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    tails.follow(A, 5)
    await until(lambda: tails.cluster.asked)
    tails.broker.errors.clear()
    tails.broker.append(A, 5, 1)
    await until(lambda: tails.read)
    assert (tails.read, tails.lost) == ([(KEY_A, 6)], [])


@pytest.mark.parametrize("failure", ["away", "not the leader"])
async def test_partition_whose_reads_fail_for_long_is_lost(tails: Tails, failure: str) -> None:
    tails.broker.is_away = failure == "away"
    tails.broker.errors[A, 0] = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    tails.follow(A, 5)
    await until(lambda: tails.broker.failures or tails.cluster.asked)
    assert tails.lost == []
    advance(LOST_AFTER_S)
    await until(lambda: tails.lost)
    assert (tails.lost, tails.reader.offset(KEY_A)) == ([KEY_A], None)


async def test_partition_of_a_broker_that_rejects_all_requests_is_lost(tails: Tails) -> None:
    tails.broker.error_code, tails.broker.rejects_all = int(ErrorCode.KAFKA_STORAGE_ERROR), True
    tails.follow(A, 5)
    await until(lambda: len(tails.broker.requests) == 2)
    assert tails.lost == []
    advance(LOST_AFTER_S)
    await until(lambda: tails.lost)
    assert tails.lost == [KEY_A]


async def test_reads_of_another_partition_do_not_count_for_one_whose_reads_fail(tails: Tails) -> None:
    tails.broker.errors[A, 0] = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    tails.follow(A, 5)
    tails.follow(B, 9)
    await until(lambda: tails.cluster.asked and tails.reader.offset(KEY_A) == 5)
    tails.broker.append(B, 9, 1)  # the response to a request without the partition that has been added again
    await until(lambda: tails.read)
    advance(LOST_AFTER_S)
    await until(lambda: tails.lost)
    assert tails.lost == [KEY_A]


async def test_partition_with_a_successful_read_between_failures_is_not_lost(tails: Tails) -> None:
    tails.follow(A, 5)
    await tails.fail()
    tails.broker.is_away = False
    tails.broker.append(A, 5, 1)
    await until(lambda: tails.read)
    advance(LOST_AFTER_S)
    await tails.fail()
    tails.broker.is_away = False
    tails.broker.append(A, 6, 1)
    await until(lambda: len(tails.read) == 2 or tails.lost)
    assert tails.lost == []


async def test_partition_moves_to_the_session_of_its_new_leader(tails: Tails) -> None:
    tails.follow(A, 5)
    await tails.request()
    tails.cluster.there["orders"] = A, 2
    await tails.cluster.refresh()
    assert await tails.request() == Sent(0, 0, {A: 5}, [])


async def test_response_for_an_offset_that_is_no_longer_asked_for_is_ignored(tails: Tails) -> None:
    """It was stored for the new offset, and its records after a hole: the hole would be acknowledged as a gap."""
    tails.broker.append(A, 5, 5)  # the log has 5..9
    tails.follow(A, 10)
    assert (await tails.request()).offsets == {A: 10}  # this read waits at the broker
    tails.reader.remove(KEY_A)
    tails.follow(A, 5)
    tails.broker.append(A, 10, 2)  # answers the read at 10
    await until(lambda: tails.read)
    part = batches_from(tails.cache.lookup(KEY_A, 5), 5, 10**6)
    assert part is not None
    taken = slice_response([AcquiredRange(5, 11, 1)], part.batches, part.covered, Limits(500, 10**6, 500))
    assert (taken.gaps, [tuple(each) for each in taken.acquired]) == ([], [(5, 11, 1)])


async def test_corrupt_batch_loses_its_partition_and_no_other(tails: Tails) -> None:
    tails.follow(A, 5)
    tails.follow(B, 9)
    await tails.request()
    tails.broker.append_corrupt(A, 5)
    await until(lambda: tails.lost == [KEY_A])
    tails.broker.append(B, 9, 1)
    await until(lambda: (KEY_B, 10) in tails.read)
