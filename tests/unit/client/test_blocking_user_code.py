"""Functions of the application that block: heartbeats and renewals continue, and the application's thread waits."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from sharegroup.client import ConcurrentUseError, IllegalStateError, Record, ShareConsumer, WakeupError
from sharegroup.client.testing import Cause, InMemoryShareGroup, RecordState
from sharegroup.protocol.messages import ShareGroupHeartbeatRequest
from tests.unit.client.members import PATIENCE_S, group_of, member, outcomes, poll

ACCEPTED, REJECTED, RELEASED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED, RecordState.AVAILABLE
HEARTBEAT_MS, LOCK_MS = 5_000, 60_000


class BlockingCode:
    """A function of the application. Its call `blocks_at` returns when the group has received an expected request.

    Attributes:
        is_over: whether that call has received what it waits for.
        threads: the threads of the calls.
    """

    def __init__(self, group: InMemoryShareGroup, is_expected: Callable[[Any], bool], blocks_at: int = 1) -> None:
        self.is_over = False
        self.threads: list[threading.Thread] = []
        self._group, self._is_expected, self._blocks_at = group, is_expected, blocks_at
        self._is_blocking, self._has_arrived = threading.Event(), threading.Event()
        self._respond = group.respond
        group.respond = self._observe  # type: ignore[method-assign]

    def wait(self, advance_ms: int = 0, cause: Callable[[], object] = lambda: None) -> None:
        """Block, from a time at which the expected request is due, or after a call that causes it."""
        self.threads.append(threading.current_thread())
        if len(self.threads) == self._blocks_at:
            self._is_blocking.set()
            self._group.advance(advance_ms)
            cause()
            self.is_over = self._has_arrived.wait(PATIENCE_S)

    async def _observe(self, connection: Any, request: Any) -> Any:
        if self._is_blocking.is_set() and self._is_expected(request):
            self._has_arrived.set()
        return await self._respond(connection, request)


def is_heartbeat(request: Any) -> bool:
    return isinstance(request, ShareGroupHeartbeatRequest)


def is_leave(request: Any) -> bool:
    return is_heartbeat(request) and request.member_epoch == -1


def is_renewal(request: Any) -> bool:
    return bool(getattr(request, "is_renew_ack", False))


@pytest.mark.parametrize("which", ["key_deserializer", "value_deserializer"])
@pytest.mark.parametrize("is_iteration", [False, True])
def test_heartbeats_continue_while_a_deserializer_blocks(which: str, is_iteration: bool) -> None:
    def deserialize(data: bytes) -> str:
        code.wait(HEARTBEAT_MS)
        return data.decode()

    group = group_of()
    group.produce("orders", b"value", b"key")
    code = BlockingCode(group, is_heartbeat)
    with member(group, **{which: deserialize}) as consumer:
        record = next(iter(consumer)) if is_iteration else poll(consumer, 1)[0]
    assert code.is_over
    assert code.threads == [threading.current_thread()]
    assert "value" in (record.key, record.value) or "key" in (record.key, record.value)


def test_heartbeats_continue_while_a_commit_callback_blocks() -> None:
    group = group_of(b"0")
    code = BlockingCode(group, is_heartbeat)
    with member(group) as consumer:
        consumer.set_acknowledgement_commit_callback(lambda *_: code.wait(HEARTBEAT_MS))
        poll(consumer, 1)
        consumer.commit_sync()
    assert code.is_over
    assert code.threads == [threading.current_thread()]


def test_handler_loop_renews_while_a_deserializer_blocks() -> None:
    """The deserializer of record 1 blocks until the lock of record 0 is renewed, whose call lasts as long."""

    def deserialize(data: bytes) -> bytes:
        code.wait(LOCK_MS // 2)
        return data

    group = group_of(b"0", share_record_lock_duration_ms=LOCK_MS)
    code = BlockingCode(group, is_renewal, blocks_at=2)
    consumer = member(group, value_deserializer=deserialize)
    is_second_called = threading.Event()

    @consumer.handler(concurrency=2)
    def handle(record: Record[bytes]) -> None:
        if record.offset == 1:
            is_second_called.set()
        else:
            group.produce("orders", b"1")
            assert is_second_called.wait(PATIENCE_S)

    group.stop_when_finished(consumer)
    consumer.run()
    assert code.is_over
    assert set(code.threads) == {threading.current_thread()}
    assert outcomes(group) == [(ACCEPTED, 1)] * 2
    assert Cause.RENEW in group.records("orders")[0].causes


def test_handler_loop_renews_while_a_commit_callback_blocks() -> None:
    """The callback for record 0 blocks until the lock of record 1 is renewed, whose call lasts as long."""
    group = group_of(b"0", b"1", share_record_lock_duration_ms=LOCK_MS)
    code = BlockingCode(group, is_renewal)
    consumer = member(group)
    is_called_back = threading.Event()

    def call_back(*_: Any) -> None:
        code.wait(LOCK_MS // 2)
        is_called_back.set()

    consumer.set_acknowledgement_commit_callback(call_back)

    @consumer.handler(concurrency=2)
    def handle(record: Record[bytes]) -> None:
        if record.offset == 1:
            assert is_called_back.wait(PATIENCE_S)

    group.stop_when_finished(consumer)
    consumer.run()
    assert code.is_over
    assert set(code.threads) == {threading.current_thread()}
    assert outcomes(group) == [(ACCEPTED, 1)] * 2
    assert group.records("orders")[1].causes == (Cause.FETCH, Cause.RENEW, Cause.ACCEPT)


def test_stopped_run_leaves_the_group_while_a_deserializer_blocks() -> None:
    """The records of the fetch are released; their deserializer is not awaited."""

    def deserialize(data: bytes) -> bytes:
        code.wait(cause=consumer.stop)
        return data

    group = group_of(b"0", b"1")
    code = BlockingCode(group, is_leave)
    consumer = member(group, value_deserializer=deserialize)
    consumer.handler()(lambda record: None)
    consumer.run()
    assert code.is_over
    assert outcomes(group) == [(RELEASED, 0)] * 2


def test_wakeup_during_a_deserializer_ends_the_next_poll() -> None:
    def deserialize(data: bytes) -> bytes:
        consumer.wakeup()
        return data

    with member(group_of(b"0"), value_deserializer=deserialize) as consumer:
        poll(consumer, 1)
        with pytest.raises(WakeupError):
            consumer.poll(PATIENCE_S)


def test_interrupted_poll_keeps_the_records() -> None:
    interrupts = [KeyboardInterrupt()]

    def deserialize(data: bytes) -> bytes:
        if interrupts:
            raise interrupts.pop()
        return data

    group = group_of(b"0")
    with member(group, value_deserializer=deserialize) as consumer:
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(PATIENCE_S)
        assert [record.value for record in poll(consumer, 1)] == [b"0"]
    assert outcomes(group) == [(RELEASED, 1)]


def test_deserializer_may_not_use_the_consumer() -> None:
    def use(call: Callable[[], Any]) -> Callable[[bytes], bytes]:
        def deserialize(data: bytes) -> bytes:
            with pytest.raises(ConcurrentUseError, match="is in use by another thread"):
                call()
            return data

        return deserialize

    calls: list[Callable[[ShareConsumer], Any]] = [ShareConsumer.poll, ShareConsumer.close, ShareConsumer.subscription]
    for call in calls:
        with member(group_of(b"0"), value_deserializer=use(lambda call=call: call(consumer))) as consumer:
            assert [record.value for record in poll(consumer, 1)] == [b"0"]


def test_commit_callback_may_not_use_the_consumer() -> None:
    def call_back(*_: Any) -> None:
        for call in (consumer.poll, consumer.close, consumer.subscription):
            with pytest.raises(IllegalStateError, match="callback must not use the consumer"):
                call()
        refusals.append(True)

    refusals: list[bool] = []
    with member(group_of(b"0")) as consumer:
        consumer.set_acknowledgement_commit_callback(call_back)
        poll(consumer, 1)
        assert list(consumer.commit_sync().values()) == [None]
    assert refusals == [True]


@pytest.mark.parametrize(
    ("choice", "values", "outcome"),
    [
        ("reject", [1, 3], (REJECTED, 1)),
        ("release", [1, 3], (RELEASED, 1)),
        ("raw", [1, b"no", 3], (ACCEPTED, 1)),
    ],
)
def test_record_that_cannot_be_deserialized(choice: str, values: list[Any], outcome: tuple[RecordState, int]) -> None:
    group = group_of(b"1", b"no", b"3")
    settings = {"value_deserializer": json.loads, "on_undecodable": choice}
    with member(group, **settings) as consumer:
        assert [record.value for record in consumer.poll(PATIENCE_S)] == values
        assert list(consumer.commit_sync().values()) == [None]
        assert [(bad.offset, "JSONDecodeError" in bad.reason) for bad in consumer.undecodable] == (
            [] if choice == "raw" else [(1, True)]
        )
    assert outcomes(group) == [(ACCEPTED, 1), outcome, (ACCEPTED, 1)]


def test_record_whose_lock_ends_during_its_deserializer_is_not_returned() -> None:
    calls = []

    def deserialize(data: bytes) -> bytes:
        calls.append(data)
        if len(calls) == 1:
            group.advance(LOCK_MS)
        return data

    group = group_of(b"0", share_record_lock_duration_ms=LOCK_MS)
    with member(group, value_deserializer=deserialize) as consumer:
        assert [record.delivery_count for record in consumer.poll(2 * LOCK_MS / 1000)] == [2]
