"""Reading the ends of logs: one session for each broker, whose partitions do not disturb each other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.gateway.records import tail_reader
from sharegroup.gateway.records.batch_cache import BatchCache, CacheKey
from sharegroup.gateway.records.log_reader import LogPosition
from sharegroup.gateway.records.tail_reader import LOST_AFTER_S, TailReader
from tests.harness.event_loop import advance, until
from tests.unit.gateway.known_cluster import KnownCluster
from tests.unit.gateway.tail_broker import TailBroker

A, B = UUID(int=1), UUID(int=2)
KEY_A, KEY_B = CacheKey(A, 0, False), CacheKey(B, 0, False)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_reader, "PACE_S", 0.0)
    monkeypatch.setattr(tail_reader, "RETRY_S", 0.0)


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

    def follow(self, topic_id: UUID, offset: int = 0) -> None:
        topic = self.cluster.topic_by_id(topic_id)
        assert topic is not None
        self.reader.follow(LogPosition(topic, 0, False), offset)


@contextmanager
def _closing(tails: Tails) -> Iterator[Tails]:
    try:
        yield tails
    finally:
        tails.reader.close()


def run(scenario: Callable[[Tails], Awaitable[None]]) -> None:
    async def main() -> None:
        with _closing(Tails()) as tails:
            await scenario(tails)

    asyncio.run(main())


def named(request: Any) -> list[tuple[UUID, int]]:
    return [(topic.topic_id, each.fetch_offset) for topic in request.topics for each in topic.partitions]


def test_new_batches_are_cached_and_reported() -> None:
    async def scenario(tails: Tails) -> None:
        tails.follow(A, 5)
        tails.broker.append(A, 5, 3)
        await until(lambda: bool(tails.read))
        assert tails.read == [(KEY_A, 8)]
        assert [chunk[:2] for chunk in tails.cache.lookup(KEY_A, 6)] == [(5, 7)]
        tails.broker.append(A, 8, 2)
        await until(lambda: len(tails.read) == 2)
        assert (tails.read[1], tails.reader.offset(KEY_A)) == ((KEY_A, 10), 10)

    run(scenario)


def test_partitions_of_a_broker_share_a_session_that_names_changes_only() -> None:
    async def scenario(tails: Tails) -> None:
        tails.follow(A, 5)
        tails.follow(B, 9)
        tails.broker.append(A, 5, 1)
        await until(lambda: len(tails.broker.requests) == 2)
        first, second = tails.broker.requests
        assert (first.session_id, first.session_epoch, named(first)) == (0, 0, [(A, 5), (B, 9)])
        assert (second.session_id, second.session_epoch, named(second)) == (7, 1, [(A, 6)])

    run(scenario)


def test_removed_partition_is_forgotten_and_its_records_are_ignored() -> None:
    async def scenario(tails: Tails) -> None:
        tails.follow(A, 5)
        tails.follow(B, 9)
        await until(lambda: bool(tails.broker.requests))
        tails.reader.remove(KEY_A)
        tails.broker.append(A, 5, 1)
        await until(lambda: len(tails.broker.requests) == 2)
        assert [each.topic_id for each in tails.broker.requests[1].forgotten_topics_data] == [A]
        assert (tails.read, tails.cache.last_offset(KEY_A)) == ([], -1)

    run(scenario)


def test_lost_session_and_lost_connection_begin_again_with_all_partitions() -> None:
    async def scenario(tails: Tails) -> None:
        tails.follow(A, 5)
        await until(lambda: bool(tails.broker.requests))
        tails.broker.error_code = 70  # FETCH_SESSION_ID_NOT_FOUND
        tails.broker.change()
        await until(lambda: len(tails.broker.requests) == 2)
        assert (tails.broker.requests[1].session_epoch, named(tails.broker.requests[1])) == (0, [(A, 5)])
        tails.broker.is_away = True
        tails.broker.change()
        await until(lambda: tails.broker.failures > 0)
        tails.broker.is_away = False
        await until(lambda: len(tails.broker.requests) == 3)
        assert (tails.broker.requests[2].session_epoch, named(tails.broker.requests[2])) == (0, [(A, 5)])

    run(scenario)


def test_offset_that_does_not_exist_is_reported_and_other_partitions_go_on() -> None:
    async def scenario(tails: Tails) -> None:
        tails.broker.log_start_offset = 8
        tails.follow(A, 5)
        tails.follow(B, 9)
        tails.broker.append(B, 9, 1)
        await until(lambda: bool(tails.read and tails.lost))
        assert (tails.read, tails.lost) == ([(KEY_B, 10)], [KEY_A])

    run(scenario)


def test_partition_is_read_again_after_its_broker_did_not_lead_it() -> None:
    async def scenario(tails: Tails) -> None:
        tails.broker.errors[A, 0] = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        tails.follow(A, 5)
        await until(lambda: bool(tails.cluster.asked))
        tails.broker.errors.clear()
        tails.broker.append(A, 5, 1)
        await until(lambda: bool(tails.read))
        assert (tails.read, tails.lost) == ([(KEY_A, 6)], [])

    run(scenario)


@pytest.mark.parametrize("failure", ["away", "not the leader"])
def test_partition_whose_reads_fail_for_long_is_lost(failure: str) -> None:
    async def scenario(tails: Tails) -> None:
        if failure == "away":
            tails.broker.is_away = True
        else:
            tails.broker.errors[A, 0] = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        tails.follow(A, 5)
        await until(lambda: bool(tails.broker.failures or tails.cluster.asked))
        assert tails.lost == []
        advance(1000 * LOST_AFTER_S)
        await until(lambda: bool(tails.lost))
        assert (tails.lost, tails.reader.offset(KEY_A)) == ([KEY_A], None)

    run(scenario)


def test_partition_with_a_successful_read_between_failures_is_not_lost() -> None:
    async def scenario(tails: Tails) -> None:
        tails.broker.is_away = True
        tails.follow(A, 5)
        await until(lambda: tails.broker.failures > 0)
        tails.broker.is_away = False
        tails.broker.append(A, 5, 1)
        await until(lambda: bool(tails.read))
        advance(1000 * LOST_AFTER_S)
        tails.broker.is_away, tails.broker.failures = True, 0
        tails.broker.change()
        await until(lambda: tails.broker.failures > 0)
        tails.broker.is_away = False
        tails.broker.append(A, 6, 1)
        await until(lambda: len(tails.read) == 2 or bool(tails.lost))
        assert tails.lost == []

    run(scenario)


def test_partition_moves_to_the_session_of_its_new_leader() -> None:
    async def scenario(tails: Tails) -> None:
        tails.follow(A, 5)
        await until(lambda: bool(tails.broker.requests))
        tails.cluster.there["orders"] = A, 2
        await tails.cluster.refresh()
        await until(lambda: len(tails.broker.requests) == 2)
        assert (tails.broker.requests[1].session_epoch, named(tails.broker.requests[1])) == (0, [(A, 5)])

    run(scenario)
