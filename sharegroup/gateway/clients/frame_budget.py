"""One budget for the large requests of all connections (Kafka: `queued.max.request.bytes`, its MemoryPool).

A connection has to have a share as large as its request before the request's body is read, and gives it back when the
request is handled. There is no deadlock:

- A small request never waits: what it takes is bounded by the number of connections.
- Who has a share waits for nobody here: it is sent its body, or the connection ends (`ClientConnection.is_idle`).
- A request that is larger than the budget has room for is read when no other large one is.

An eighth of the budget is for ordinary requests alone, so that some huge ones that come slowly, or never to their end,
do not keep producers waiting. Huge requests wait in turns by address, and none passes another; ordinary ones pass.

    |<------------------------ total ------------------------>|
    |<------- huge or ordinary ------->|<-- ordinary only --->|
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from sharegroup.gateway.clients.fair_turns import FairTurns

#: Up to here a request is small. That much of any request is read in one go with its length, anyway.
SMALL_BYTES = 65_536
#: Up to here a request is an ordinary one: Kafka's `max.request.size`, or `batch.size` of some partitions.
ORDINARY_BYTES = 1_048_576
_RESERVED_PART = 8


class _Waiter(NamedTuple):
    size: int
    granted: asyncio.Future[None]

    @property
    def is_huge(self) -> bool:
        return self.size > ORDINARY_BYTES


class FrameBudget:
    """`total_bytes` is shared by all connections. On one event loop."""

    def __init__(self, total_bytes: int) -> None:
        self._total, self._for_huge = total_bytes, total_bytes - total_bytes // _RESERVED_PART
        self._ordinary_used = self._huge_used = 0
        self._waiting: FairTurns[_Waiter] = FairTurns()

    @property
    def used_bytes(self) -> int:
        """What shares there are add up to."""
        return self._ordinary_used + self._huge_used

    @property
    def waiting(self) -> int:
        """How many wait for a share."""
        return len(self._waiting)

    async def take(self, address: str, size: int) -> None:
        """Wait for a share of so many bytes; each is to be given back. Who is cancelled has none."""
        waiter = _Waiter(size, asyncio.get_running_loop().create_future())
        self._waiting.add(address, waiter)
        self._grant()
        try:
            await waiter.granted
        except asyncio.CancelledError:
            self._waiting.discard(address, waiter)
            if waiter.granted.done() and not waiter.granted.cancelled():
                self.give_back(size)
            else:
                self._grant()  # it may have been in the way of others
            raise

    def give_back(self, size: int) -> None:
        """A share is free again."""
        if size > ORDINARY_BYTES:
            self._huge_used -= size
        else:
            self._ordinary_used -= size
        self._grant()

    def _grant(self) -> None:
        """Shares for those whose turn it is, as far as there is room."""
        while (waiter := self._next()) is not None:
            if waiter.granted.cancelled():
                continue
            if waiter.is_huge:
                self._huge_used += waiter.size
            else:
                self._ordinary_used += waiter.size
            waiter.granted.set_result(None)

    def _next(self) -> _Waiter | None:
        first_huge = next((waiter for _, waiter in self._waiting.heads() if waiter.is_huge), None)
        return self._waiting.take(lambda _, waiter: self._fits(waiter) and (not waiter.is_huge or waiter is first_huge))

    def _fits(self, waiter: _Waiter) -> bool:
        if waiter.size > self._for_huge:
            return not self.used_bytes
        return self.used_bytes + waiter.size <= (self._for_huge if waiter.is_huge else self._total)
