"""Queue of a client's requests, with bounded memory.

As in Kafka, a connection is not read from while a large request of it waits. The first bytes of a large request are
read, and its body only when all earlier requests are handled and the request has a share of the budget. The share is
released when the next request is fetched, which is after the large one has been handled.
"""

import asyncio
from collections import deque

from sharegroup.gateway.clients.frame_budget import SMALL_BYTES, FrameBudget
from sharegroup.kafka_clients.connections.framing import FrameProtocol

#: Most requests, and bytes, that wait to be handled before the gateway stops reading from the client.
MAX_WAITING_FRAMES, MAX_WAITING_BYTES = 16, 1_048_576


class WaitingFrames:
    """A first-in, first-out queue. `link` delivers no frames while the queue is full."""

    def __init__(self, link: FrameProtocol, budget: FrameBudget) -> None:
        self._link, self._budget = link, budget
        self._frames: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._body_size = 0
        self._share = 0
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def has_share(self) -> bool:
        """Whether this client holds a share of the budget."""
        return self._share > 0

    def begin_request(self, size: int) -> None:
        """Start a request of `size` bytes that is not complete yet. A large body is not read until it has a share."""
        if size > SMALL_BYTES:
            self._body_size = size
            self._link.hold_body()
            self._arrived.set()

    def put(self, frame: memoryview) -> None:
        """Append a request; hold the link when the queue is full."""
        self._frames.append(frame)
        self._waiting_bytes += len(frame)
        self._arrived.set()
        if len(self._frames) >= MAX_WAITING_FRAMES or self._waiting_bytes >= MAX_WAITING_BYTES:
            self._link.hold_frames()

    async def next(self, address: str) -> memoryview:
        """Wait for the oldest request; the previous one counts as handled. `address` is the client's."""
        self._release_share()
        while not self._frames:
            self._arrived.clear()
            if self._body_size:
                await self._acquire_share(address)
            else:
                await self._arrived.wait()
        frame = self._frames.popleft()
        self._waiting_bytes -= len(frame)
        if self._link.is_held and self._has_room:
            self._link.release_frames()
        return frame

    async def _acquire_share(self, address: str) -> None:
        size, self._body_size = self._body_size, 0
        await self._budget.acquire(address, size)
        self._share = size
        self._link.release_body()

    def _release_share(self) -> None:
        if self._share:
            share, self._share = self._share, 0
            self._budget.release(share)

    @property
    def _has_room(self) -> bool:
        return len(self._frames) < MAX_WAITING_FRAMES // 2 and self._waiting_bytes < MAX_WAITING_BYTES

    def clear(self) -> None:
        """Discard all queued requests; nobody will handle them."""
        self._frames.clear()
        self._release_share()
