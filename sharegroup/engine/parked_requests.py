"""Requests for share-partitions that are not loaded yet: the two queries have no common clock, so a member may know of
its assignment before the share-partition's state has been read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sharegroup.engine.rows import RequestRow
from sharegroup.protocol.share_partition_requests import FetchRequest, SharePartitionRequest

#: How long a request waits for its share-partition to be loaded before it is refused; a fetch not longer than it wants.
PARKED_MS = 10_000
#: Parked rows of one key; what comes on top is refused at once, so that nonsense cannot fill the state.
MAX_PARKED = 1_000


class ParkedRequest(NamedTuple):
    """A row that waits until `until_ms`."""

    row: RequestRow
    until_ms: int


class ParkedRequests:
    """The parked rows of one key, in the order in which they came."""

    def __init__(self, dumped: Sequence[Sequence[Any]]) -> None:
        self._parked = [ParkedRequest(RequestRow(*row), until_ms) for row, until_ms in dumped]

    def dump(self) -> list[ParkedRequest]:
        """JSON-able; the constructor reads it back."""
        return list(self._parked)

    def __bool__(self) -> bool:
        """Whether any row is parked."""
        return bool(self._parked)

    def park(self, row: RequestRow, request: SharePartitionRequest, now_ms: int) -> bool:
        """Let a row wait; False when it has waited long enough, or too many wait."""
        waits_ms = min(request.max_wait_ms, PARKED_MS) if isinstance(request, FetchRequest) else PARKED_MS
        until_ms = row.append_ms + waits_ms
        if now_ms > until_ms or len(self._parked) >= MAX_PARKED:
            return False
        self._parked.append(ParkedRequest(row, until_ms))
        return True

    def take_all(self) -> list[RequestRow]:
        """Hand out all rows, to be tried again."""
        parked, self._parked = self._parked, []
        return [request.row for request in parked]

    def deadlines_ms(self) -> Iterator[int]:
        """When a row has waited long enough."""
        return (request.until_ms for request in self._parked)
