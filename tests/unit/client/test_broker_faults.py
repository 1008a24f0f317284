"""Consumers and faults of brokers, which a test scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

import pytest

from sharegroup.client import (
    AsyncShareConsumer,
    Record,
    RequestError,
    ShareGroupsUnsupportedError,
    WakeupError,
)
from sharegroup.client.requests import MODES_VERSION
from sharegroup.client.testing.messages import API_RANGES
from sharegroup.errors import ErrorCode
from sharegroup.kafka_clients.connections.unavailable import UpstreamLoginRejectedError, UpstreamUnavailableError
from sharegroup.protocol.messages import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
from tests.harness.event_loop import advance, settle, until
from tests.unit.client.members import PATIENCE_S
from tests.unit.client.scripted_cluster import TOPIC, ScriptedCluster

Story = Callable[[AsyncShareConsumer, ScriptedCluster], Coroutine[Any, Any, None]]


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


def test_fetch_may_take_longer_than_other_requests() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        def fetches() -> int:
            return sum(isinstance(request, ShareFetchRequest) for _, request in cluster.sent)

        cluster.has_records.clear()
        polling = asyncio.ensure_future(one_record(consumer))
        await until(fetches)
        for _ in range(50):
            advance(1)
            await settle()
        assert fetches() == 1
        cluster.has_records.set()
        await polling

    play(story, request_timeout_ms=10_000, fetch_max_wait_ms=60_000)


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


def test_commit_ends_after_its_timeout_and_the_callback_gets_the_result() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        results: list[RequestError | None] = []
        consumer.set_acknowledgement_commit_callback(lambda _, error: results.append(error))
        await one_record(consumer)
        cluster.answers.clear()
        (error,) = (await consumer.commit_sync(0.01)).values()
        assert error is not None
        assert error.code == ErrorCode.REQUEST_TIMED_OUT
        assert results == []
        cluster.answers.set()
        while not results:
            await consumer.poll(0)
        assert results == [None]

    play(story)


def test_acknowledgement_queued_during_another_is_sent_without_a_pause() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        consumer.begin_handling()
        records = [await one_record(consumer), await one_record(consumer)]
        await settle()
        for record in records:
            consumer.acknowledge(record)
            cluster.answers.clear()
            consumer.commit_async()
            consumer.send_without_poll(is_last=False)
            await settle()
        cluster.answers.set()
        assert list((await consumer.commit_sync(PATIENCE_S)).values()) == [None]
        assert len(cluster.requests(ShareAcknowledgeRequest)) == 2

    play(story, retry_backoff_ms=1_000 * PATIENCE_S, retry_backoff_max_ms=1_000 * PATIENCE_S)


def test_wakeup_ends_a_commit_that_waits() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        await one_record(consumer)
        cluster.answers.clear()
        waiting = asyncio.create_task(consumer.commit_sync(PATIENCE_S))
        await settle()
        consumer.wakeup()
        with pytest.raises(WakeupError):
            await waiting
        cluster.answers.set()
        assert list((await consumer.commit_sync()).values()) == [None]  # the request was not lost

    play(story)


def test_closing_does_not_wait_for_brokers_beyond_its_timeout(caplog: pytest.LogCaptureFixture) -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        await one_record(consumer)
        cluster.answers.clear()
        await consumer.close(0.01)

    play(story)
    assert "the brokers did not respond in time; locks end by timeout" in caplog.text


def test_broker_that_the_metadata_no_longer_has_is_unavailable() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        await one_record(consumer)
        del consumer._requests._cluster._addresses[cluster.leader]
        with pytest.raises(UpstreamUnavailableError, match=f"broker {cluster.leader} is unknown"):
            await consumer._requests._cluster.version_at(cluster.leader, ShareFetchRequest())

    play(story)


def test_record_limit_at_a_broker_without_acquire_modes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check, such a broker would ignore the mode."""
    fetch = ShareFetchRequest.API_KEY
    monkeypatch.setitem(API_RANGES, fetch, (1, MODES_VERSION - 1))

    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        with pytest.raises(ShareGroupsUnsupportedError, match="record_limit needs Kafka"):
            await consumer.poll(PATIENCE_S)
        assert cluster.requests(ShareFetchRequest) == []

    play(story, share_acquire_mode="record_limit")


def test_client_instance_id_is_the_brokers_and_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(API_RANGES, GetTelemetrySubscriptionsRequest.API_KEY, (0, 0))
    given, asked = UUID(int=9), list[UUID]()

    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        answer = cluster.answer

        def answer_telemetry(node_id: int, request: Any) -> Any:
            if not isinstance(request, GetTelemetrySubscriptionsRequest):
                return answer(node_id, request)
            asked.append(request.client_instance_id)
            return GetTelemetrySubscriptionsResponse(error_code=0, client_instance_id=given)

        cluster.answer = answer_telemetry  # type: ignore[method-assign]
        assert [await consumer.client_instance_id() for _ in range(2)] == [given, given]
        assert asked == [UUID(int=0)]

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


def test_outage_is_logged_at_its_start_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        cluster.down = {1, 2}
        while cluster.attempts < 10:
            await consumer.poll(0.01)
        cluster.down = set()
        await one_record(consumer)

    play(story)
    assert caplog.text.count(": a heartbeat failed; retrying: could not connect to broker") == 1
    assert caplog.text.count(": the coordinator responds to heartbeats again after ") == 1


def test_broker_with_too_many_sessions_is_asked_again() -> None:
    async def story(consumer: AsyncShareConsumer, cluster: ScriptedCluster) -> None:
        cluster.next_errors = [ErrorCode.SHARE_SESSION_LIMIT_REACHED] * 3
        await one_record(consumer)

    cluster = play(story)
    epochs = [request.share_session_epoch for _, request in cluster.requests(ShareFetchRequest)]
    assert epochs == [0, 0, 0, 0]
