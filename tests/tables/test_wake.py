"""How long a source may wait, and what it must fetch of the request topic."""

from __future__ import annotations

import pytest

from sharegroup.job.clock.hand_over import HandOver
from sharegroup.job.clock.wake import Requests, Wake
from sharegroup.types import WaitsFor


@pytest.mark.parametrize(
    ("told", "wake"),
    [
        (HandOver(waiting={"k": WaitsFor.RECORDS}), Wake(None, is_due=False)),
        (HandOver({"k": 101, "l": 200}), Wake(101, is_due=False)),
        (HandOver({"k": 100, "l": 200}), Wake(100, is_due=True)),
    ],
)
def test_the_handover_decides_what_to_wait_for(told: HandOver, wake: Wake) -> None:
    assert Wake.of(told, 100) == wake


def test_the_request_topic_is_polled_once_and_again_for_a_deadline() -> None:
    calm, due = Wake.of(HandOver(), 100), Wake.of(HandOver({"k": 1}), 100)
    assert Requests().must_look(calm)
    assert not Requests(safe_ms=50).must_look(calm)
    assert Requests(safe_ms=50).must_look(due)
