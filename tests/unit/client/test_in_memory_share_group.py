"""The share group in memory, with real consumers of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sharegroup.client import (
    AcknowledgeType,
    AsyncShareConsumer,
    InvalidSettingError,
    Record,
    Reject,
    Release,
    RequestError,
    Retry,
)
from sharegroup.client.testing import Cause, InMemoryShareGroup, RecordState
from sharegroup.errors import ErrorCode
from tests.python_client_page import HANDLER_TESTS, page_programs
from tests.unit.client.members import EXPLICIT, MEMBER, PATIENCE_S, group_of, member, outcomes, poll

LOCK_MS = 30_000


def run(group: InMemoryShareGroup, function: Callable[..., Any], **options: Any) -> None:
    """Handle all records with a function."""
    consumer = member(group)
    consumer.handler(**options)(function)
    group.stop_when_finished(consumer)
    consumer.run()


def test_records_arrive_as_they_were_produced() -> None:
    group = InMemoryShareGroup("billing", {"orders": 2})
    assert group.produce("orders", b"1", b"key", [("name", b"header")], partition=1) == 0
    with member(group) as consumer:
        (record,) = poll(consumer, 1)
    assert (record.topic, record.partition, record.offset, record.delivery_count) == ("orders", 1, 0, 1)
    assert (record.key, record.value, record.headers) == (b"key", b"1", [("name", b"header")])


def test_explicit_acknowledgements_decide() -> None:
    group = group_of(b"0", b"1", b"2")
    with member(group, **EXPLICIT) as consumer:
        kinds = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT, AcknowledgeType.RELEASE)
        for record, kind in zip(poll(consumer, 3), kinds, strict=True):
            consumer.acknowledge(record, kind)
        assert list(consumer.commit_sync().values()) == [None]
    states = [RecordState.ACKNOWLEDGED, RecordState.ARCHIVED, RecordState.AVAILABLE]
    assert outcomes(group) == [(state, 1) for state in states]
    assert [record.causes[-1] for record in group.records("orders")] == [Cause.ACCEPT, Cause.REJECT, Cause.RELEASE]


def test_lock_that_expires_returns_the_record() -> None:
    group = group_of(b"0", share_record_lock_duration_ms=60_000)
    with member(group, **EXPLICIT) as first, member(group, **EXPLICIT) as second:
        (late,) = poll(first, 1)
        assert group.records("orders")[0].member_id == first.member_id
        group.advance(1_000)
        assert outcomes(group) == [(RecordState.ACQUIRED, 1)]
        group.advance(59_001)
        assert outcomes(group) == [(RecordState.AVAILABLE, 1)]
        assert poll(second, 1)[0].delivery_count == 2
        first.acknowledge(late)
        (error,) = first.commit_sync().values()
        assert error is not None
        assert error.code is ErrorCode.INVALID_RECORD_STATE
    assert group.records("orders")[0].causes[:2] == (Cause.FETCH, Cause.LOCK_TIMEOUT)


def test_renewal_extends_the_lock() -> None:
    group = group_of(b"0", share_record_lock_duration_ms=60_000)
    with member(group, **EXPLICIT) as consumer:
        (record,) = poll(consumer, 1)
        assert consumer.acquisition_lock_timeout_ms() == 60_000
        group.advance(31_000)
        consumer.acknowledge(record, AcknowledgeType.RENEW)
        assert list(consumer.commit_sync().values()) == [None]
        group.advance(31_000)
        (again,) = poll(consumer, 1)
        consumer.acknowledge(again)
        assert list(consumer.commit_sync().values()) == [None]
    assert outcomes(group) == [(RecordState.ACKNOWLEDGED, 1)]


def test_record_is_archived_at_the_delivery_count_limit() -> None:
    group = group_of(b"0", share_delivery_count_limit=3)

    def handle(record: Record[bytes]) -> None:
        raise ValueError("always")

    run(group, handle)
    assert outcomes(group) == [(RecordState.ARCHIVED, 3)]


def test_closing_releases_what_was_not_acknowledged() -> None:
    group = group_of(b"0", b"1")
    with member(group) as consumer:
        poll(consumer, 2)
        assert not group.is_finished()
    assert outcomes(group) == [(RecordState.AVAILABLE, 1)] * 2


def test_members_share_partitions_and_take_over() -> None:
    group = group_of(topics={"orders": 2})

    def produce() -> None:
        for partition in (0, 1):
            group.produce("orders", b"0", partition=partition)

    with member(group) as first:
        with member(group) as second:
            seen = {first.member_id: 0, second.member_id: 0}
            while not all(seen.values()):
                produce()
                for consumer in (first, second):
                    seen[consumer.member_id] += len(consumer.poll(0.01))
            for consumer in (first, second):
                consumer.commit_sync()
        produce()
        while not group.is_finished("orders"):
            first.poll(0.01)
    assert {record.state for record in group.records("orders")} == {RecordState.ACKNOWLEDGED}


def test_members_on_threads_handle_each_record_once() -> None:
    group = group_of(*(b"%d" % number for number in range(200)))
    consumers = [member(group, max_poll_records=10, share_acquire_mode="record_limit") for _ in range(2)]
    seen: list[int] = []
    threads = []
    for consumer in consumers:
        consumer.handler(max_in_hand=(10, "1MB"))(lambda record: seen.append(record.offset))
        group.stop_when_finished(consumer)
        threads.append(threading.Thread(target=consumer.run))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(seen) == list(range(200))
    assert outcomes(group) == [(RecordState.ACKNOWLEDGED, 1)] * 200


def test_delays_of_a_handler_take_no_time() -> None:
    group = group_of(b"retry", b"release")
    attempts: list[bytes] = []

    def handle(record: Record[bytes]) -> None:
        attempts.append(record.value)
        if attempts.count(record.value) == 1:
            raise Release(delay_s=60) if record.value == b"release" else ValueError("not yet")

    run(group, handle, on_error=Retry.exponential(40, 60))
    assert sorted(attempts) == [b"release", b"release", b"retry", b"retry"]
    retried, released = group.records("orders")
    assert (retried.state, retried.delivery_count) == (RecordState.ACKNOWLEDGED, 1)
    assert (released.state, released.delivery_count) == (RecordState.ACKNOWLEDGED, 2)
    assert Cause.RENEW in retried.causes


@pytest.mark.parametrize("is_coroutine", [False, True], ids=["function", "coroutine"])
@pytest.mark.parametrize("is_draining", [False, True], ids=["running", "draining"])
def test_lock_is_renewed_while_a_handler_blocks(is_coroutine: bool, is_draining: bool) -> None:
    group = group_of(b"0", share_record_lock_duration_ms=60_000)
    consumer = member(group)

    def block(record: Record[bytes]) -> None:
        if is_draining:
            consumer.stop()
        group.advance(31_000)
        while Cause.RENEW not in group.records("orders")[0].causes:
            assert not record.cancelled.is_set()
        group.advance(31_000)

    async def block_loop(record: Record[bytes]) -> None:
        block(record)

    consumer.handler()(block_loop if is_coroutine else block)
    group.stop_when_finished(consumer)
    consumer.run(drain_s=10 * PATIENCE_S)
    assert outcomes(group) == [(RecordState.ACKNOWLEDGED, 1)]


def test_lost_lock_cancels_the_call() -> None:
    group = group_of(b"0")

    def handle(record: Record[bytes]) -> None:
        if record.delivery_count == 1:
            group.advance(LOCK_MS + 1)
            record.cancelled.wait(PATIENCE_S)

    run(group, handle)
    assert outcomes(group) == [(RecordState.ACKNOWLEDGED, 2)]


def test_run_ends_when_nothing_is_to_do() -> None:
    group = group_of()
    run(group, lambda record: None)
    assert group.is_finished()


def test_async_consumer_is_connected_in_the_same_way() -> None:
    async def story() -> None:
        group = group_of(b"0", b"1")
        consumer = AsyncShareConsumer(connector=group, **MEMBER)

        @consumer.handler(concurrency=2)
        async def handle(record: Record[bytes]) -> None:
            if record.value == b"1":
                raise Reject("bad")

        group.stop_when_finished(consumer)
        await consumer.run()
        assert outcomes(group) == [(RecordState.ACKNOWLEDGED, 1), (RecordState.ARCHIVED, 1)]

    asyncio.run(story())


def test_advancing_ends_a_poll() -> None:
    async def story() -> None:
        group = group_of()
        async with AsyncShareConsumer(connector=group, **MEMBER) as consumer:
            waiting = asyncio.create_task(consumer.poll(600))
            await asyncio.sleep(0)
            group.advance(600_000)
            assert await waiting == []

    asyncio.run(story())


def test_member_that_does_not_poll_leaves_and_loses_its_records() -> None:
    group = group_of(b"0")
    with member(group, max_poll_interval_ms=10_000) as first, member(group) as second:
        poll(first, 1)
        group.advance(10_001)  # less than the record lock
        assert poll(second, 1)[0].delivery_count == 2
    assert Cause.MEMBER_LEFT in group.records("orders")[0].causes


def test_fetches_keep_the_limits_of_records_and_bytes() -> None:
    group = group_of(*[b"x" * 100] * 10)
    with member(group, share_acquire_mode="record_limit", max_poll_records=3) as consumer:
        assert len(consumer.poll(PATIENCE_S)) == 3
    group = group_of(*[b"x" * 100] * 10)
    with member(group, fetch_max_bytes=250) as consumer:
        assert len(consumer.poll(PATIENCE_S)) == 2


def test_other_group_is_not_found() -> None:
    with member(group_of(), group_id="shipping") as consumer, pytest.raises(RequestError) as error:
        consumer.poll(PATIENCE_S)
    assert error.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_illegal_topic_name_is_an_error() -> None:
    with member(group_of(), topics=["a/b"]) as consumer, pytest.raises(RequestError) as error:
        consumer.poll(PATIENCE_S)
    assert error.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_unknown_config_is_an_error() -> None:
    with pytest.raises(InvalidSettingError, match=r"share\.delivery\.count\.limit"):
        InMemoryShareGroup("billing", share_delivery_count_limits=3)


def test_clock_does_not_step_back() -> None:
    with pytest.raises(ValueError, match="cannot step back"):
        group_of().advance(-1)


def test_client_alone_does_not_import_the_servers() -> None:
    program = (
        "import sys, sharegroup.client; "
        "print([name for name in sys.modules if name.startswith(('sharegroup.core', 'sharegroup.client.testing'))])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_tests_of_the_documentation_pass() -> None:
    variables: dict[str, Any] = {}
    exec(page_programs()[HANDLER_TESTS], variables)
    tests = [value for name, value in variables.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()
