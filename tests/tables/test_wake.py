"""How long a source may wait, and what it must fetch of the request topic."""

from __future__ import annotations

import pytest

from sharegroup.job.clock.handover import Handover, HandoverChange
from sharegroup.job.clock.wake import RequestTopicState, Wake
from sharegroup.types import WaitsFor


def with_lease(end_ms: int, handover: Handover) -> Handover:
    """Add a gateway with reservations whose lease ends at that time."""
    handover.apply(HandoverChange(leases={"g": end_ms}))
    handover.apply(HandoverChange(reservers={"k": ["g"]}))
    return handover


@pytest.mark.parametrize(
    ("told", "wake"),
    [
        (Handover(waiting={"k": WaitsFor.RECORDS}), Wake(None, is_due=False)),
        (Handover({"k": 101, "l": 200}), Wake(101, is_due=False)),
        (Handover({"k": 100, "l": 200}), Wake(100, is_due=True)),
        (with_lease(90, Handover({"k": 101})), Wake(90, is_due=True)),
    ],
)
def test_the_handover_decides_what_to_wait_for(told: Handover, wake: Wake) -> None:
    assert Wake.from_handover(told, 100) == wake


def test_the_request_topic_is_polled_once_and_again_for_a_deadline() -> None:
    calm, due = Wake.from_handover(Handover(), 100), Wake.from_handover(Handover({"k": 1}), 100)
    assert RequestTopicState().must_fetch_end(calm)
    assert not RequestTopicState(safe_ms=50).must_fetch_end(calm)
    assert RequestTopicState(safe_ms=50).must_fetch_end(due)
