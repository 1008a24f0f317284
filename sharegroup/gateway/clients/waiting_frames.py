"""The requests of one client that wait for their turn. What they can make the gateway hold is bounded."""

from __future__ import annotations

import asyncio
from collections import deque

from sharegroup.gateway.wire.framing import FrameProtocol

#: Requests that wait to be handled before the client is not read from any more, and their bytes.
MAX_WAITING_FRAMES, MAX_WAITING_BYTES = 16, 1_048_576


class WaitingFrames:
    """First come, first served. `link` hands out no frame while too much waits."""

    def __init__(self, link: FrameProtocol) -> None:
        self._link = link
        self._frames: deque[memoryview] = deque()
        self._waiting_bytes = 0
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._frames)

    def put(self, frame: memoryview) -> None:
        """Add a request; when too much waits, the link is held."""
        self._frames.append(frame)
        self._waiting_bytes += len(frame)
        self._arrived.set()
        if len(self._frames) >= MAX_WAITING_FRAMES or self._waiting_bytes >= MAX_WAITING_BYTES:
            self._link.hold_frames()

    async def next(self) -> memoryview:
        """The oldest request, as soon as there is one."""
        while not self._frames:
            self._arrived.clear()
            await self._arrived.wait()
        frame = self._frames.popleft()
        self._waiting_bytes -= len(frame)
        if self._link.is_held and self._has_room:
            self._link.release_frames()
        return frame

    @property
    def _has_room(self) -> bool:
        return len(self._frames) < MAX_WAITING_FRAMES // 2 and self._waiting_bytes < MAX_WAITING_BYTES

    def clear(self) -> None:
        """Forget all that waits, since nobody will handle it."""
        self._frames.clear()
