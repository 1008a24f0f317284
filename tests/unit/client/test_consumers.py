"""The two consumers, with brokers that a test scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sharegroup.client import (
    AcknowledgeType,
    AsyncShareConsumer,
    ConcurrentUseError,
    IllegalStateError,
    Record,
    RequestError,
    ShareConsumer,
    WakeupError,
)
from sharegroup.errors import ErrorCode
from sharegroup.kafka_clients.connections.unavailable import UpstreamLoginRejectedError, UpstreamUnavailableError
from sharegroup.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupHeartbeatRequest
from tests.unit.client.scripted_cluster import TOPIC, ScriptedCluster

Story = Callable[[AsyncShareConsumer, ScriptedCluster], Coroutine[Any, Any, None]]
PATIENCE_S = 60


def play(story: Story, connect_error: UpstreamUnavailableError | None = None, **settings: Any) -> ScriptedCluster:
    """Run a story with a consumer."""
    cluster = ScriptedCluster(connect_error)

    async def run() -> None:
        settings.setdefault("retry_backoff_ms", 1)
        async with AsyncShareConsumer(
            "broker-1:1,broker-2:2", group_id="billing", topics=[TOPIC], connector=cluster, **settings
        ) as consumer:
            await story(consumer, cluster)

    asyncio.run(run())
    return cluster


async def one_record(consumer: AsyncShareConsumer) -> Record[Any]:
    (record,) = await consumer.poll(PATIENCE_S)
    return record


def test_leader_that_a_response_names_is_used_at_once() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        assert (await one_record(consumer)).value == b"1"
        cluster.real_leader = 2
        assert (await one_record(consumer)).value == b"2"
        cluster.leader = 2

    play(story)


@pytest.mark.parametrize("fails_from", [ShareGroupHeartbeatRequest, ShareFetchRequest])
def test_unexpected_error_of_a_request_is_raised_by_the_poll(fails_from: type) -> None:
    """It neither ends the heartbeats silently nor repeats the request without a pause."""

    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        answer = cluster.answer
        failed: list[int] = []

        def fail(node_id: int, request: Any) -> Any:
            if isinstance(request, fails_from) and not failed:
                failed.append(node_id)
                raise ZeroDivisionError
            return answer(node_id, request)

        cluster.answer = fail  # type: ignore[method-assign]
        with pytest.raises(ZeroDivisionError):
            await consumer.poll(PATIENCE_S)
        assert (await one_record(consumer)).value == b"1"

    play(story)


def test_broker_that_stops_is_replaced_by_the_new_leader() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        assert (await one_record(consumer)).value == b"1"
        cluster.leader = cluster.real_leader = cluster.coordinator = 2
        cluster.stop(1)
        assert (await one_record(consumer)).value == b"2"

    play(story)


def test_acknowledgement_at_a_broker_that_stopped_is_reported() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        await one_record(consumer)
        cluster.leader = cluster.real_leader = 2
        cluster.stop(1)
        (error,) = (await consumer.commit_sync()).values()
        assert error is not None
        assert error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(story)


def test_coordinator_that_moved_is_found() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        await one_record(consumer)
        cluster.coordinator = 2
        consumer.subscribe([TOPIC, "bills"])
        while not any(node_id == 2 for node_id, _ in cluster.requests(ShareGroupHeartbeatRequest)):
            await consumer.poll(0)

    play(story)


def test_rejected_login_is_raised() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        with pytest.raises(RequestError, match="SASL_AUTHENTICATION_FAILED: wrong password"):
            await consumer.poll(PATIENCE_S)

    play(story, connect_error=UpstreamLoginRejectedError("wrong password"))


def test_brokers_that_do_not_answer_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        cluster.down = {1, 2}
        while cluster.attempts < 10:
            await consumer.poll(0.01)
        cluster.down = set()
        await one_record(consumer)

    play(story)
    assert caplog.text.count("no heartbeat possible, retrying: could not connect to broker") == 1


def test_broker_with_too_many_sessions_is_asked_again() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        cluster.next_errors = [ErrorCode.SHARE_SESSION_LIMIT_REACHED] * 3
        await one_record(consumer)

    cluster = play(story)
    epochs = [request.share_session_epoch for _, request in cluster.requests(ShareFetchRequest)]
    assert epochs == [0, 0, 0, 0]


def test_closing_ends_the_session_and_leaves() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        consumer.acknowledge(await one_record(consumer), AcknowledgeType.RELEASE)

    cluster = play(story, share_acknowledgement_mode="explicit")
    ((_, last),) = cluster.requests(ShareAcknowledgeRequest)
    assert last.share_session_epoch == -1
    assert last.topics[0].partitions[0].acknowledgement_batches[0].acknowledge_types == [2]
    assert cluster.requests(ShareGroupHeartbeatRequest)[-1][1].member_epoch == -1
    assert not any(connection.is_open for connection in cluster.connections)


def test_handler_loop_renews_while_it_polls() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        consumer.begin_handling()
        first = await one_record(consumer)
        second = await one_record(consumer)
        consumer.acknowledge(first, AcknowledgeType.RENEW)
        assert list((await consumer.commit_sync()).values()) == [None]
        for record in (first, second):
            consumer.acknowledge(record)
        assert list((await consumer.commit_sync()).values()) == [None]

    cluster = play(story, share_acknowledgement_mode="explicit")
    assert [request.is_renew_ack for _, request in cluster.requests(ShareAcknowledgeRequest)] == [True, False, False]


def test_two_polls_at_once_are_an_error() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        cluster.real_leader = 0  # no records
        waiting = asyncio.create_task(consumer.poll(PATIENCE_S))
        await asyncio.sleep(0)
        with pytest.raises(ConcurrentUseError):
            await consumer.poll()
        consumer.wakeup()
        with pytest.raises(WakeupError):
            await waiting

    play(story)


def test_wakeup_without_a_poll_ends_the_next_one() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        consumer.wakeup()
        with pytest.raises(WakeupError):
            await consumer.poll(PATIENCE_S)
        await one_record(consumer)

    play(story)


def test_topics_are_a_collection_of_names() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        for topics in ("orders", [""], [" "], []):
            with pytest.raises(ValueError, match="collection of names"):
                consumer.subscribe(topics)

    play(story)


def test_closed_consumer_refuses_calls_and_may_be_closed_again() -> None:
    consumer = ShareConsumer("broker-1:1", group_id="billing", topics=[TOPIC], connector=ScriptedCluster())
    consumer.poll(PATIENCE_S)
    consumer.close()
    consumer.close()
    with pytest.raises(IllegalStateError, match="Share consumer closed"):
        consumer.poll()
    with pytest.raises(IllegalStateError, match="Share consumer closed"):
        consumer.subscription()


def test_failing_callback_is_logged_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    with ShareConsumer("broker-1:1", group_id="billing", topics=[TOPIC], connector=ScriptedCluster()) as consumer:

        def fail(*_: Any) -> None:
            raise ValueError("a defect of the application")

        consumer.set_acknowledgement_commit_callback(fail)
        consumer.poll(PATIENCE_S)
        assert list(consumer.commit_sync().values()) == [None]
    assert "the acknowledgement commit callback failed" in caplog.text
