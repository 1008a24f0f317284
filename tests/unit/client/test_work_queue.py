"""The decisions of a handler loop."""

from __future__ import annotations

from uuid import UUID

import pytest

from sharegroup.client.handlers.decisions import HandlerOptions, Reject, Release, Retry, parse_bytes
from sharegroup.client.handlers.work_queue import Acknowledgement, WorkQueue, errors_by_index
from sharegroup.client.records import Delivery, Possession, Record, TopicIdPartition
from sharegroup.types import AcknowledgeType

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
SOURCE = TopicIdPartition(UUID(int=7), 0, "orders")
LOCK_MS = 30_000


def record(offset: int, size: int = 10, lock_until_ms: int | None = LOCK_MS) -> Record[bytes]:
    delivery = Delivery(SOURCE, 1, lock_until_ms)
    return Record("orders", 0, offset, 0, 0, None, b"value", (), 1, delivery, size=size)


def records(count: int) -> list[Record[bytes]]:
    return [record(offset) for offset in range(count)]


def held(_: Record[bytes]) -> Possession:
    return Possession.HELD


def lost(_: Record[bytes]) -> Possession:
    return Possession.LOST


def renewed(queue: WorkQueue, now_ms: int) -> None:
    """Let the server renew all locks that are due."""
    for each in queue.due_renewals(now_ms):
        each.delivery = each.delivery._replace(lock_until_ms=now_ms + LOCK_MS)
    queue.update(held, now_ms)


def test_calls_are_limited_by_concurrency() -> None:
    queue = WorkQueue(HandlerOptions(concurrency=2))
    queue.add(records(3), 0)
    first, second = queue.start_calls(0)
    assert [call.records[0].offset for call in (first, second)] == [0, 1]
    assert queue.start_calls(0) == []
    queue.finish_call(first, {}, 1)
    (third,) = queue.start_calls(1)
    assert third.records[0].offset == 2


def test_drain_withdraws_calls_that_wait_for_a_worker() -> None:
    queue = WorkQueue(HandlerOptions(concurrency=1), ready_calls=1)
    given = records(3)
    queue.add(given, 0)
    begun, ready = queue.start_calls(0)
    assert (begun.claim(), queue.running, queue.start_calls(0)) == (True, 2, [])
    queue.drain()
    assert not ready.claim()
    assert queue.pop_acknowledgements(1) == [(given[1], None), (given[2], None)]
    queue.finish_call(ready, {}, 2)
    queue.finish_call(begun, {}, 2)
    assert (queue.pop_acknowledgements(2), queue.running) == ([(given[0], ACCEPT)], 0)


def test_result_decides_the_acknowledgement() -> None:
    queue = WorkQueue(HandlerOptions(concurrency=4))
    given = records(4)
    queue.add(given, 0)
    calls = queue.start_calls(0)
    for call, error in zip(calls, (None, Reject("bad"), Release(), ValueError("bug")), strict=True):
        queue.finish_call(call, {} if error is None else {0: error}, 1)
    expected = zip(given, (ACCEPT, REJECT, RELEASE, RELEASE), strict=True)
    assert queue.pop_acknowledgements(1) == [Acknowledgement(*each) for each in expected]
    assert len(queue) == 0


def test_room_counts_records_and_bytes_until_they_are_acknowledged() -> None:
    queue = WorkQueue(HandlerOptions(max_records=3, max_bytes=100))
    assert queue.room == (3, 100)
    queue.add([record(0, 40), record(1, 70)], 0)
    assert queue.room == (1, -10)
    assert queue.room.is_empty
    (call,) = queue.start_calls(0)
    queue.finish_call(call, {}, 1)
    assert queue.room == (1, -10)
    queue.pop_acknowledgements(1)
    assert queue.room == (2, 30)


def test_failed_record_is_called_again_after_the_delay() -> None:
    queue = WorkQueue(HandlerOptions(retry=Retry.exponential(1, 60, max_attempts=3)))
    queue.add(records(1), 0)
    now_ms = 0
    for delay_ms in (1_000, 2_000):
        (call,) = queue.start_calls(now_ms)
        queue.finish_call(call, {0: ValueError("away")}, now_ms)
        assert queue.next_ms() == now_ms + delay_ms
        assert queue.start_calls(now_ms + delay_ms - 1) == []
        now_ms += delay_ms
    (call,) = queue.start_calls(now_ms)
    queue.finish_call(call, {0: ValueError("away")}, now_ms)
    ((_, kind),) = queue.pop_acknowledgements(now_ms)
    assert kind is RELEASE


def test_delays_double_up_to_the_limit() -> None:
    retry = Retry.exponential(1, 60, max_attempts=10)
    assert [retry.delay_ms(attempts) for attempts in (1, 2, 3, 7, 9)] == [1_000, 2_000, 4_000, 60_000, 60_000]
    assert retry.delay_ms(10) is None
    assert Retry.exponential(1, 60, max_attempts=2_000).delay_ms(1_500) == 60_000


def test_release_with_a_delay_is_held_and_renewed() -> None:
    queue = WorkQueue(HandlerOptions())
    (given,) = records(1)
    queue.add([given], 0)
    (call,) = queue.start_calls(0)
    queue.finish_call(call, {0: Release(delay_s=40)}, 0)
    assert queue.next_ms() == LOCK_MS // 2
    renewed(queue, 15_000)
    assert given.delivery.lock_until_ms == 45_000
    assert queue.pop_acknowledgements(39_999) == []
    assert queue.pop_acknowledgements(40_000) == [(given, RELEASE)]


def test_lock_is_renewed_after_half_of_its_time() -> None:
    queue = WorkQueue(HandlerOptions())
    (given,) = records(1)
    queue.add([given], 0)
    queue.start_calls(0)
    assert queue.due_renewals(14_999) == []
    assert queue.due_renewals(15_000) == [given]
    assert queue.due_renewals(15_001) == []  # the result is expected


def test_acknowledgement_waits_for_the_renewal() -> None:
    queue = WorkQueue(HandlerOptions())
    (given,) = records(1)
    queue.add([given], 0)
    (call,) = queue.start_calls(0)
    assert queue.due_renewals(15_000) == [given]
    queue.finish_call(call, {}, 15_001)
    assert queue.pop_acknowledgements(15_001) == []
    queue.update(lambda _: Possession.RENEWING, 15_002)
    assert queue.pop_acknowledgements(15_002) == []
    given.delivery = given.delivery._replace(lock_until_ms=45_000)
    queue.update(held, 15_003)
    assert queue.pop_acknowledgements(15_003) == [(given, ACCEPT)]


def test_lost_record_is_cancelled_and_its_result_is_ignored() -> None:
    queue = WorkQueue(HandlerOptions())
    (given,) = records(1)
    queue.add([given], 0)
    (call,) = queue.start_calls(0)
    queue.due_renewals(15_000)
    queue.update(lost, 15_001)
    assert given.cancelled.is_set()
    queue.finish_call(call, {}, 15_002)
    assert queue.pop_acknowledgements(15_002) == []
    assert (len(queue), queue.running, queue.room.bytes) == (0, 0, HandlerOptions().max_bytes)


def test_renewals_end_after_the_processing_time() -> None:
    queue = WorkQueue(HandlerOptions(max_processing_ms=20_000))
    (given,) = records(1)
    queue.add([given], 0)
    queue.start_calls(0)
    renewed(queue, 15_000)
    assert queue.due_renewals(30_000) == []
    assert queue.next_ms() == 45_000
    queue.update(held, 44_999)
    assert not given.cancelled.is_set()
    queue.update(held, 45_000)
    assert given.cancelled.is_set()
    assert len(queue) == 0


def test_record_without_a_lock_timeout_is_not_renewed() -> None:
    queue = WorkQueue(HandlerOptions())
    queue.add([record(0, lock_until_ms=None)], 0)
    queue.start_calls(0)
    queue.update(held, 10**9)
    assert (queue.due_renewals(10**9), len(queue)) == ([], 1)


def test_drain_releases_what_is_not_in_a_call() -> None:
    queue = WorkQueue(HandlerOptions(retry=Retry()))
    given = records(3)
    queue.add(given[:2], 0)
    (failed,) = queue.start_calls(0)
    queue.finish_call(failed, {0: ValueError("away")}, 0)
    (running,) = queue.start_calls(0)
    assert running.claim()
    queue.drain()
    queue.add(given[2:], 1)  # a poll that had begun before
    assert (queue.start_calls(10_000), queue.room) == ([], (0, 0))
    assert queue.pop_acknowledgements(1) == [(given[0], RELEASE), (given[2], None)]  # None: was in no call
    queue.finish_call(running, {}, 2)
    assert queue.pop_acknowledgements(2) == [(given[1], ACCEPT)]


def test_failure_in_a_drain_releases() -> None:
    queue = WorkQueue(HandlerOptions(retry=Retry()))
    queue.add(records(1), 0)
    (call,) = queue.start_calls(0)
    assert call.claim()
    queue.drain()
    queue.finish_call(call, {0: Release(delay_s=60)}, 1)
    ((_, kind),) = queue.pop_acknowledgements(1)
    assert kind is RELEASE


def test_abandoned_calls_are_cancelled_and_released() -> None:
    queue = WorkQueue(HandlerOptions())
    (given,) = records(1)
    queue.add([given], 0)
    (call,) = queue.start_calls(0)
    assert call.claim()
    queue.abandon()
    assert given.cancelled.is_set()
    assert queue.pop_acknowledgements(1) == [(given, RELEASE)]
    queue.finish_call(call, {}, 2)
    assert queue.pop_acknowledgements(2) == []


def test_batch_waits_for_more_records_up_to_its_limit() -> None:
    queue = WorkQueue(HandlerOptions(batch_records=3, max_wait_ms=100))
    queue.add(records(2), 0)
    assert queue.start_calls(99) == []
    assert queue.next_ms() == 100
    (call,) = queue.start_calls(100)
    assert [each.offset for each in call.records] == [0, 1]
    queue.finish_call(call, {1: ValueError("bad")}, 101)
    assert [kind for _, kind in queue.pop_acknowledgements(101)] == [ACCEPT, RELEASE]


def test_full_batch_does_not_wait() -> None:
    queue = WorkQueue(HandlerOptions(concurrency=2, batch_records=3, max_wait_ms=100))
    queue.add(records(7), 0)
    assert [len(call.records) for call in queue.start_calls(0)] == [3, 3]


def test_result_of_a_batch_names_its_records() -> None:
    given = records(2)
    error = ValueError("bad")
    assert errors_by_index(None, given) == {}
    assert errors_by_index({given[1]: error}, given) == {1: error}
    for result in ([error], {record(5): error}):
        with pytest.raises(TypeError, match="with records of its batch"):
            errors_by_index(result, given)


@pytest.mark.parametrize(("size", "found"), [(5, 5), ("64MB", 64_000_000), ("2 kb", 2_000), ("7", 7)])
def test_bytes_may_have_a_unit(size: int | str, found: int) -> None:
    assert parse_bytes(size) == found


@pytest.mark.parametrize("size", ["64 MiB", "many", "", "-1"])
def test_other_sizes_are_errors(size: str) -> None:
    with pytest.raises(ValueError, match="is not a number of bytes"):
        parse_bytes(size)


def test_options_must_be_at_least_one() -> None:
    with pytest.raises(ValueError, match="concurrency is 0"):
        HandlerOptions(concurrency=0)
