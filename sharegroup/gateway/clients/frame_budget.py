"""Memory budget for the large requests of all connections (Kafka: `queued.max.request.bytes` and its MemoryPool).

Before a connection reads the body of a large request, it acquires a share of the budget. The share is as large as the
request, and is released when the request has been handled. This cannot deadlock:

- A small request needs no share. The number of connections limits the memory of small requests.
- A connection that holds a share never waits for a second one. If the body of its request stops arriving,
  `Connections.close_idle` ends the connection.
- If a request is larger than the part of the budget for huge requests, it gets its share when no other request holds
  one.

A large request is huge if it is longer than `ORDINARY_BYTES`, otherwise it is ordinary. One eighth of the budget is
reserved for ordinary requests. Huge requests that arrive slowly therefore cannot block producers. Client addresses with
huge requests get shares in turn. Ordinary requests may overtake huge requests.

    |<------------------------ total ------------------------>|
    |<------- huge or ordinary ------->|<-- ordinary only --->|
"""

import asyncio
from typing import NamedTuple

from sharegroup.gateway.clients.fair_turns import FairTurns

#: Requests up to this size are small. They are read without a share of the budget.
SMALL_BYTES = 65_536
#: Larger requests are huge. This value is the default of producers' `max.request.size`.
ORDINARY_BYTES = 1_048_576
_RESERVED_PART = 8


class _Waiter(NamedTuple):
    size: int
    granted: asyncio.Future[None]

    @property
    def is_huge(self) -> bool:
        return self.size > ORDINARY_BYTES


class FrameBudget:
    """The memory budget for large requests: `total_bytes` for all connections. Must be used on one event loop."""

    def __init__(self, total_bytes: int) -> None:
        self._total, self._for_huge = total_bytes, total_bytes - total_bytes // _RESERVED_PART
        self._ordinary_used = self._huge_used = 0
        self._waiting: FairTurns[_Waiter] = FairTurns()

    @property
    def used_bytes(self) -> int:
        """The sum of the shares that are held."""
        return self._ordinary_used + self._huge_used

    @property
    def waiting_count(self) -> int:
        """The number of requests that wait for a share."""
        return len(self._waiting)

    async def acquire(self, address: str, size: int) -> None:
        """Wait for a share of `size` bytes for a request from the client `address`.

        The caller must call `release` with the same size when the request has been handled. If this call is cancelled,
        there is no share to release.
        """
        waiter = _Waiter(size, asyncio.get_running_loop().create_future())
        self._waiting.add(address, waiter)
        self._assign_shares()
        try:
            await waiter.granted
        except asyncio.CancelledError:
            self._waiting.discard(address, waiter)
            if waiter.granted.done() and not waiter.granted.cancelled():
                self.release(size)
            else:
                self._assign_shares()  # it may have blocked others
            raise

    def release(self, size: int) -> None:
        if size > ORDINARY_BYTES:
            self._huge_used -= size
        else:
            self._ordinary_used -= size
        self._assign_shares()

    def _assign_shares(self) -> None:
        """Assign shares to the waiting requests that fit into the budget. Addresses are served in turn."""
        while (waiter := self._pop_next()) is not None:
            if waiter.granted.cancelled():
                continue
            if waiter.is_huge:
                self._huge_used += waiter.size
            else:
                self._ordinary_used += waiter.size
            waiter.granted.set_result(None)

    def _pop_next(self) -> _Waiter | None:
        first_huge = next((waiter for _, waiter in self._waiting.first_items() if waiter.is_huge), None)
        return self._waiting.pop_first(
            lambda _, waiter: self._fits(waiter) and (not waiter.is_huge or waiter is first_huge)
        )

    def _fits(self, waiter: _Waiter) -> bool:
        if waiter.size > self._for_huge:
            return not self.used_bytes
        return self.used_bytes + waiter.size <= (self._for_huge if waiter.is_huge else self._total)
