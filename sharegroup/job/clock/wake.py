"""What a source's next look is for: how long it may wait, and what of the request topic it has to know."""

from __future__ import annotations

from typing import NamedTuple

from sharegroup.job.clock.hand_over import HandOver


class Wake(NamedTuple):
    """By what the driver tells: `deadline_ms` is when the first key wants a tick, `is_due` whether that is over."""

    deadline_ms: int | None
    is_due: bool

    @classmethod
    def of(cls, told: HandOver, now_ms: int) -> Wake:
        """The wake for what the driver told last, as of `now_ms`, the brokers' time (0: not known)."""
        deadline_ms = told.deadlines.first_ms
        return cls(deadline_ms, deadline_ms is not None and deadline_ms <= now_ms)


class Requests(NamedTuple):
    """What is known of the request topic: whether what is unread there is to be brought, and the safe time (ms)."""

    are_wanted: bool = False
    safe_ms: int = 0

    def must_look(self, wake: Wake) -> bool:
        """Whether the topic's end is to be looked up: once, and again when a deadline may be over by the safe time."""
        return not self.safe_ms or wake.is_due
