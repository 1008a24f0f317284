"""The two consumers, with a share group in memory."""

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
    WakeupError,
)
from sharegroup.client.testing import Cause, InMemoryShareGroup, RecordState
from tests.unit.client.members import EXPLICIT, MEMBER, PATIENCE_S, group_of, member, outcomes, poll


def play(story: Callable[[AsyncShareConsumer], Coroutine[Any, Any, None]], group: InMemoryShareGroup) -> None:
    """Run a story with a consumer."""

    async def run() -> None:
        async with AsyncShareConsumer(connector=group, **MEMBER) as consumer:
            await story(consumer)

    asyncio.run(run())


def test_closing_sends_the_acknowledgements_and_releases_the_rest() -> None:
    group = group_of(b"0", b"1")
    with member(group, **EXPLICIT) as consumer:
        consumer.acknowledge(poll(consumer, 2)[0])
    assert outcomes(group) == [(RecordState.ACKNOWLEDGED, 1), (RecordState.AVAILABLE, 1)]
    assert group.records("orders")[1].causes == (Cause.FETCH, Cause.MEMBER_LEFT)


def test_handler_loop_renews_while_it_polls() -> None:
    async def story(consumer: AsyncShareConsumer) -> None:
        consumer.begin_handling()
        (first,) = await consumer.poll(PATIENCE_S)
        group.produce("orders", b"1")
        (second,) = await consumer.poll(PATIENCE_S)
        consumer.acknowledge(first, AcknowledgeType.RENEW)
        assert list((await consumer.commit_sync()).values()) == [None]
        for record in (first, second):
            consumer.acknowledge(record)
        assert list((await consumer.commit_sync()).values()) == [None]

    group = group_of(b"0")
    play(story, group)
    assert [record.causes for record in group.records("orders")] == [
        (Cause.FETCH, Cause.RENEW, Cause.ACCEPT),
        (Cause.FETCH, Cause.ACCEPT),
    ]


def test_two_polls_at_once_are_an_error() -> None:
    async def story(consumer: AsyncShareConsumer) -> None:
        waiting = asyncio.create_task(consumer.poll(PATIENCE_S))
        await asyncio.sleep(0)
        with pytest.raises(ConcurrentUseError):
            await consumer.poll()
        consumer.wakeup()
        with pytest.raises(WakeupError):
            await waiting

    play(story, group_of())


def test_wakeup_without_a_poll_ends_the_next_one() -> None:
    with member(group_of(b"0")) as consumer:
        consumer.wakeup()
        with pytest.raises(WakeupError):
            consumer.poll(PATIENCE_S)
        poll(consumer, 1)


def test_topics_are_a_collection_of_names() -> None:
    with member(group_of()) as consumer:
        for topics in ("orders", [""], [" "], []):
            with pytest.raises(ValueError, match="collection of names"):
                consumer.subscribe(topics)


def test_closed_consumer_refuses_calls_and_may_be_closed_again() -> None:
    consumer = member(group_of(b"0"))
    poll(consumer, 1)
    consumer.close()
    consumer.close()
    with pytest.raises(IllegalStateError, match="Share consumer closed"):
        consumer.poll()
    with pytest.raises(IllegalStateError, match="Share consumer closed"):
        consumer.subscription()


def test_failing_callback_is_logged_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("a defect of the application")

    with member(group_of(b"0")) as consumer:
        consumer.set_acknowledgement_commit_callback(fail)
        poll(consumer, 1)
        assert list(consumer.commit_sync().values()) == [None]
    assert "the acknowledgement commit callback failed" in caplog.text
