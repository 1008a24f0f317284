"""A client's own link to its upstream broker: requests that are not the gateway's pass through undecoded."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.connection import UpstreamConnection, UpstreamUnavailableError
from sharegroup.kafka_clients.connections.headers import (
    MalformedRequestError,
    RequestHeader,
    read_varint,
    skip_tagged_fields,
)
from sharegroup.kafka_clients.connections.kept_connection import ConnectBackoff

PRODUCE, DELETE_TOPICS = 0, 20
#: CreateTopics, DeleteTopics, CreatePartitions, ElectLeaders, AlterPartitionReassignments.
TOPIC_CHANGES = frozenset({19, DELETE_TOPICS, 37, 43, 45})
_FLEXIBLE_PRODUCE = 9
_TRANSACTIONAL_PRODUCE = 3
_INT16 = struct.Struct(">h")
#: Responses that the client has not taken yet, before no more of them are read from the broker. One is always read to
#: its end, however long it is.
MAX_UNTAKEN_BYTES = 1_048_576


class Passthrough:
    """Opened by the first request that passes through, closed with its client.

    `backoff` is shared by all links to the broker. Each response is to be reported by `taken` once it is sent.
    `topics_changed` is told the API key when one of TOPIC_CHANGES is answered, before the client has the answer.
    """

    def __init__(
        self,
        address: tuple[str, int],
        settings: ClientSettings,
        backoff: ConnectBackoff,
        topics_changed: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._address, self._settings, self._backoff = address, settings, backoff
        self._topics_changed = topics_changed
        self._connection: _Link | None = None
        self._is_closed = False

    async def forward(self, header: RequestHeader, frame: memoryview) -> asyncio.Future[memoryview] | None:
        """Send a client's frame; a future of the response's frame, None where there is none.

        Raises UpstreamUnavailableError, and MalformedRequestError for a Produce that cannot be one.
        """
        has_response = expects_response(header, frame)
        connection = self._connection or await self._connect()
        answer = None
        if has_response:
            answer = connection.forward(frame, header.correlation_id)
            if header.api_key in TOPIC_CHANGES:
                answer.add_done_callback(lambda _: self._topics_changed(header.api_key))
        else:
            connection.send(frame)
        await connection.drained()  # until then the frame takes memory here
        return answer

    async def log_in(self, settings: ClientSettings) -> None:
        """The client has logged in again, and goes on by these settings. Raises UpstreamUnavailableError."""
        self._settings = settings
        if self._connection is not None:
            before = self._connection.untaken
            await self._connection.log_in(self._address[0], settings)
            self._connection.untaken = before

    def taken(self, size: int) -> None:
        """A response of so many bytes has gone to the client."""
        if self._connection is not None:
            self._connection.taken(size)

    def close(self) -> None:
        """Close the link; one that is being opened closes when it is."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()

    async def _connect(self) -> _Link:
        loop = asyncio.get_running_loop()
        pause_s = self._backoff.remaining_s(loop.time())
        if pause_s:
            await asyncio.sleep(pause_s)  # a client that comes back at once has to wait, too
            raise UpstreamUnavailableError("the last attempt to connect to the upstream broker failed")
        try:
            connection = await _Link.connect(*self._address, self._settings)
        except UpstreamUnavailableError:
            self._backoff.failed(loop.time())
            raise
        self._backoff.succeeded()
        if self._is_closed:  # the client went while we connected (before Python 3.12, wait_for may swallow that)
            connection.close()
            raise UpstreamUnavailableError("the client is gone")
        connection.untaken = 0  # not what the login took
        self._connection = connection
        return connection


class _Link(UpstreamConnection):
    """Reads no more than a client takes; `untaken` counts the bytes that it has not."""

    def __init__(self) -> None:
        super().__init__()
        self.untaken = 0

    def frame_received(self, frame: memoryview) -> None:
        """Hand on a response; while the client is behind, read no more of them."""
        super().frame_received(frame)
        self.untaken += len(frame)
        if self.untaken > MAX_UNTAKEN_BYTES:
            self.hold_frames()

    def taken(self, size: int) -> None:
        """The client has taken so many bytes; read on when it has caught up."""
        was_held = self.untaken > MAX_UNTAKEN_BYTES
        self.untaken -= size
        if was_held and self.untaken <= MAX_UNTAKEN_BYTES:
            self.release_frames()


def expects_response(header: RequestHeader, frame: memoryview) -> bool:
    """False for a Produce with acks=0. Raises MalformedRequestError."""
    if header.api_key != PRODUCE:
        return True
    position = header.end
    try:
        if header.api_version >= _FLEXIBLE_PRODUCE:
            position = skip_tagged_fields(frame, position)
            length, position = read_varint(frame, position)
            position += max(0, length - 1)
        elif header.api_version >= _TRANSACTIONAL_PRODUCE:
            (length,) = _INT16.unpack_from(frame, position)
            position += _INT16.size + max(0, length)
        (acks,) = _INT16.unpack_from(frame, position)
    except struct.error as error:
        raise MalformedRequestError(f"no Produce request: {error}") from None
    return bool(acks != 0)
