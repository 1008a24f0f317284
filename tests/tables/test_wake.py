"""How long a source may wait, and what it must know of the request topic."""

from __future__ import annotations

import pytest

from sharegroup.watch.hand_over import HandOver
from sharegroup.watch.wake import Requests, Wake

NOBODY, SOMEBODY = HandOver(), HandOver(waiting={"k"})


@pytest.mark.parametrize(
    ("told", "wake"),
    [
        (NOBODY, Wake(None, is_due=False, may_linger=True)),
        (SOMEBODY, Wake(None, is_due=False, may_linger=False)),
        (HandOver({"k": 101, "l": 200}), Wake(101, is_due=False, may_linger=True)),
        (HandOver({"k": 100, "l": 200}), Wake(100, is_due=True, may_linger=False)),
    ],
)
def test_what_the_driver_tells_says_what_to_wait_for(told: HandOver, wake: Wake) -> None:
    assert Wake.of(told, 100) == wake


def test_the_request_topic_is_looked_at_once_and_again_for_a_deadline() -> None:
    calm, due = Wake.of(NOBODY, 100), Wake.of(HandOver({"k": 1}), 100)
    assert Requests().must_look(calm)
    assert not Requests(safe_ms=50).must_look(calm)
    assert Requests(safe_ms=50).must_look(due)


@pytest.mark.parametrize(
    ("before", "unread", "told", "are_wanted"),
    [
        (False, True, NOBODY, False),
        (False, True, SOMEBODY, True),
        (False, True, HandOver({"k": 1}), True),
        (False, False, SOMEBODY, False),
        (True, False, NOBODY, True),
    ],
)
def test_unread_requests_are_wanted_unless_they_may_linger(
    before: bool, unread: bool, told: HandOver, are_wanted: bool
) -> None:
    seen = Requests(before, 5).seen(unread, 70, Wake.of(told, 100))
    assert seen == Requests(are_wanted, 70)
