"""A queue of fetched records that the application has not received yet.

Fetched records wait in this queue for a poll. An iteration (`for record in consumer`) receives the records one by one,
but only those that were in the queue at its last poll. Records that arrive later wait until the iteration polls again.
The new poll first acknowledges the records that the iteration has received.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import groupby, islice
from operator import attrgetter
from typing import Any

from sharegroup.client.records import Delivery, Record

delivery_of = attrgetter("delivery")


class FetchedRecords:
    """A queue of fetched records that the application has not received yet.

    "Polled" records are those that a running iteration may still receive without another poll.
    """

    def __init__(self) -> None:
        self._records: deque[Record[Any]] = deque()
        self._polled = 0

    def __len__(self) -> int:
        return len(self._records)

    @property
    def unpolled(self) -> int:
        """The number of records that wait for a poll."""
        return len(self._records) - self._polled

    @property
    def unpolled_node_ids(self) -> set[int]:
        """The ids of the nodes whose records wait for a poll."""
        unpolled = islice(self._records, self._polled, None)
        return {delivery.node_id for delivery, _ in groupby(unpolled, delivery_of)}

    def add(self, records: Iterable[Record[Any]]) -> None:
        """Add records at the end."""
        self._records.extend(records)

    def pop(self, limit: int) -> list[Record[Any]]:
        """Remove and return the first records, up to `limit`.

        The remaining records count as not polled: an iteration (`for record in consumer`) receives them only after its
        next poll.
        """
        self._polled = 0
        return [self._records.popleft() for _ in range(min(limit, len(self._records)))]

    def poll_all(self) -> None:
        """Mark all queued records as polled, so that the iteration receives them."""
        self._polled = len(self._records)

    def pop_polled(self) -> Record[Any] | None:
        """Remove and return the next record for the iteration; None if the iteration must poll first."""
        if not self._polled:
            return None
        self._polled -= 1
        return self._records.popleft()

    def remove(self, is_over: Callable[[Delivery], bool]) -> list[Record[Any]]:
        """Remove and return the records for whose delivery `is_over` returns True.

        `is_over` is called once for consecutive records of the same delivery. If any record is removed, the iteration
        must poll before it receives more records.
        """
        removed: list[Record[Any]] = []
        kept: list[Record[Any]] = []
        for delivery, run in groupby(self._records, delivery_of):
            (removed if is_over(delivery) else kept).extend(run)
        if removed:
            self._records, self._polled = deque(kept), 0
        return removed

    def clear(self) -> None:
        """Remove all records."""
        self._records.clear()
        self._polled = 0
