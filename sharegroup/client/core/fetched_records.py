"""The records that were acquired and that the application has not received yet.

A response that was fetched ahead waits here until the next poll. An iteration receives the records one by one: those
that were there when it last polled. The ones that arrive meanwhile wait for its next poll, which acknowledges the
earlier ones.
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
    """A queue of records."""

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
        """The nodes of the records that wait for a poll."""
        unpolled = islice(self._records, self._polled, None)
        return {delivery.node_id for delivery, _ in groupby(unpolled, delivery_of)}

    def add(self, records: Iterable[Record[Any]]) -> None:
        """Add records at the end."""
        self._records.extend(records)

    def pop(self, limit: int) -> list[Record[Any]]:
        """Remove and return the first records, for a poll."""
        self._polled = 0
        return [self._records.popleft() for _ in range(min(limit, len(self._records)))]

    def poll_all(self) -> None:
        """Let the iteration receive all records that are here now."""
        self._polled = len(self._records)

    def pop_polled(self) -> Record[Any] | None:
        """Remove and return the next record of the iteration, None if it must poll."""
        if not self._polled:
            return None
        self._polled -= 1
        return self._records.popleft()

    def remove(self, is_over: Callable[[Delivery], bool]) -> list[Record[Any]]:
        """Remove and return the records of these deliveries. It is decided once for neighbours of one delivery."""
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
