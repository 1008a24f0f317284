"""The demands (requests for records) that were sent to the job for one member of one share-partition.

At most one demand is *standing*: it was sent, has no response, and is not regarded as lost. The job may still respond
to demands that are lost or were replaced.
"""

from __future__ import annotations

from typing import NamedTuple

#: Most demands without a response that are kept. A response to an older demand is not accepted, because the locks of
#: its records are no longer valid.
_MAX_UNANSWERED = 100


class FetchDemand(NamedTuple):
    """A request for records that was sent to the job.

    Attributes:
        id: the id of the request row.
        sent_ms: when it was sent.
        records: the number of records that it requests.
        is_ahead: whether it was sent while no fetch of the client waited for records.
        linger_ms: how long it may wait at the job for other demands.
        is_round: whether the job must respond soon, even without records, because the client's fetch has MinBytes 0.
    """

    id: str
    sent_ms: int
    records: int
    is_ahead: bool
    linger_ms: int = 0
    is_round: bool = False


class FetchDemands:
    """The demands that were sent and have no response. At most one of them is standing: neither lost nor replaced.

    Each new demand replaces the previous one. A demand counts as lost after `lost_after_ms` without a response. A
    demand with `is_round`, which waits at the job only briefly, counts as lost after `round_lost_after_ms`. A late
    response to a lost demand is still accepted.
    """

    def __init__(self, lost_after_ms: int, round_lost_after_ms: int) -> None:
        self._lost_after_ms, self._round_lost_after_ms = lost_after_ms, round_lost_after_ms
        self._unanswered: dict[str, FetchDemand] = {}
        self._standing: FetchDemand | None = None
        self._not_before_ms = 0

    def can_send(self, now_ms: int, is_round: bool = False) -> bool:
        """Return whether a demand may be sent now.

        The pause after a rejected demand must have ended. A standing demand (sent, without a response) prevents further
        demands until it counts as lost. `is_round` is that of the new demand (see `FetchDemand`). If it is True, the
        new demand may replace a standing demand that waits until there are records.
        """
        standing = self._standing
        if standing is None or (is_round and not standing.is_round):
            return now_ms >= self._not_before_ms
        lost_after_ms = self._round_lost_after_ms if standing.is_round else self._lost_after_ms
        return now_ms >= max(self._not_before_ms, standing.sent_ms + lost_after_ms)

    @property
    def unanswered(self) -> list[str]:
        """The ids of the demands that have no response."""
        return list(self._unanswered)

    @property
    def is_standing(self) -> bool:
        return self._standing is not None

    @property
    def is_ahead(self) -> bool:
        """Whether the standing demand was sent while no fetch of the client waited for records."""
        return self._standing is not None and self._standing.is_ahead

    def add(self, demand: FetchDemand) -> None:
        """Add a demand that was sent to the job. It becomes the standing demand."""
        self._standing = self._unanswered[demand.id] = demand
        if len(self._unanswered) > _MAX_UNANSWERED:
            del self._unanswered[next(iter(self._unanswered))]

    def remove(self, demand_id: str) -> FetchDemand | None:
        """Remove and return a demand that has failed or got a response; None if it was removed before or is unknown."""
        demand = self._unanswered.pop(demand_id, None)
        if demand is not None and demand is self._standing:
            self._standing = None
        return demand

    def pause_until(self, ms: int) -> None:
        """Set the time before which no demand may be sent."""
        self._not_before_ms = ms

    def mark_lost(self) -> None:
        """Regard the standing demand as lost, because the job may not have it. A late response is still accepted."""
        self._standing = None

    def clear(self) -> None:
        """Remove all demands, so that no response to them is accepted."""
        self._unanswered.clear()
        self._standing = None
