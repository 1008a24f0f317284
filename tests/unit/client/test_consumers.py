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
    Record,
    Reject,
    Release,
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


def fail_by_value(record: Record[bytes]) -> None:
    if record.value == b"reject":
        raise Reject("bad")
    if record.value == b"release" and record.delivery_count == 1:
        raise Release("not now")
    if record.value == b"stop":
        raise KeyError(record.offset)


OUTCOMES = [
    (RecordState.ACKNOWLEDGED, 1),
    (RecordState.ARCHIVED, 1),
    (RecordState.ACKNOWLEDGED, 2),
    (RecordState.AVAILABLE, 1),
]


def test_block_of_a_record_accepts_or_releases_it(caplog: pytest.LogCaptureFixture) -> None:
    def story() -> None:
        with member(group, **EXPLICIT) as consumer:
            for record in consumer:
                with record:
                    if record.delivery_count == 2:
                        group.produce("orders", b"stop")
                    fail_by_value(record)

    group = group_of(b"accept", b"reject", b"release")
    with pytest.raises(KeyError):
        story()
    assert outcomes(group) == OUTCOMES
    assert "the record orders-0 offset 1, delivery 1 was rejected: bad" in caplog.text


def test_async_block_of_a_record_accepts_or_releases_it() -> None:
    async def story() -> None:
        async with AsyncShareConsumer(connector=group, **MEMBER, **EXPLICIT) as consumer:
            async for record in consumer:
                async with record:
                    if record.delivery_count == 2:
                        group.produce("orders", b"stop")
                    fail_by_value(record)

    group = group_of(b"accept", b"reject", b"release")
    with pytest.raises(KeyError):
        asyncio.run(story())
    assert outcomes(group) == OUTCOMES


def test_block_of_a_record_needs_explicit_mode() -> None:
    with member(group_of(b"0")) as consumer:
        (record,) = poll(consumer, 1)
        with pytest.raises(IllegalStateError, match="Implicit acknowledgement"), record:
            pass
