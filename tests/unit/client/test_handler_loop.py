"""A handler loop on both consumers, with a share group in memory."""

from __future__ import annotations

import asyncio
import threading
from queue import SimpleQueue

import pytest

from sharegroup.client import (
    AsyncShareConsumer,
    IllegalStateError,
    Record,
    Reject,
    Release,
    RequestError,
    ShareConsumer,
)
from sharegroup.client.testing import RecordState
from sharegroup.errors import ErrorCode
from sharegroup.kafka_clients.connections.unavailable import UpstreamLoginRejectedError
from sharegroup.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest
from sharegroup.types import AcknowledgeType
from tests.harness.event_loop import settle, until
from tests.unit.client.members import MEMBER, PATIENCE_S, group_of, member, outcomes
from tests.unit.client.scripted_cluster import ScriptedCluster

ACCEPT, RELEASE = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
ACCEPTED, REJECTED, RELEASED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED, RecordState.AVAILABLE


def test_functions_run_on_threads_and_decide() -> None:
    group = group_of(b"accept", b"reject", b"release")
    consumer = member(group)
    threads = set()

    @consumer.handler(concurrency=2)
    def handle(record: Record[bytes]) -> None:
        threads.add(threading.current_thread().name.rpartition("_")[0])
        if record.value == b"reject":
            raise Reject("bad")
        if record.value == b"release" and record.delivery_count == 1:
            raise Release("not now")

    group.stop_when_finished(consumer)
    consumer.run()
    assert outcomes(group) == [(ACCEPTED, 1), (REJECTED, 1), (ACCEPTED, 2)]
    assert threads == {"sharegroup-handler"}
    with pytest.raises(IllegalStateError, match="closed"):
        consumer.poll()


def test_coroutines_run_beside_each_other() -> None:
    group = group_of(b"0", b"1")
    consumer = member(group)
    met = asyncio.Event()

    @consumer.handler(concurrency=2)
    async def handle(record: Record[bytes]) -> None:
        if record.offset == 0:
            await met.wait()
        met.set()

    group.stop_when_finished(consumer)
    consumer.run()
    assert outcomes(group) == [(ACCEPTED, 1)] * 2


def test_async_consumer_runs_functions_and_coroutines() -> None:
    async def run(is_coroutine: bool) -> None:
        group = group_of(b"0", b"1")
        consumer = AsyncShareConsumer(connector=group, **MEMBER)

        def function(records: list[Record[bytes]]) -> dict[Record[bytes], Exception]:
            return {records[0]: Reject("bad")}

        async def coroutine(records: list[Record[bytes]]) -> dict[Record[bytes], Exception]:
            return function(records)

        consumer.batch_handler(max_records=2)(coroutine if is_coroutine else function)
        group.stop_when_finished(consumer)
        await consumer.run()
        assert outcomes(group) == [(REJECTED, 1), (ACCEPTED, 1)]

    for is_coroutine in (False, True):
        asyncio.run(run(is_coroutine))


def test_next_call_starts_before_the_acknowledgement_of_the_last() -> None:
    async def run() -> None:
        group = group_of(b"0", b"1", b"2")
        consumer = AsyncShareConsumer(connector=group, **MEMBER)
        commit = consumer.commit_async

        def note_commit() -> None:
            events.append("commit")
            commit()

        consumer.commit_async = note_commit  # type: ignore[method-assign]

        @consumer.handler()
        async def handle(record: Record[bytes]) -> None:
            events.append(f"call {record.offset}")

        group.stop_when_finished(consumer)
        await consumer.run()

    events: list[str] = []
    asyncio.run(run())
    assert events.index("call 1") < events.index("commit")
    assert [event for event in events if event != "commit"] == ["call 0", "call 1", "call 2"]


def test_call_that_outlasts_the_drain_is_cancelled_and_released() -> None:
    group = group_of(b"0", b"1")
    consumer = member(group)
    cancelled = SimpleQueue[int]()

    @consumer.handler()
    def handle(record: Record[bytes]) -> None:
        consumer.stop()
        record.cancelled.wait()
        cancelled.put(record.offset)

    consumer.run(drain_s=0.01)
    assert cancelled.get(timeout=PATIENCE_S) == 0  # the run does not wait for the end of the call
    assert cancelled.empty()
    assert outcomes(group) == [(RELEASED, 1), (RELEASED, 0)]  # the second one was in no call


def test_drain_sends_acknowledgements_after_the_last_fetch() -> None:
    """Call 0 ends and the run is stopped while a fetch is in progress. Call 1 lasts until the acknowledgements arrive.

    The record of that fetch is released.
    """
    cluster = ScriptedCluster()

    async def run() -> None:
        consumer = AsyncShareConsumer(connector=cluster, **MEMBER)
        is_second_called = asyncio.Event()

        @consumer.handler(concurrency=2, max_in_hand=(3, "1MB"))
        async def handle(record: Record[bytes]) -> None:
            if record.offset == 0:
                await is_second_called.wait()
            else:
                cluster.has_records.clear()
                is_second_called.set()
                await until(lambda: fetches() == 3)
                consumer.stop()
                await settle()
                cluster.has_records.set()
                await until(lambda: len(acknowledged(cluster)) == 2)

        await consumer.run(drain_s=PATIENCE_S)

    def fetches() -> int:
        return sum(isinstance(request, ShareFetchRequest) for _, request in cluster.sent)

    asyncio.run(run())
    assert acknowledged(cluster) == [{0: [ACCEPT]}, {2: [RELEASE]}, {1: [ACCEPT]}]


def test_acknowledgements_do_not_wait_for_a_fetch_while_there_is_no_room() -> None:
    """Another leader's fetch may be in progress then, and no poll follows it."""
    group = group_of(b"0", b"1")

    async def run() -> None:
        consumer = AsyncShareConsumer(connector=group, **MEMBER, share_acquire_mode="record_limit")
        send, is_sent = consumer.send_without_poll, asyncio.Event()

        def note(is_last: bool) -> None:
            assert not is_last
            is_sent.set()
            send(is_last)

        @consumer.handler(max_in_hand=(1, "1MB"))
        async def handle(record: Record[bytes]) -> None:
            consumer.send_without_poll = note  # type: ignore[method-assign]
            await is_sent.wait()
            consumer.send_without_poll = send  # type: ignore[method-assign]
            is_sent.clear()

        group.stop_when_finished(consumer)
        await consumer.run()

    asyncio.run(run())
    assert outcomes(group) == [(ACCEPTED, 1)] * 2


def acknowledged(cluster: ScriptedCluster) -> list[dict[int, list[int]]]:
    """Return the batches of each ShareAcknowledge request that has some, by their first offsets."""
    requests = [
        {
            batch.first_offset: batch.acknowledge_types
            for topic in request.topics
            for partition in topic.partitions
            for batch in partition.acknowledgement_batches
        }
        for _, request in cluster.requests(ShareAcknowledgeRequest)
    ]
    return [batches for batches in requests if batches]


def test_stop_before_the_run_ends_it() -> None:
    group = group_of(b"0")
    consumer = member(group)
    consumer.handler()(lambda record: None)
    consumer.stop()
    consumer.run()
    assert outcomes(group) == [(RELEASED, 0)]


def test_error_of_a_poll_ends_the_run() -> None:
    cluster = ScriptedCluster(UpstreamLoginRejectedError("wrong password"))
    consumer = ShareConsumer(connector=cluster, **MEMBER)
    consumer.handler()(lambda record: None)
    with pytest.raises(RequestError) as error:
        consumer.run()
    assert error.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    for thread in threading.enumerate():
        if thread.name.startswith("sharegroup-"):
            thread.join(60)
            assert not thread.is_alive(), thread.name


def test_run_needs_one_handler() -> None:
    with member(group_of()) as consumer:
        with pytest.raises(IllegalStateError, match="register a handler first"):
            consumer.run()
        consumer.handler()(lambda record: None)
        with pytest.raises(IllegalStateError, match="already has a handler"):
            consumer.handler()(lambda record: None)


def test_stop_releases_records_that_wait_for_a_worker() -> None:
    """Two threads are busy, and two more calls are ready for them."""
    group = group_of(*[b"value"] * 6)
    consumer = member(group)
    calls: list[int] = []
    are_busy = threading.Barrier(2)

    @consumer.handler(concurrency=2)
    def handle(record: Record[bytes]) -> None:
        calls.append(record.offset)
        are_busy.wait(PATIENCE_S)
        consumer.stop()
        while not all(state is RELEASED for state, _ in outcomes(group)[2:]):
            assert not record.cancelled.wait(0.01)

    consumer.run(drain_s=PATIENCE_S)
    assert sorted(calls) == [0, 1]
    assert [state for state, _ in outcomes(group)] == [ACCEPTED] * 2 + [RELEASED] * 4


@pytest.mark.parametrize("raised", [SystemExit(1), asyncio.CancelledError(), KeyboardInterrupt()])
@pytest.mark.parametrize("is_coroutine", [False, True])
def test_handler_may_raise_what_is_no_exception(raised: BaseException, is_coroutine: bool) -> None:
    """`sys.exit` in a handler, or a task that it awaits and that was cancelled, is a failure of the record."""
    group = group_of(b"0", b"1")
    consumer = member(group)

    def handle(record: Record[bytes]) -> None:
        if record.offset == 0 and record.delivery_count == 1:
            raise raised

    async def handle_on_loop(record: Record[bytes]) -> None:
        handle(record)

    consumer.handler()(handle_on_loop if is_coroutine else handle)
    group.stop_when_finished(consumer)
    consumer.run()
    assert outcomes(group) == [(ACCEPTED, 2), (ACCEPTED, 1)]


def test_call_that_ends_before_its_lock_counts_although_renewals_are_refused() -> None:
    group = group_of(b"0", share_renew_acknowledge_enable=False, share_record_lock_duration_ms=60_000)

    async def run() -> None:
        consumer = AsyncShareConsumer(connector=group, **MEMBER)

        @consumer.handler()
        async def handle(_: Record[bytes]) -> None:
            for _ in range(40):
                group.advance(1_000)
                await settle()

        group.stop_when_finished(consumer)
        await consumer.run()

    asyncio.run(run())
    assert outcomes(group) == [(ACCEPTED, 1)]


def test_refused_renewal_of_one_record_does_not_undo_the_acceptance_of_another() -> None:
    group = group_of(b"0", b"1", share_renew_acknowledge_enable=False, share_record_lock_duration_ms=60_000)

    async def run() -> None:
        consumer = AsyncShareConsumer(connector=group, **MEMBER)
        results: list[object] = []
        consumer.set_acknowledgement_commit_callback(lambda _offsets, error: results.append(error))
        both_run = asyncio.Event()

        @consumer.handler(concurrency=2)
        async def handle(record: Record[bytes]) -> None:
            if record.offset == 1:
                both_run.set()
                await until(lambda: bool(results))
                consumer.stop()
            else:
                await both_run.wait()
                group.advance(31_000)  # a renewal of record 1 is due

        await consumer.run()

    asyncio.run(run())
    assert outcomes(group)[0] == (ACCEPTED, 1)


def test_record_whose_lock_has_ended_is_forgotten() -> None:
    group = group_of(b"0", share_delivery_count_limit=2)
    in_hand: list[int] = []

    async def run() -> None:
        consumer = AsyncShareConsumer(connector=group, **MEMBER, max_poll_interval_ms=10**9)

        @consumer.handler(max_processing_s=20)
        async def handle(_: Record[bytes]) -> None:
            for _ in range(70):
                group.advance(1_000)
                await settle()

        group.stop_when_finished(consumer)
        core, end = consumer._core, consumer._core.end

        def note_end() -> None:
            in_hand.append(len(core.in_hand))
            end()

        core.end = note_end  # type: ignore[method-assign]
        await consumer.run()

    asyncio.run(run())
    assert in_hand == [0]
