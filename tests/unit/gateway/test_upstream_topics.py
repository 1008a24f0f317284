"""Checks whether topics exist: repeated after a while, without delaying other callers."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from sharegroup.gateway.upstream import cluster as upstream_cluster
from sharegroup.gateway.upstream.cluster import DELETED_FOR_S
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from tests.harness.event_loop import advance, until
from tests.unit.gateway.known_cluster import KnownCluster

ORDERS, BILLS, NEW = UUID(int=1), UUID(int=2), UUID(int=9)


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_cluster, "REFRESH_PAUSE_S", 0.0)


@pytest.fixture
def cluster() -> KnownCluster:
    return KnownCluster(orders=(ORDERS, 1), bills=(BILLS, 1))


async def test_topic_seen_just_now_is_not_checked_again(cluster: KnownCluster) -> None:
    assert await cluster.exists(ORDERS)
    assert await cluster.exists(ORDERS)
    assert cluster.asked == [["orders"]]
    await cluster.refresh()
    assert await cluster.exists(BILLS)
    assert cluster.asked == [["orders"], None]
    assert not await cluster.exists(NEW)  # an unknown id


async def test_topic_seen_a_second_ago_is_checked_again(monkeypatch: pytest.MonkeyPatch, cluster: KnownCluster) -> None:
    monkeypatch.setattr(upstream_cluster, "SEEN_FOR_S", 0.0)

    for _ in range(3):
        assert await cluster.exists(ORDERS)
    assert cluster.asked == [["orders"]] * 3


async def test_concurrent_callers_cause_one_request(cluster: KnownCluster) -> None:
    assert await asyncio.gather(*(cluster.exists(each) for each in (ORDERS, BILLS, ORDERS))) == [True] * 3
    assert cluster.asked == [["bills", "orders"]]


async def test_caller_does_not_wait_for_the_checks_of_others(cluster: KnownCluster) -> None:
    answer = asyncio.Event()
    ask = cluster._metadata

    async def slow(names: Any = None) -> Any:
        found = await ask(names)
        if names == {"orders"}:
            await answer.wait()
        return found

    cluster._metadata = slow  # type: ignore[method-assign]
    first = asyncio.ensure_future(cluster.exists(ORDERS))
    while not cluster.asked:
        await asyncio.sleep(0)
    second = asyncio.ensure_future(cluster.exists(ORDERS))
    assert await cluster.exists(BILLS)
    assert not first.done()
    answer.set()
    assert await first
    assert await second
    assert cluster.asked == [["orders"], ["bills"]]


@pytest.mark.parametrize("again", [None, NEW], ids=["deleted", "made again"])
async def test_deleted_topic_is_removed_and_watchers_are_called(again: UUID | None, cluster: KnownCluster) -> None:
    told: list[tuple[UUID, int]] = []
    cluster.on_log_change(lambda *changed: told.append(changed))
    del cluster.there["orders"]
    if again is not None:
        cluster.there["orders"] = again, 1
    assert not await cluster.exists(ORDERS)
    assert told == [(ORDERS, 0)]
    assert cluster.topic_by_id(ORDERS) is None
    assert (cluster.topic("orders") is not None) == (again is not None)
    assert again is None or await cluster.exists(again)
    assert cluster.topic_by_id(BILLS) is not None


@pytest.mark.parametrize("is_silent", [False, True])
async def test_silent_brokers_leave_a_topic_unchanged(
    is_silent: bool, monkeypatch: pytest.MonkeyPatch, cluster: KnownCluster
) -> None:
    monkeypatch.setattr(upstream_cluster, "CHECK_TIMEOUT_S", 0.01)

    async def never(names: Any = None) -> Any:
        cluster.asked.append(sorted(names))
        await asyncio.Event().wait()

    cluster.is_away = not is_silent
    if is_silent:
        cluster._metadata = never  # type: ignore[method-assign]
    assert await cluster.exists(ORDERS)
    assert await cluster.exists(ORDERS)
    assert cluster.asked == [["orders"]]


async def test_topics_are_checked_again_after_a_deletion_request(cluster: KnownCluster) -> None:
    """Neither checks sent before it nor, for a while, those sent after it count: brokers apply it one by one."""
    assert await cluster.exists(ORDERS)
    cluster.expire_seen_topics()
    assert await cluster.exists(ORDERS)
    del cluster.there["orders"]
    assert not await cluster.exists(ORDERS)


async def test_check_sent_before_a_deletion_request_is_not_used(cluster: KnownCluster) -> None:
    answers: list[asyncio.Future[None]] = []
    ask = cluster._metadata

    async def held(names: Any = None) -> Any:
        found = await ask(names)
        answers.append(asyncio.get_running_loop().create_future())
        await answers[-1]
        return found

    cluster._metadata = held  # type: ignore[method-assign]
    before = asyncio.ensure_future(cluster.exists(ORDERS))
    while len(answers) < 1:
        await asyncio.sleep(0)
    cluster.expire_seen_topics()
    del cluster.there["orders"]
    after = asyncio.ensure_future(cluster.exists(ORDERS))
    while len(answers) < 2:
        await asyncio.sleep(0)
    answers[0].set_result(None)
    assert await before
    assert not after.done()
    answers[1].set_result(None)
    assert not await after


async def test_outdated_broker_does_not_bring_back_a_deleted_topic(cluster: KnownCluster) -> None:
    cluster.mark_deleted(ORDERS)
    assert cluster.topic("orders") is None
    await cluster.refresh()
    assert cluster.topic_by_id(ORDERS) is None
    assert await cluster.topics(["orders", "bills"]) == {"bills": cluster.topic("bills")}
    cluster.there["orders"] = NEW, 1
    assert (await cluster.topics(["orders"]))["orders"].topic_id == NEW


async def test_topic_that_brokers_still_return_after_ten_minutes_exists(cluster: KnownCluster) -> None:
    """Outdated metadata of a broker may have misled the job, which then reported the new topic as deleted."""
    cluster.mark_deleted(ORDERS)
    advance(DELETED_FOR_S)
    cluster.mark_deleted(ORDERS)
    await until(lambda: ORDERS not in cluster._known._deleted)
    assert (await cluster.topics(["orders"]))["orders"].topic_id == ORDERS


async def test_made_id_is_used_again_for_a_new_topic_of_the_name(cluster: KnownCluster) -> None:
    cluster.there["orders"] = None, 1
    await cluster.refresh()
    made = cluster.topic("orders")
    assert made is not None
    assert made.has_made_id
    cluster.mark_deleted(made.topic_id)
    assert cluster.topic("orders") is None
    assert await cluster.topics(["orders"]) == {"orders": made}


async def test_made_id_is_used_again_if_the_gateway_saw_the_deletion_first(cluster: KnownCluster) -> None:
    cluster.there["orders"] = None, 1
    await cluster.refresh()
    made = cluster.topic("orders")
    assert made is not None
    del cluster.there["orders"]
    await cluster.refresh()
    assert cluster.topic("orders") is None
    cluster.mark_deleted(made.topic_id)
    cluster.there["orders"] = None, 1
    assert await cluster.topics(["orders"]) == {"orders": made}


async def test_newest_topics_are_returned_by_name(cluster: KnownCluster) -> None:
    cluster.there["orders"] = NEW, 1
    del cluster.there["bills"]
    found = await cluster.newest_topics(["orders", "bills", "nowhere"])
    assert {name: topic.topic_id for name, topic in found.items()} == {"orders": NEW}
    cluster.is_away = True
    with pytest.raises(UpstreamUnavailableError):
        await cluster.newest_topics(["nowhere"])
