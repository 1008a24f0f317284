"""A queue of one client's requests, which limits the memory that these requests use.

The body of a large request is read only after all earlier requests of the connection have been handled. The request
must also hold a share of the memory budget (`FrameBudget`). Until both conditions are met, the gateway reads nothing
from the connection, as in Kafka. The share is released after the request has been handled.
"""

import asyncio
from collections import deque

from sharegroup.gateway.clients.frame_budget import SMALL_BYTES, FrameBudget
from sharegroup.kafka_clients.connections.framing import FrameProtocol

#: Maximum number of waiting requests of a client, and maximum of their bytes. When one of them is reached, the gateway
#: stops reading from the client.
MAX_WAITING_FRAMES, MAX_WAITING_BYTES = 16, 1_048_576


class WaitingFrames:
    """The queue of one client's requests (frames), first in, first out.

    `link` is the client's connection. While the queue is full, the connection reads and delivers no frames.
    """

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
        """Whether this client holds a share of the memory budget."""
        return self._share > 0

    def begin_request(self, size: int) -> None:
        """Prepare for a request of `size` bytes whose body has not arrived yet.

        If the request is large, stop reading from the client. `next` acquires a share of the memory budget for the
        request when all earlier requests have been handled, and then continues to read.
        """
        if size > SMALL_BYTES:
            self._body_size = size
            self._link.hold_body()
            self._arrived.set()

    def put(self, frame: memoryview) -> None:
        """Append a request. If the queue is full, stop reading from the client."""
        self._frames.append(frame)
        self._waiting_bytes += len(frame)
        self._arrived.set()
        if len(self._frames) >= MAX_WAITING_FRAMES or self._waiting_bytes >= MAX_WAITING_BYTES:
            self._link.hold_frames()

    async def next(self, address: str) -> memoryview:
        """Wait for the oldest request and return it. `address` is the client's address.

        Must be called only after the previous request has been handled, because the call releases the share of that
        request.
        """
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
        """Discard all queued requests and release the client's share, after the client has disconnected."""
        self._frames.clear()
        self._release_share()
