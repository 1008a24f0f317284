"""When a source must act next: how long it may wait, and whether it must fetch the end of the request topic."""

from typing import NamedTuple, Self

from sharegroup.job.clock.handover import Handover


class Wake(NamedTuple):
    """The next time at which the source must send a row: a tick, or the end of a gateway's lease.

    `deadline_ms` is that time by the brokers' clocks; None if there is none. `is_due` is whether it has passed.
    """

    deadline_ms: int | None
    is_due: bool

    @classmethod
    def from_handover(cls, handover: Handover, now_ms: int) -> Self:
        """Return the earliest deadline or lease end of a handover. `now_ms` is the brokers' time (0: not known)."""
        found = (handover.deadlines.first_ms, handover.leases.first_ms)
        deadline_ms = min((deadline for deadline in found if deadline is not None), default=None)
        return cls(deadline_ms, deadline_ms is not None and deadline_ms <= now_ms)


class RequestTopicState(NamedTuple):
    """Whether a request topic has requests to process, and up to which time it has been read.

    Attributes:
        is_due: whether unread requests must be processed now.
        safe_ms: the safe time (ms). All requests appended before it have been read. 0 if it is not known.
    """

    is_due: bool = False
    safe_ms: int = 0

    def must_fetch_end(self, wake: Wake) -> bool:
        """Return whether to fetch the topic's end offsets, which advance the safe time.

        That is necessary if no safe time is known, or if the deadline of `wake` has passed.
        """
        return not self.safe_ms or wake.is_due
