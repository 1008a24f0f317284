"""Frames that arrive in arbitrary pieces."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.kafka_clients.connections.framing import FrameProtocol
from tests.unit.gateway.wire_bytes import framed

MAX_FRAME_BYTES = 300_000


class Frames(FrameProtocol):
    """Records frames and errors; holds frames after `hold_at` of them."""

    def __init__(self, hold_at: int | None = None) -> None:
        super().__init__(MAX_FRAME_BYTES)
        self.frames: list[bytes] = []
        self.errors: list[str] = []
        self._hold_at = hold_at

    def frame_received(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        if self._hold_at is not None and len(self.frames) % self._hold_at == 0:
            self.hold_frames()

    def frame_error(self, problem: str) -> None:
        self.errors.append(problem)

    def receive(self, data: bytes) -> None:
        """Pass bytes to the protocol as asyncio does: through the protocol's buffer."""
        rest = memoryview(data)
        while rest:
            buffer = self.get_buffer(-1)
            taken = min(len(buffer), len(rest))
            assert taken
            buffer[:taken] = rest[:taken]
            buffer.release()
            self.buffer_updated(taken)
            rest = rest[taken:]

    @property
    def kept_bytes(self) -> int:
        return len(self._rest) + len(self._frame or b"")


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


SIZES = st.one_of(st.integers(0, 40), st.integers(0, 5_000), st.sampled_from([65_531, 65_532, 65_533, 70_000, 300_000]))
FRAMES = st.lists(st.builds(lambda size, fill: bytes([fill]) * size, SIZES, st.integers(0, 255)), max_size=12)


@given(FRAMES, st.lists(st.integers(0, 2**20), max_size=20), st.one_of(st.none(), st.integers(1, 4)))
def test_frames_do_not_depend_on_the_pieces(frames: list[bytes], cuts: list[int], hold_at: int | None) -> None:
    protocol = Frames(hold_at)
    for piece in pieces(b"".join(map(framed, frames)), cuts):
        protocol.receive(piece)
        while protocol.is_held:
            protocol.release_frames()
    assert protocol.frames == frames
    assert not protocol.errors
    assert protocol.kept_bytes == 0


@given(FRAMES, st.integers(1, 3))
def test_held_frames_stay_in_order(frames: list[bytes], hold_at: int) -> None:
    """Before Python 3.11, a paused TLS transport passes on data that it has decrypted."""
    protocol = Frames(hold_at)
    small = [frame for frame in frames if len(frame) < 5_000]
    for frame in small:
        protocol.receive(framed(frame))
        assert len(protocol.frames) <= hold_at
    while protocol.is_held:
        protocol.release_frames()
    assert protocol.frames == small


@pytest.mark.parametrize(
    "length", [b"\xff\xff\xff\xff", b"\x80\0\0\0", (MAX_FRAME_BYTES + 1).to_bytes(4, "big"), b"GET "]
)
def test_invalid_length_ends_the_connection(length: bytes) -> None:
    protocol = Frames()
    protocol.receive(framed(b"one") + length + framed(b"two"))
    protocol.receive(framed(b"three"))
    assert protocol.frames == [b"one"]
    assert len(protocol.errors) == 1
    assert protocol.kept_bytes == 0


def test_changed_limit_applies_to_the_next_length() -> None:
    protocol = Frames()
    protocol.max_frame_bytes = 10
    protocol.receive(framed(bytes(10)))
    protocol.max_frame_bytes = 20
    protocol.receive(framed(bytes(20)))
    assert list(map(len, protocol.frames)) == [10, 20]
    protocol.receive(framed(bytes(21)))
    assert protocol.errors == ["the frame has 21 bytes; the limit is 20"]


class Wary(Frames):
    """Rejects frames that start with x and are longer than 3; holds the body of frames longer than 5,000."""

    def frame_problem(self, size: int, head: memoryview) -> str | None:
        return f"x of {size}" if head[:1] == b"x" and size > 3 else None

    def handle_frame_start(self, size: int) -> None:
        if size > 5_000:
            self.hold_body()


@pytest.mark.parametrize("cut", range(12))
def test_frame_is_rejected_after_its_first_bytes(cut: int) -> None:
    protocol = Wary()
    data = framed(b"xyz") + (300_000).to_bytes(4, "big") + b"xy"
    for piece in (data[:cut], data[cut:]):
        protocol.receive(piece)
    assert protocol.frames == [b"xyz"]
    assert protocol.errors == ["x of 300000"]
    assert protocol.kept_bytes == 0


def test_body_of_a_frame_is_held_after_its_start() -> None:
    protocol = Wary()
    protocol.receive(framed(bytes(10_000))[:-1])
    assert protocol.is_body_held
    assert not protocol.is_held
    assert protocol.unfinished_bytes == 9_999
    protocol.release_body()
    protocol.receive(b"\0")
    assert (list(map(len, protocol.frames)), protocol.unfinished_bytes) == ([10_000], None)


def test_memory_grows_with_received_bytes_not_with_the_length() -> None:
    protocol = Frames()
    protocol.receive((MAX_FRAME_BYTES).to_bytes(4, "big"))
    most = []
    for received in range(0, MAX_FRAME_BYTES - 1_000, 1_000):
        most.append(protocol.kept_bytes <= max(4_096, 2 * received + 4_096))
        protocol.receive(bytes(1_000))
    assert all(most)


def test_connections_share_a_receive_buffer() -> None:
    one, other = Frames(), Frames()
    assert one.get_buffer(-1).obj is other.get_buffer(-1).obj


def test_no_frame_is_passed_on_after_abort() -> None:
    protocol = Frames(hold_at=1)
    protocol.receive(framed(b"one") + framed(b"two"))
    protocol.abort()
    protocol.release_frames()
    protocol.receive(framed(b"three"))
    assert protocol.frames == [b"one"]


def test_drained_waits_for_room_or_the_end() -> None:
    async def wait() -> bool:
        protocol = Frames()
        protocol.pause_writing()
        waiting = asyncio.ensure_future(protocol.wait_drained())
        await asyncio.sleep(0)
        was_waiting = not waiting.done() and not protocol._drained.is_set()
        protocol.connection_lost(None)  # must wake up waiting writers
        await waiting
        return was_waiting

    assert asyncio.run(wait())


class Socket(asyncio.Transport):
    """A transport that sends `room` bytes immediately and buffers the rest."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.writes: list[bytes | bytearray | memoryview] = []
        self.is_gone = False
        self._room = room

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(data)

    def get_write_buffer_size(self) -> int:
        return max(0, sum(map(len, self.writes)) - self._room)

    def is_closing(self) -> bool:
        return self.is_gone


@pytest.mark.parametrize(
    ("room", "writes"),
    [
        (100, ["a", "bb", "ccc", "dddd"]),
        (6, ["a", "bb", "ccc", "dddd"]),
        (4, ["a", "bb", "ccc", "dddd"]),
        (2, ["a", "bb", "cccdddd"]),
        (0, ["a", "bbcccdddd"]),
    ],
)
def test_pieces_are_sent_without_a_copy_while_there_is_room(room: int, writes: list[str]) -> None:
    frames, to = Frames(), Socket(room)
    frames.connection_made(to)
    sent = [memoryview(text.encode()) for text in ("a", "bb", "ccc", "dddd")]
    pieces_to_send = list(sent)
    frames.write_pieces(pieces_to_send)
    assert [bytes(data).decode() for data in to.writes] == writes
    assert to.writes[0] is sent[0]
    assert pieces_to_send == []  # their memory is released


def test_closed_connection_discards_pieces() -> None:
    frames, to = Frames(), Socket(100)
    frames.connection_made(to)
    to.is_gone = True
    frames.write_pieces([b"late"])
    frames.connection_lost(None)
    frames.write_pieces([b"later"])
    assert to.writes == []
