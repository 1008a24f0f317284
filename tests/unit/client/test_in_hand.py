"""The records that the application has."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from sharegroup.client.core.acknowledgements import AcknowledgeResult
from sharegroup.client.core.in_hand import InHand, Taken
from sharegroup.client.errors import IllegalStateError
from sharegroup.client.records import Delivery, Record, TopicIdPartition
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.types import AcknowledgeType

ORDERS = TopicIdPartition(UUID(int=7), 0, "orders")
ACCEPT, RELEASE, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.RENEW


def record(offset: int, node_id: int = 1, count: int = 1) -> Record[Any]:
    delivery = Delivery(ORDERS, node_id, 30_000)
    return Record("orders", 0, offset, 0, 0, None, b"", [], count, delivery)


def test_acknowledged_records_leave_and_others_stay() -> None:
    hand = InHand()
    first, second = record(1), record(2)
    hand.deliver([first, second])
    hand.acknowledge(first, RELEASE)
    hand.acknowledge(first, ACCEPT)  # the last choice counts
    assert hand.take() == [Taken(1, ORDERS, {1: ACCEPT})]
    assert (len(hand), hand.unacknowledged) == (1, 1)
    with pytest.raises(IllegalStateError, match="orders-0 offset 1"):
        hand.acknowledge(first, ACCEPT)


def test_acknowledgements_go_to_the_node_that_delivered() -> None:
    hand = InHand()
    hand.deliver([record(1, node_id=1), record(2, node_id=2)])
    hand.accept_all()
    assert hand.take() == [Taken(1, ORDERS, {1: ACCEPT}), Taken(2, ORDERS, {2: ACCEPT})]


def test_earlier_delivery_cannot_be_acknowledged() -> None:
    hand = InHand()
    earlier = record(1)
    hand.deliver([earlier])
    hand.acknowledge(earlier, ACCEPT)
    hand.deliver([record(1, count=2)])
    assert hand.unacknowledged == 1
    with pytest.raises(IllegalStateError):
        hand.acknowledge(earlier, ACCEPT)


def test_acknowledge_by_offset() -> None:
    hand = InHand()
    hand.deliver([record(1)])
    hand.acknowledge_offset("orders", 0, 1, ACCEPT)
    with pytest.raises(IllegalStateError, match="orders-0 offset 2"):
        hand.acknowledge_offset("orders", 0, 2, ACCEPT)
    assert hand.take() == [Taken(1, ORDERS, {1: ACCEPT})]


@pytest.mark.parametrize("kind", [AcknowledgeType.GAP, 9])
def test_other_types_are_refused(kind: Any) -> None:
    hand = InHand()
    held = record(1)
    hand.deliver([held])
    with pytest.raises(IllegalStateError):
        hand.acknowledge(held, kind)


def test_renewed_record_is_handed_over_again() -> None:
    hand = InHand()
    held = record(1)
    hand.deliver([held])
    hand.acknowledge(held, RENEW)
    (taken,) = hand.take()
    assert hand.on_result(AcknowledgeResult(ORDERS, taken.types, None, 10_000), 50_000) == [held]
    assert held.delivery.lock_until_ms == 60_000


def test_renewed_record_stays_in_hand_if_the_host_keeps_it() -> None:
    hand = InHand(keeps_renewed=True)
    held = record(1)
    hand.deliver([held])
    hand.acknowledge(held, RENEW)
    (taken,) = hand.take()
    assert hand.on_result(AcknowledgeResult(ORDERS, taken.types, None), 0) == []
    hand.acknowledge(held, ACCEPT)
    assert hand.take() == [Taken(1, ORDERS, {1: ACCEPT})]


def test_record_that_could_not_be_renewed_is_lost() -> None:
    hand = InHand()
    held = record(1)
    hand.deliver([held])
    hand.acknowledge(held, RENEW)
    (taken,) = hand.take()
    error = RequestError(ErrorCode.INVALID_RECORD_STATE, "")
    assert hand.on_result(AcknowledgeResult(ORDERS, taken.types, error), 0) == []
    assert len(hand) == 0
