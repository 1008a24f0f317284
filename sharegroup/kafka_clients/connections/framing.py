"""Frames of Kafka's protocol on an asyncio transport: four bytes of length, then the message.

All connections of a thread share one receive buffer. asyncio fills the buffer and passes it to a connection in one
step, so two connections never use it at the same time. A connection itself holds only an incomplete length or frame.

The memory for an incomplete frame grows with the received bytes. So a connection that announces 100 MB and sends
nothing costs 4 KiB. Each growth copies the received bytes. If the peer is trusted (`trusts_lengths`), the memory for
the announced length is therefore allocated at once.

The first bytes of a frame are inspected before the rest is read: `frame_problem` may end the connection, and
`handle_frame_start` may delay reading the rest.
"""

import asyncio
import contextlib
import struct
import threading
from typing import cast

_LENGTH = struct.Struct(">i")
#: Number of bytes that are inspected at the start of a frame. In a request, these bytes are the API key.
HEAD_BYTES = 2
_RECEIVED_BYTES = 65_536
_FIRST_BYTES = 4_096
#: Up to this size, a frame and its length are joined and written at once, so that they are sent in one packet.
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
    """Base class of the connections to clients and to brokers. Await `wait_drained` before writing.

    Subclasses implement `frame_received`, which is called with each complete frame, and `frame_error`, which is called
    with protocol errors.

    Attributes:
        max_frame_bytes: The maximum length of a frame. A change applies from the next frame on.
        transport: The transport of the connection, None before it was opened and after it was closed.
        is_held: Whether received frames are held back until `release_frames`.
        is_body_held: Whether the rest of the current frame is not read until `release_body`.
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
        """Handle a complete frame, without its length. Its memory is not reused, so the frame may be stored."""
        raise NotImplementedError

    def frame_error(self, problem: str) -> None:
        """Handle an invalid length, or a frame that `frame_problem` has rejected. No further data is processed."""
        raise NotImplementedError

    def frame_problem(self, size: int, head: memoryview) -> str | None:
        """Return the reason why a frame must end the connection, None if the frame is accepted.

        `size` is the length of the frame. `head` is its first `HEAD_BYTES` bytes, or the whole frame if it is shorter.
        """
        return None

    def handle_frame_start(self, size: int) -> None:
        """Handle the start of a frame of `size` bytes that is not complete yet."""

    @property
    def unfinished_bytes(self) -> int | None:
        """The number of received bytes of the current incomplete frame, None if there is no such frame."""
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

        Pieces that the socket does not accept yet are copied into one buffer. Otherwise each view that waits to be sent
        would keep its whole underlying memory alive.
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
        """Stop reading, and stop passing frames to `frame_received`, until `release_frames` is called."""
        self.is_held = True
        if self.transport is not None:
            self.transport.pause_reading()

    def release_frames(self) -> None:
        """Pass the held frames to `frame_received` and continue to read, until `hold_frames` is called again."""
        self.is_held = False
        rest, self._rest = self._rest, b""
        if rest:
            self._cut(memoryview(rest))
        self._read_on()

    def hold_body(self) -> None:
        """Stop reading the current incomplete frame, until `release_body` is called."""
        self.is_body_held = True
        if self.transport is not None:
            self.transport.pause_reading()

    def release_body(self) -> None:
        """Read the rest of the frame whose reading `hold_body` stopped."""
        self.is_body_held = False
        self._read_on()

    def _read_on(self) -> None:
        if not self.is_held and not self.is_body_held and self.transport is not None:
            with contextlib.suppress(RuntimeError):  # the transport is closing
                self.transport.resume_reading()

    def abort(self) -> None:
        """Close the connection immediately. No further frame is passed to `frame_received`."""
        self._is_over, self._rest, self._frame = True, b"", None
        if self.transport is not None:
            self.transport.abort()

    # -- asyncio ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport. Called by asyncio."""
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop an incomplete frame and end `wait_drained`. Called by asyncio."""
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
        """Return the buffer for the next received bytes. Called by asyncio."""
        if self._frame is None:
            return memoryview(_received.buffer)
        if self._frame_filled == len(self._frame):
            self._frame.extend(bytes(min(len(self._frame), self._frame_size - len(self._frame))))
        return memoryview(self._frame)[self._frame_filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Pass the frames that the received bytes complete to `frame_received`. Called by asyncio."""
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
        """Pass the complete frames in `data` to `frame_received`, and copy the rest.

        The rest is copied because the receive buffer is used again.
        """
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
            return f"the frame has {size} bytes; the limit is {self.max_frame_bytes}"
        return self.frame_problem(size, head) if len(head) >= min(size, HEAD_BYTES) else None

    def _begin(self, received: memoryview, size: int) -> None:
        self._rest = b""
        first = size if self.trusts_lengths else max(_FIRST_BYTES, 2 * len(received))
        self._frame = bytearray(min(size, first))
        self._frame[: len(received)] = received
        self._frame_size, self._frame_filled = size, len(received)
        self.handle_frame_start(size)
