"""The demands of one member at one share-partition: which stands at the job, and which may still be answered."""

from __future__ import annotations

from typing import NamedTuple

#: Lost demands whose answer would still be taken; by then the locks of an older one have long run out.
_MOST_UNANSWERED = 100


class Demand(NamedTuple):
    """A fetch that was sent to the job; `is_ahead`: no fetch of the client was waiting when it was sent. `linger_ms` is
    how long it may wait there for others. `is_round`: the job answers it after one round, also without records."""

    id: str
    sent_ms: int
    records: int
    is_ahead: bool
    linger_ms: int = 0
    is_round: bool = False


class Demands:
    """Lets one demand stand at a time. One that was not answered for `lost_after_ms`, or `round_lost_after_ms` if it is
    for one round, is lost; its answer counts when it comes."""

    def __init__(self, lost_after_ms: int, round_lost_after_ms: int) -> None:
        self._lost_after_ms, self._round_lost_after_ms = lost_after_ms, round_lost_after_ms
        self._unanswered: dict[str, Demand] = {}
        self._standing: Demand | None = None
        self._not_before_ms = 0

    def may_send(self, now_ms: int, is_round: bool = False) -> bool:
        """Whether none stands, and the last one was not refused just now.

        One for a round may take the place of one that stands until there are records.
        """
        standing = self._standing
        if standing is None or (is_round and not standing.is_round):
            return now_ms >= self._not_before_ms
        lost_after_ms = self._round_lost_after_ms if standing.is_round else self._lost_after_ms
        return now_ms >= max(self._not_before_ms, standing.sent_ms + lost_after_ms)

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
