"""Frames of Kafka's protocol on an asyncio transport: four bytes of length, then the message.

What is received goes through one buffer that all connections of a thread share: asyncio fills it and hands it back in
one go, so that it is never in use by two of them. A connection of its own has only what it cannot do without: less
than a length, and the frame that is not complete yet. That one grows with what has come and not with what the length
promises; a connection that announces 100 MB and sends nothing costs 4 KiB. Growing costs copies: a side that may be
believed (`believes_lengths`) is given its memory at once.

What a frame is, its first bytes tell: `refusal` may end the connection for it, and `frame_begun` have the rest of it
wait, before that is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from typing import cast

_LENGTH = struct.Struct(">i")
#: Of a request, its API key: a frame is not begun before so much of it is here.
HEAD_BYTES = 2
_RECEIVED_BYTES = 65_536
_FIRST_BYTES = 4_096
#: Up to here a frame and its length are copied together, so that they are one packet.
_JOINED_BYTES = 65_536


def framed(message: bytes) -> bytes:
    """A short message with its length before it."""
    return _LENGTH.pack(len(message)) + message


class _Received(threading.local):
    """The buffer of each thread."""

    def __init__(self) -> None:
        self.buffer = bytearray(_RECEIVED_BYTES)


_received = _Received()


class FrameProtocol(asyncio.BufferedProtocol):
    """Base of both sides' connections: `frame_received` gets each complete frame, `frame_error` what is none.

    `max_frame_bytes` may be changed at any time; it holds for the next length. Writing waits by `drained`.
    `transport` is None before and after the connection; `is_held`: see `hold_frames`; `is_body_held`: see `hold_body`.
    """

    believes_lengths = False

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.transport: asyncio.Transport | None = None
        self._rest = b""  # less than a length; while frames are held back, all that came
        self.is_held = self.is_body_held = self._is_over = False
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

    def refusal(self, size: int, head: memoryview) -> str | None:
        """Why a frame of `size` bytes that begins with `head` (`HEAD_BYTES`, or all of it) ends the connection."""
        return None

    def frame_begun(self, size: int) -> None:
        """A frame of `size` bytes has begun, and the rest of it is to come."""

    @property
    def unfinished_bytes(self) -> int | None:
        """How much is here of the frame that has begun; None without one."""
        return None if self._frame is None else self._frame_filled

    async def drained(self) -> None:
        """Wait until the transport takes more, or is gone."""
        await self._drained.wait()

    def write_frame(self, frame: bytes | bytearray | memoryview) -> None:
        """Send a frame with its length, if there still is a connection."""
        if self.transport is None:
            return
        length = _LENGTH.pack(len(frame))
        if len(frame) <= _JOINED_BYTES:
            self.transport.write(b"".join((length, frame)))
        else:
            self.transport.write(length)
            self.transport.write(frame)

    def write_pieces(self, pieces: list[bytes | bytearray | memoryview]) -> None:
        """Send what belongs together, if there still is a connection; the list is empty then.

        What a slow reader has no room for is copied, in one go: a view would keep the memory around it as long.
        """
        transport = self.transport
        for i, piece in enumerate(pieces):
            if transport is None or transport.is_closing():
                break
            if transport.get_write_buffer_size():
                transport.write(b"".join(pieces[i:]))
                break
            transport.write(piece)
        pieces.clear()

    def hold_frames(self) -> None:
        """Hand out no frame and read no more, until `release_frames`."""
        self.is_held = True
        if self.transport is not None:
            self.transport.pause_reading()

    def release_frames(self) -> None:
        """Hand out the frames that were held back, and read on, unless one of them has them held again."""
        self.is_held = False
        rest, self._rest = self._rest, b""
        if rest:
            self._cut(memoryview(rest))
        self._read_on()

    def hold_body(self) -> None:
        """Read no more of the frame that has begun, until `release_body`."""
        self.is_body_held = True
        if self.transport is not None:
            self.transport.pause_reading()

    def release_body(self) -> None:
        """Read the rest of the frame."""
        self.is_body_held = False
        self._read_on()

    def _read_on(self) -> None:
        if not self.is_held and not self.is_body_held and self.transport is not None:
            with contextlib.suppress(RuntimeError):  # the transport is closing
                self.transport.resume_reading()

    def abort(self) -> None:
        """End the connection now; no frame is handed out any more."""
        self._is_over, self._rest, self._frame = True, b"", None
        if self.transport is not None:
            self.transport.abort()

    # -- asyncio ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's: frames can be written."""
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio's: nothing more comes, and who waits to write is let go."""
        self._is_over, self._rest, self._frame = True, b"", None
        self.transport = None
        self._drained.set()

    def pause_writing(self) -> None:
        """asyncio's: the transport's buffer is full."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """asyncio's: the transport's buffer has room again."""
        self._drained.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        """asyncio's: where the next bytes go."""
        if self._frame is None:
            return memoryview(_received.buffer)
        if self._frame_filled == len(self._frame):
            self._frame.extend(bytes(min(len(self._frame), self._frame_size - len(self._frame))))
        return memoryview(self._frame)[self._frame_filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """asyncio's: that many bytes came."""
        if self._is_over:
            return
        if self._frame is None:
            came = memoryview(_received.buffer)[:nbytes]
            self._cut(memoryview(b"".join((self._rest, came))) if self._rest else came)
            return
        self._frame_filled += nbytes
        if self._frame_filled == self._frame_size:
            frame, self._frame = self._frame, None
            self.frame_received(memoryview(frame))

    def _cut(self, data: memoryview) -> None:
        """Hand out the complete frames; the beginning of one gets memory of its own."""
        position = 0
        while len(data) - position >= _LENGTH.size and not self.is_held and not self._is_over:
            (size,) = _LENGTH.unpack_from(data, position)
            start = position + _LENGTH.size
            problem = self._problem(size, data[start : start + HEAD_BYTES])
            if problem is not None:
                self._is_over, self._rest = True, b""
                self.frame_error(problem)
                return
            if len(data) - start < min(size, HEAD_BYTES):
                break
            position = start + size
            if position > len(data):
                self._begin(data[start:], size)
                return
            self.frame_received(memoryview(bytes(data[start:position])))
        self._rest = b"" if self._is_over else bytes(data[position:])

    def _problem(self, size: int, head: memoryview) -> str | None:
        if not 0 <= size <= self.max_frame_bytes:
            return f"a frame of {size} bytes; allowed: up to {self.max_frame_bytes}"
        return self.refusal(size, head) if len(head) >= min(size, HEAD_BYTES) else None

    def _begin(self, received: memoryview, size: int) -> None:
        self._rest = b""
        first = size if self.believes_lengths else max(_FIRST_BYTES, 2 * len(received))
        self._frame = bytearray(min(size, first))
        self._frame[: len(received)] = received
        self._frame_size, self._frame_filled = size, len(received)
        self.frame_begun(size)
