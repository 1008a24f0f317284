"""Frames of Kafka's protocol on an asyncio transport: four bytes of length, then the message.

A frame is received into memory of its own, which grows with what has come and not with what the length promises: a
connection that announces 100 MB and sends nothing costs 64 KiB. Small frames that came together share one buffer.
"""

from __future__ import annotations

import asyncio
import struct
from typing import cast

_LENGTH = struct.Struct(">i")
_SMALL = 65_536


class FrameProtocol(asyncio.BufferedProtocol):
    """Base of both sides' connections: `frame_received` gets each complete frame, `frame_error` what is none.

    `max_frame_bytes` may be changed at any time; it holds for the next length. Writing waits by `drained`.
    """

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.transport: asyncio.Transport | None = None
        self._small = bytearray(_SMALL)
        self._filled = 0
        self._frame: bytearray | None = None
        self._frame_filled = 0
        self._frame_size = 0
        self._drained = asyncio.Event()
        self._drained.set()

    # -- for the subclass ------------------------------------------------------------------------------------------

    def frame_received(self, frame: memoryview) -> None:
        """A complete frame, without its length; the memory is the receiver's to keep."""
        raise NotImplementedError

    def frame_error(self, problem: str) -> None:
        """What came is no frame; the connection cannot go on."""
        raise NotImplementedError

    @property
    def is_drained(self) -> bool:
        """Whether the transport takes more."""
        return self._drained.is_set()

    async def drained(self) -> None:
        """Wait until the transport takes more."""
        await self._drained.wait()

    # -- asyncio ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's."""
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's."""
        self._drained.set()

    def pause_writing(self) -> None:
        """asyncio's."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """asyncio's."""
        self._drained.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        """asyncio's: where the next bytes go."""
        if self._frame is None:
            return memoryview(self._small)[self._filled :]
        if self._frame_filled == len(self._frame):
            self._frame.extend(bytes(min(len(self._frame), self._frame_size - len(self._frame))))
        return memoryview(self._frame)[self._frame_filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """asyncio's: that many bytes came."""
        if self._frame is None:
            self._filled += nbytes
            self._cut_small()
            return
        self._frame_filled += nbytes
        if self._frame_filled == self._frame_size:
            frame, self._frame = self._frame, None
            self.frame_received(memoryview(frame))

    def _cut_small(self) -> None:
        """Hand out the complete frames of the small buffer; the beginning of a long one gets memory of its own."""
        position = 0
        while self._filled - position >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._small, position)
            if not 0 <= size <= self.max_frame_bytes:
                self._filled = 0
                self.frame_error(f"a frame of {size} bytes; allowed: up to {self.max_frame_bytes}")
                return
            start = position + _LENGTH.size
            if self._filled - start < size:
                break
            position = start + size
            self.frame_received(memoryview(bytes(self._small[start:position])))
        self._keep_rest(position)

    def _keep_rest(self, position: int) -> None:
        rest = self._small[position : self._filled]
        if len(rest) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(rest, 0)
            if size + _LENGTH.size > _SMALL:
                received = rest[_LENGTH.size :]
                self._frame_size, self._frame_filled = size, len(received)
                self._frame = bytearray(min(size, max(_SMALL, 2 * len(received))))
                self._frame[: len(received)] = received
                self._filled = 0
                return
        self._small[: len(rest)] = rest
        self._filled = len(rest)
