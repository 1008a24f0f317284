"""Polls and iterations that wait for a long time, or whose fetches bring nothing to return."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pytest

from sharegroup.client import AsyncShareConsumer, IllegalStateError
from sharegroup.client.connector import UpstreamUnavailableError
from sharegroup.client.testing import RecordState
from sharegroup.protocol.messages import ShareGroupHeartbeatRequest
from tests.harness.event_loop import settle, until
from tests.unit.client.members import MEMBER, PATIENCE_S, group_of
from tests.unit.client.scripted_cluster import TOPIC, ScriptedCluster


async def waiting(consumer: AsyncShareConsumer, iterator: Any) -> asyncio.Task[Any]:
    """Return a task that waits for the next record. Its fetch is in progress, and nothing else is."""

    async def following() -> Any:
        return await anext(iterator)

    task = asyncio.create_task(following())
    await until(lambda: bool(consumer._requests._fetching) and consumer._requests._refreshing is None)
    return task


def play(story: Coroutine[Any, Any, None]) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await story

    asyncio.run(run())


def test_iteration_goes_on_after_a_record_that_cannot_be_decoded() -> None:
    group = group_of(b"1")

    async def story() -> None:
        async with AsyncShareConsumer(connector=group, **MEMBER, value_deserializer=json.loads) as consumer:
            iterator = aiter(consumer)
            assert (await anext(iterator)).value == 1
            task = await waiting(consumer, iterator)
            group.produce("orders", b"{not JSON")
            await until(lambda: group.records("orders")[1].state is RecordState.ARCHIVED)
            group.produce("orders", b"3")
            assert (await task).value == 3

    play(story())


def test_iteration_goes_on_after_a_fetch_of_gaps_alone() -> None:
    cluster = ScriptedCluster()
    fetch, is_gap = cluster._fetch, True

    def fetch_gap_first(node_id: int, request: Any) -> Any:
        nonlocal is_gap
        response = fetch(node_id, request)
        if is_gap:
            response.responses[0].partitions[0].records = b""  # a transaction marker or a compacted record
        is_gap = False
        return response

    async def story() -> None:
        async with AsyncShareConsumer("broker-1:1", group_id="g", topics=[TOPIC], connector=cluster) as consumer:
            iterator = aiter(consumer)
            assert (await anext(iterator)).offset == 0
            cluster.has_records.clear()
            cluster._fetch = fetch_gap_first  # type: ignore[method-assign]
            task = await waiting(consumer, iterator)
            cluster.has_records.set()
            assert (await task).offset == 2

    play(story())


def test_iteration_that_waits_longer_than_the_poll_interval_stays_in_its_group() -> None:
    group = group_of()

    async def story() -> None:
        async with AsyncShareConsumer(connector=group, **MEMBER, max_poll_interval_ms=20_000) as consumer:
            task = await waiting(consumer, aiter(consumer))
            for _ in range(30):
                group.advance(1_000)
                await settle()
            group.produce("orders", b"0")
            assert (await task).value == b"0"

    play(story())


def test_closing_ends_the_iteration_of_another_task() -> None:
    group = group_of()

    async def story() -> None:
        consumer = AsyncShareConsumer(connector=group, **MEMBER)
        task = await waiting(consumer, aiter(consumer))
        await consumer.close()
        with pytest.raises(IllegalStateError, match="closed"):
            await task

    play(story())


def test_closed_consumer_sends_no_heartbeats_although_its_last_one_was_not_answered() -> None:
    cluster = ScriptedCluster()
    cluster.coordinator = 2
    servers = "broker-1:1,broker-2:2"

    async def story() -> None:
        consumer = AsyncShareConsumer(servers, group_id="g", topics=[TOPIC], connector=cluster, retry_backoff_ms=1)
        await consumer.poll(PATIENCE_S)
        (connection,) = [each for each in cluster.connections if each.node_id == 2]
        is_asked = asyncio.Event()

        async def hang(*_: Any) -> Any:
            is_asked.set()
            await until(lambda: not connection.is_open)
            raise UpstreamUnavailableError("the connection is closed")

        connection.ask = hang  # type: ignore[method-assign]
        consumer.subscribe([TOPIC, "bills"])  # a heartbeat is due
        await consumer.poll(0)
        await is_asked.wait()
        await consumer.close(0.01)
        sent = len(cluster.sent)
        assert not any(each.is_open for each in cluster.connections)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not [request for _, request in cluster.sent[sent:] if isinstance(request, ShareGroupHeartbeatRequest)]

    play(story())
