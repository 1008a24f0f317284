"""The demands of one member at one share-partition: which stands at the job, and which may still be answered."""

from __future__ import annotations

from typing import NamedTuple

#: Lost demands whose answer would still be taken; by then the locks of an older one have long run out.
_MOST_UNANSWERED = 100


class Demand(NamedTuple):
    """A fetch that was sent to the job; `is_ahead`: no fetch of the client was waiting when it was sent. `linger_ms` is
    how long it may wait there for others."""

    id: str
    sent_ms: int
    records: int
    is_ahead: bool
    linger_ms: int = 0


class Demands:
    """Lets one demand stand at a time. One that was not answered for `lost_after_ms` is lost; its answer counts when it
    comes."""

    def __init__(self, lost_after_ms: int) -> None:
        self._lost_after_ms = lost_after_ms
        self._unanswered: dict[str, Demand] = {}
        self._standing: Demand | None = None
        self._not_before_ms = 0

    def may_send(self, now_ms: int) -> bool:
        """Whether none stands, and the last one was not refused just now."""
        is_standing = self._standing is not None and now_ms - self._standing.sent_ms < self._lost_after_ms
        return not is_standing and now_ms >= self._not_before_ms

    @property
    def is_standing(self) -> bool:
        """Whether one stands at the job."""
        return self._standing is not None

    @property
    def is_ahead(self) -> bool:
        """Whether one was sent that no fetch of the client waited for."""
        return self._standing is not None and self._standing.is_ahead

    def sent(self, demand: Demand) -> None:
        """The demand is on its way to the job; one stands at a time."""
        self._standing = self._unanswered[demand.id] = demand
        if len(self._unanswered) > _MOST_UNANSWERED:
            del self._unanswered[next(iter(self._unanswered))]

    def answered(self, demand_id: str) -> Demand | None:
        """The demand that is answered; None if it was before, or is not waited for any more."""
        demand = self._unanswered.pop(demand_id, None)
        if demand is not None and demand is self._standing:
            self._standing = None
        return demand

    def pause_until(self, ms: int) -> None:
        """Let none be sent before that time."""
        self._not_before_ms = ms

    def lost(self) -> None:
        """The job may know nothing of the one that stands; its answer counts when it comes."""
        self._standing = None

    def clear(self) -> None:
        """No answer to what was asked so far is taken any more."""
        self._unanswered.clear()
        self._standing = None
