"""Tests of a handler, with pytest and a share group in memory: without a broker, and without waiting for delays.

    python -m pytest examples/handler_tests.py

In a program of yours, the handler is in a module that these tests import.
"""

from __future__ import annotations

from sharegroup.client import Record, Reject, Release, Retry, ShareConsumer
from sharegroup.client.testing import Cause, InMemoryShareGroup, RecordState


class Payments:
    """A fake payment service. Its first `failures` calls fail; `paid` has the amounts of the other calls."""

    def __init__(self, failures: int = 0) -> None:
        self.failures, self.paid = failures, list[int]()

    def pay(self, amount: int) -> None:
        """Raise ConnectionError in the first `failures` calls, then store the amount."""
        if self.failures > 0:
            self.failures -= 1
            raise ConnectionError("the service is down")
        self.paid.append(amount)


def connect(consumer: ShareConsumer, payments: Payments) -> None:
    """Register the handler that the tests check."""

    @consumer.handler(on_error=Retry.exponential(1, 60, max_attempts=3))
    def bill(record: Record[int]) -> None:
        if record.value < 0:
            raise Reject("negative amount")
        if record.value > 1_000 and record.delivery_count == 1:
            raise Release("let another member try", delay_s=30)
        payments.pay(record.value)


def run(group: InMemoryShareGroup, payments: Payments) -> None:
    """Handle all records of the group."""
    consumer = ShareConsumer(
        "localhost:9092", group_id="billing", topics=["orders"], value_deserializer=int, connector=group
    )
    connect(consumer, payments)
    group.stop_when_finished(consumer)
    consumer.run()


def group_of(*amounts: bytes) -> InMemoryShareGroup:
    """Return a group with these orders, which delivers each at most three times."""
    group = InMemoryShareGroup("billing", share_delivery_count_limit=3)
    for amount in amounts:
        group.produce("orders", amount)
    return group


def test_negative_amounts_are_rejected() -> None:
    group, payments = group_of(b"5", b"-1", b"7"), Payments()
    run(group, payments)
    assert payments.paid == [5, 7]
    assert [record.causes[-1] for record in group.records("orders")] == [Cause.ACCEPT, Cause.REJECT, Cause.ACCEPT]


def test_large_amounts_are_paid_at_the_second_delivery() -> None:
    group, payments = group_of(b"2000"), Payments()
    run(group, payments)
    (record,) = group.records("orders")
    assert (record.state, record.delivery_count, payments.paid) == (RecordState.ACKNOWLEDGED, 2, [2000])


def test_outage_is_retried_at_the_same_member() -> None:
    group, payments = group_of(b"5"), Payments(failures=2)
    run(group, payments)
    (record,) = group.records("orders")
    assert (record.state, record.delivery_count, payments.paid) == (RecordState.ACKNOWLEDGED, 1, [5])


def test_record_is_archived_after_its_last_delivery() -> None:
    group, payments = group_of(b"5"), Payments(failures=100)
    run(group, payments)
    (record,) = group.records("orders")
    assert (record.state, record.delivery_count, payments.paid) == (RecordState.ARCHIVED, 3, [])
    assert payments.failures == 100 - 3 * 3  # three attempts in each of three deliveries


def test_undecodable_record_is_rejected() -> None:
    group, payments = group_of(b"five", b"5"), Payments()
    run(group, payments)
    assert [record.state.name for record in group.records("orders")] == ["ARCHIVED", "ACKNOWLEDGED"]
