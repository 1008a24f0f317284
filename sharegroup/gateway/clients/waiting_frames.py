"""The requests of one client that wait for their turn. What they can make the gateway hold is bounded.

A large request is no more than begun while others of its client wait: as in Kafka, where a connection is not read from
while its request is handled. Once it is its turn it waits for its share of the budget, and its body is read then. The
share is given back when it has been handled, which is when the next one is asked for.
"""

from __future__ import annotations

import asyncio
from collections import deque

from sharegroup.gateway.clients.frame_budget import SMALL_BYTES, FrameBudget
from sharegroup.kafka_clients.connections.framing import FrameProtocol

#: Requests that wait to be handled before the client is not read from any more, and their bytes.
MAX_WAITING_FRAMES, MAX_WAITING_BYTES = 16, 1_048_576


class WaitingFrames:
    """First come, first served. `link` hands out no frame while too much waits."""

    def __init__(self, link: FrameProtocol, budget: FrameBudget) -> None:
        self._link, self._budget = link, budget
        self._frames: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._wanted = 0
        self._share = 0
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def has_share(self) -> bool:
        """Whether a part of the budget is this client's."""
        return self._share > 0

    def begun(self, size: int) -> None:
        """A request has begun to come; a large one is held until it has its share."""
        if size > SMALL_BYTES:
            self._wanted = size
            self._link.hold_body()
            self._arrived.set()

    def put(self, frame: memoryview) -> None:
        """Add a request; when too much waits, the link is held."""
        self._frames.append(frame)
        self._waiting_bytes += len(frame)
        self._arrived.set()
        if len(self._frames) >= MAX_WAITING_FRAMES or self._waiting_bytes >= MAX_WAITING_BYTES:
            self._link.hold_frames()

    async def next(self, address: str) -> memoryview:
        """The oldest request, as soon as there is one; that of before is handled. `address` is the client's."""
        self._give_back()
        while not self._frames:
            self._arrived.clear()
            if self._wanted:
                await self._take_share(address)
            else:
                await self._arrived.wait()
        frame = self._frames.popleft()
        self._waiting_bytes -= len(frame)
        if self._link.is_held and self._has_room:
            self._link.release_frames()
        return frame

    async def _take_share(self, address: str) -> None:
        size, self._wanted = self._wanted, 0
        await self._budget.take(address, size)
        self._share = size
        self._link.release_body()

    def _give_back(self) -> None:
        if self._share:
            share, self._share = self._share, 0
            self._budget.give_back(share)

    @property
    def _has_room(self) -> bool:
        return len(self._frames) < MAX_WAITING_FRAMES // 2 and self._waiting_bytes < MAX_WAITING_BYTES

    def clear(self) -> None:
        """Forget all that waits, since nobody will handle it."""
        self._frames.clear()
        self._give_back()
