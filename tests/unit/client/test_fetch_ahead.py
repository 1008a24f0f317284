"""Fetching ahead: the next fetch is sent before a poll returns. Each response of the brokers has one record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sharegroup.client import AsyncShareConsumer
from sharegroup.client.testing import Cause, RecordState
from sharegroup.client.testing.settable_clock import SettableClock
from sharegroup.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest
from tests.unit.client.members import EXPLICIT, MEMBER, PATIENCE_S, group_of
from tests.unit.client.scripted_cluster import TOPIC, ScriptedCluster

Story = Callable[[AsyncShareConsumer, ScriptedCluster], Coroutine[Any, Any, None]]


def play(story: Story, **settings: Any) -> ScriptedCluster:
    """Run a story with a consumer whose responses are full, unless `max_poll_records` is higher."""
    cluster = ScriptedCluster()
    cluster.clock = SettableClock()

    async def run() -> None:
        async with AsyncShareConsumer(
            "broker-1:1", group_id="billing", topics=[TOPIC], connector=cluster, **{"max_poll_records": 1, **settings}
        ) as consumer:
            await story(consumer, cluster)

    asyncio.run(run())
    return cluster


async def poll(consumer: AsyncShareConsumer) -> int:
    """Return the offset of the next record."""
    (record,) = await consumer.poll(PATIENCE_S)
    return record.offset


async def begin(consumer: AsyncShareConsumer) -> None:
    """Poll twice: then the consumer knows how long the application needs."""
    assert [await poll(consumer), await poll(consumer)] == [0, 1]


async def settle() -> None:
    """Let all answers arrive."""
    for _ in range(20):
        await asyncio.sleep(0)


def fetches(cluster: ScriptedCluster) -> list[Any]:
    return [request for _, request in cluster.sent if isinstance(request, ShareFetchRequest)]


def acknowledged(request: Any) -> list[tuple[int, int]]:
    """Return the ranges of offsets that a request acknowledges."""
    return [
        (batch.first_offset, batch.last_offset)
        for topic in request.topics
        for part in topic.partitions
        for batch in part.acknowledgement_batches
    ]


def test_next_fetch_is_sent_before_a_poll_returns() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        await begin(consumer)
        assert [request.max_wait_ms for request in fetches(cluster)] == [500, 500, 0]
        assert await poll(consumer) == 2
        assert [request.max_wait_ms for request in fetches(cluster)] == [500, 500, 0, 0]

    play(story)


def test_acknowledgements_ride_on_the_fetch_after_their_poll() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        await begin(consumer)
        for offset in (2, 3):
            assert await poll(consumer) == offset
        assert [acknowledged(request) for request in fetches(cluster)] == [[], [(0, 0)], [], [(1, 1)], [(2, 2)]]
        assert [request.share_session_epoch for request in fetches(cluster)] == [0, 1, 2, 3, 4]
        assert not cluster.requests(ShareAcknowledgeRequest)

    play(story)


def test_iteration_fetches_ahead() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        async for record in consumer:
            assert len(fetches(cluster)) == record.offset + (1 if record.offset == 0 else 2)
            await settle()
            if record.offset == 3:
                break
        assert [acknowledged(request) for request in fetches(cluster)] == [[], [(0, 0)], [], [(1, 1)], [(2, 2)]]

    play(story)


def test_cancelled_poll_keeps_the_records() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        polling = asyncio.create_task(consumer.poll(PATIENCE_S))
        while not cluster.requests(ShareFetchRequest):
            await asyncio.sleep(0)
        polling.cancel()
        await asyncio.wait([polling])
        await settle()
        assert await poll(consumer) == 0

    play(story)


def test_one_response_waits_for_the_next_poll() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        await begin(consumer)
        await settle()
        assert len(cluster.requests(ShareFetchRequest)) == 3
        assert [await poll(consumer), await poll(consumer)] == [2, 3]

    play(story)


def test_nothing_is_fetched_ahead_without_a_backlog() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        await begin(consumer)
        assert await poll(consumer) == 2
        assert [request.max_wait_ms for request in fetches(cluster)] == [500] * 3

    play(story, max_poll_records=3)


def test_slow_application_gets_nothing_ahead() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        assert isinstance(cluster.clock, SettableClock)
        await poll(consumer)
        cluster.clock.advance(8_000)
        assert await poll(consumer) == 1
        assert [request.max_wait_ms for request in fetches(cluster)] == [500] * 2

    play(story)


@pytest.mark.parametrize("is_answered", [True, False])
def test_record_whose_lock_can_have_ended_is_not_handed_out(is_answered: bool) -> None:
    """The lock may begin when the fetch is sent, also if the response arrives later."""

    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        assert isinstance(cluster.clock, SettableClock)
        await begin(consumer)
        if is_answered:
            await settle()
        cluster.clock.advance(30_000)
        assert await poll(consumer) == 3
        assert (2, 2) not in [one for request in fetches(cluster) for one in acknowledged(request)]

    play(story)


def test_commit_is_sent_after_the_fetch_ahead_without_a_poll() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        for _ in range(2):
            (record,) = await consumer.poll(PATIENCE_S)
            cluster.answers.clear()
            consumer.acknowledge(record)
            if record.offset == 0:
                cluster.answers.set()
        consumer.commit_async()
        await settle()
        assert not cluster.requests(ShareAcknowledgeRequest)
        cluster.answers.set()
        await settle()
        assert [acknowledged(request) for _, request in cluster.requests(ShareAcknowledgeRequest)] == [[(1, 1)]]
        assert await poll(consumer) == 2

    play(story, **EXPLICIT)


def test_closing_gives_back_what_was_fetched_ahead() -> None:
    group = group_of(b"0", b"1", b"2")

    async def story() -> None:
        settings = {**MEMBER, **EXPLICIT, "max_poll_records": 1, "share_acquire_mode": "record_limit"}
        async with AsyncShareConsumer(connector=group, **settings) as consumer:
            for _ in range(2):
                (record,) = await consumer.poll(PATIENCE_S)
                consumer.acknowledge(record)
            while group.records("orders")[2].state is not RecordState.ACQUIRED:
                await asyncio.sleep(0)

    asyncio.run(story())
    *accepted, ahead = group.records("orders")
    assert [record.causes for record in accepted] == [(Cause.FETCH, Cause.ACCEPT)] * 2
    assert (ahead.causes, ahead.delivery_count) == ((Cause.FETCH, Cause.UNACQUIRE), 0)
