"""The demands of one member for one share-partition.

At most one is *standing*: sent, without a response, and not lost. Lost and replaced ones may still get a response.
"""

from __future__ import annotations

from typing import NamedTuple

#: Lost demands whose response is still accepted. The locks of an older demand have expired by then.
_MAX_UNANSWERED = 100


class FetchDemand(NamedTuple):
    """A fetch request that was sent to the job.

    `is_ahead`: no fetch of the client was waiting when it was sent. `linger_ms`: how long it may wait at the job for
    others. `is_round`: the job answers it after one round, also without records.
    """

    id: str
    sent_ms: int
    records: int
    is_ahead: bool
    linger_ms: int = 0
    is_round: bool = False


class FetchDemands:
    """The demands that were sent and have no response; at most one is standing.

    A demand without a response for `lost_after_ms`, or `round_lost_after_ms` if it is for one round, counts as lost.
    Its response is accepted if it still arrives.
    """

    def __init__(self, lost_after_ms: int, round_lost_after_ms: int) -> None:
        self._lost_after_ms, self._round_lost_after_ms = lost_after_ms, round_lost_after_ms
        self._unanswered: dict[str, FetchDemand] = {}
        self._standing: FetchDemand | None = None
        self._not_before_ms = 0

    def can_send(self, now_ms: int, is_round: bool = False) -> bool:
        """Return whether no demand stands and the pause after a rejected demand is over.

        A demand for one round may replace a standing one that waits until there are records.
        """
        standing = self._standing
        if standing is None or (is_round and not standing.is_round):
            return now_ms >= self._not_before_ms
        lost_after_ms = self._round_lost_after_ms if standing.is_round else self._lost_after_ms
        return now_ms >= max(self._not_before_ms, standing.sent_ms + lost_after_ms)

    @property
    def is_standing(self) -> bool:
        return self._standing is not None

    @property
    def is_ahead(self) -> bool:
        """Whether the standing demand was sent while no fetch of the client waited."""
        return self._standing is not None and self._standing.is_ahead

    def add(self, demand: FetchDemand) -> None:
        """Add a demand that was sent to the job; it becomes the standing one."""
        self._standing = self._unanswered[demand.id] = demand
        if len(self._unanswered) > _MAX_UNANSWERED:
            del self._unanswered[next(iter(self._unanswered))]

    def remove(self, demand_id: str) -> FetchDemand | None:
        """Remove and return the demand of a response. None for a repeated or unexpected response."""
        demand = self._unanswered.pop(demand_id, None)
        if demand is not None and demand is self._standing:
            self._standing = None
        return demand

    def pause_until(self, ms: int) -> None:
        """Send no demand before that time."""
        self._not_before_ms = ms

    def mark_lost(self) -> None:
        """Treat the standing demand as lost, because the job may not have it; its response is still accepted."""
        self._standing = None

    def clear(self) -> None:
        """Accept no response to the demands sent so far."""
        self._unanswered.clear()
        self._standing = None
