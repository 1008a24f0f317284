"""What a source's next look is for: how long it may wait, and what of the request topic it has to know."""

from __future__ import annotations

from typing import NamedTuple

from sharegroup.watch.hand_over import HandOver


class Wake(NamedTuple):
    """By what the driver tells: `deadline_ms` is when the first key wants a tick, `is_due` whether that is over.

    `may_linger`: requests that nobody waits for need not be brought at once, as nobody waits for records either.
    """

    deadline_ms: int | None
    is_due: bool
    may_linger: bool

    @classmethod
    def of(cls, told: HandOver, now_ms: int) -> Wake:
        """The wake for what the driver told last, as of `now_ms`."""
        deadline_ms = told.deadlines.first_ms
        is_due = deadline_ms is not None and deadline_ms <= now_ms
        return cls(deadline_ms, is_due, may_linger=not told.waiting and not is_due)


class Requests(NamedTuple):
    """What is known of the request topic: whether somebody waits for what is unread there, and the safe time (ms)."""

    are_wanted: bool = False
    safe_ms: int = 0

    def must_look(self, wake: Wake) -> bool:
        """Whether the topic's end is to be looked up: once, and again when a deadline may be over by the safe time."""
        return not self.safe_ms or wake.is_due

    def seen(self, unread: bool, safe_ms: int, wake: Wake) -> Requests:
        """What a look-up has found. Unread requests that may linger are left to the wait."""
        return Requests(self.are_wanted or (unread and not wake.may_linger), safe_ms)
