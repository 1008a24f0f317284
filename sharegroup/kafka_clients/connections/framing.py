"""Frames of Kafka's protocol on an asyncio transport: four bytes of length, then the message.

All connections of a thread share one receive buffer. asyncio fills it and hands it over in one step, so two connections
never use it at the same time. A connection itself holds only an incomplete length or frame. The memory of a frame grows
with the received bytes and not with the announced length: a connection that announces 100 MB and sends nothing costs
4 KiB. Growing requires copies, so the memory for a trusted peer (`trusts_lengths`) is allocated at once.

The first bytes of a frame are inspected before the rest is read: `frame_problem` may end the connection, and
`handle_frame_start` may delay reading the rest.
"""

import asyncio
import contextlib
import struct
import threading
from typing import cast

_LENGTH = struct.Struct(">i")
#: The first bytes of a frame that are inspected: the API key of a request.
HEAD_BYTES = 2
_RECEIVED_BYTES = 65_536
_FIRST_BYTES = 4_096
#: Up to this size, a frame and its length are copied into one packet.
_JOINED_BYTES = 65_536


def frame_message(message: bytes) -> bytes:
    """Return a short message with its length in front."""
    return _LENGTH.pack(len(message)) + message


class _Received(threading.local):
    """The receive buffer of each thread."""

    def __init__(self) -> None:
        self.buffer = bytearray(_RECEIVED_BYTES)


_received = _Received()


class FrameProtocol(asyncio.BufferedProtocol):
    """Base of both sides' connections. `frame_received` gets each complete frame, `frame_error` gets errors.

    `max_frame_bytes` may be changed at any time and applies to the next length. Await `wait_drained` before writing.
    `transport` is None before and after the connection. See `hold_frames` for `is_held`, `hold_body` for
    `is_body_held`.
    """

    trusts_lengths = False

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.transport: asyncio.Transport | None = None
        self._rest = b""  # an incomplete length; while frames are held, everything received
        self.is_held = self.is_body_held = self._is_over = False
        self._frame: bytearray | None = None
        self._frame_filled = 0
        self._frame_size = 0
        self._drained = asyncio.Event()
        self._drained.set()

    # -- for the subclass ------------------------------------------------------------------------------------------

    def frame_received(self, frame: memoryview) -> None:
        """Handle a complete frame without its length. The receiver owns its memory."""
        raise NotImplementedError

    def frame_error(self, problem: str) -> None:
        """Handle data that is not a frame; the connection cannot continue."""
        raise NotImplementedError

    def frame_problem(self, size: int, head: memoryview) -> str | None:
        """Return why a frame of `size` bytes must end the connection, else None.

        `head` has its first `HEAD_BYTES` bytes, or all of it.
        """
        return None

    def handle_frame_start(self, size: int) -> None:
        """Handle the start of a frame of `size` bytes that is not complete yet."""

    @property
    def unfinished_bytes(self) -> int | None:
        """Return how much of the current incomplete frame has been received; None without one."""
        return None if self._frame is None else self._frame_filled

    async def wait_drained(self) -> None:
        """Wait until the transport accepts more data or is closed."""
        await self._drained.wait()

    def write_frame(self, frame: bytes | bytearray | memoryview) -> None:
        """Send a frame with its length, if still connected."""
        if self.transport is None:
            return
        length = _LENGTH.pack(len(frame))
        if len(frame) <= _JOINED_BYTES:
            self.transport.write(b"".join((length, frame)))
        else:
            self.transport.write(length)
            self.transport.write(frame)

    def write_pieces(self, pieces: list[bytes | bytearray | memoryview]) -> None:
        """Send pieces in order, if still connected, and clear the list.

        Pieces that do not fit into the socket are copied into one, because views would keep their whole memory alive.
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
        """Stop passing on frames and reading, until `release_frames`."""
        self.is_held = True
        if self.transport is not None:
            self.transport.pause_reading()

    def release_frames(self) -> None:
        """Pass on the held frames and continue to read, unless one of them holds frames again."""
        self.is_held = False
        rest, self._rest = self._rest, b""
        if rest:
            self._cut(memoryview(rest))
        self._read_on()

    def hold_body(self) -> None:
        """Stop reading the current incomplete frame, until `release_body`."""
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
        """Close the connection now; no further frame is passed on."""
        self._is_over, self._rest, self._frame = True, b"", None
        if self.transport is not None:
            self.transport.abort()

    # -- asyncio ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start writing. Called by asyncio."""
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake up waiting writers. Called by asyncio."""
        self._is_over, self._rest, self._frame = True, b"", None
        self.transport = None
        self._drained.set()

    def pause_writing(self) -> None:
        """Make `wait_drained` wait, because the transport's buffer is full. Called by asyncio."""
        self._drained.clear()

    def resume_writing(self) -> None:
        """End `wait_drained`, because the transport's buffer has room again. Called by asyncio."""
        self._drained.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory for the next bytes. Called by asyncio."""
        if self._frame is None:
            return memoryview(_received.buffer)
        if self._frame_filled == len(self._frame):
            self._frame.extend(bytes(min(len(self._frame), self._frame_size - len(self._frame))))
        return memoryview(self._frame)[self._frame_filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Handle received bytes. Called by asyncio."""
        if self._is_over:
            return
        if self._frame is None:
            received = memoryview(_received.buffer)[:nbytes]
            self._cut(memoryview(b"".join((self._rest, received))) if self._rest else received)
            return
        self._frame_filled += nbytes
        if self._frame_filled == self._frame_size:
            frame, self._frame = self._frame, None
            self.frame_received(memoryview(frame))

    def _cut(self, data: memoryview) -> None:
        """Pass on the complete frames, and copy the start of an incomplete one."""
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
            return f"frame of {size} bytes; the limit is {self.max_frame_bytes}"
        return self.frame_problem(size, head) if len(head) >= min(size, HEAD_BYTES) else None

    def _begin(self, received: memoryview, size: int) -> None:
        self._rest = b""
        first = size if self.trusts_lengths else max(_FIRST_BYTES, 2 * len(received))
        self._frame = bytearray(min(size, first))
        self._frame[: len(received)] = received
        self._frame_size, self._frame_filled = size, len(received)
        self.handle_frame_start(size)
