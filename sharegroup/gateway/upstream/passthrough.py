"""A client's own connection to its upstream broker, over which requests are forwarded undecoded."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.broker_login import FORWARDED_LOGIN
from sharegroup.kafka_clients.connections.connection import UpstreamConnection, UpstreamUnavailableError
from sharegroup.kafka_clients.connections.headers import (
    MalformedRequestError,
    RequestHeader,
    read_varint,
    skip_tagged_fields,
)
from sharegroup.kafka_clients.connections.reconnecting_connection import ConnectBackoff

PRODUCE, DELETE_TOPICS, CREATE_PARTITIONS = 0, 20, 37
#: APIs that change topics: CreateTopics, DeleteTopics, CreatePartitions, ElectLeaders, AlterPartitionReassignments.
TOPIC_CHANGES = frozenset({19, DELETE_TOPICS, CREATE_PARTITIONS, 43, 45})
_FLEXIBLE_PRODUCE = 9
_TRANSACTIONAL_PRODUCE = 3
_INT16 = struct.Struct(">h")
#: Maximum number of bytes of responses that have not been sent to the client yet. Above it, no further response is read
#: from the broker. A response that is being read is always read to its end.
MAX_UNSENT_BYTES = 1_048_576


class Passthrough:
    """A connection that forwards the requests of one client to a broker. It is opened for the first request.

    `backoff` is the pause after a failed connection attempt. All clients of the broker share it. The caller must call
    `on_sent` for each response that it has sent to the client. For each request in `TOPIC_CHANGES`, `topics_changed` is
    called with the API key. This happens when the broker's response has arrived, before the client receives it.
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
        """Forward a request. Return a future of the response frame, or None if the request has no response.

        Raises UpstreamUnavailableError if the broker is unavailable, and MalformedRequestError for an invalid Produce
        request.
        """
        has_response = expects_response(header, frame)
        connection = self._connection or await self._connect()
        if FORWARDED_LOGIN not in self._settings:  # otherwise the client reauthenticates, see `log_in`
            await connection.keep_session()
        response = None
        if has_response:
            response = connection.forward(frame, header.correlation_id)
            if header.api_key in TOPIC_CHANGES:
                response.add_done_callback(lambda _: self._topics_changed(header.api_key))
        else:
            connection.send(frame)
        await connection.wait_drained()  # until then the frame uses memory of the gateway
        return response

    async def log_in(self, settings: ClientSettings) -> None:
        """Reauthenticate at the broker with the login in `settings`, because the client has reauthenticated.

        Raises UpstreamUnavailableError if the broker is unavailable or rejects the login.
        """
        self._settings = settings
        if self._connection is not None:
            await self._connection.log_in(settings)

    def on_sent(self, size: int) -> None:
        """Record that a response of `size` bytes was sent to the client.

        If reading from the broker was paused, it resumes as soon as at most `MAX_UNSENT_BYTES` are unsent.
        """
        if self._connection is not None:
            self._connection.on_sent(size)

    def close(self) -> None:
        """Close the connection to the broker. If it is still being opened, close it as soon as it is open."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()

    async def _connect(self) -> _Link:
        loop = asyncio.get_running_loop()
        pause_s = self._backoff.remaining_s(loop.time())
        if pause_s:
            await asyncio.sleep(pause_s)  # a client that retries immediately has to wait too
            raise UpstreamUnavailableError("the last attempt to connect to the upstream broker failed")
        try:
            connection = await _Link.connect(*self._address, self._settings)
        except UpstreamUnavailableError:
            self._backoff.record_failure(loop.time())
            raise
        self._backoff.record_success()
        if (
            self._is_closed
        ):  # the client left while connecting (before Python 3.12, wait_for may swallow the cancellation)
            connection.close()
            raise UpstreamUnavailableError("the client disconnected from the gateway before its request was forwarded")
        self._connection = connection
        return connection


class _Link(UpstreamConnection):
    """A connection to a broker. Responses are read from it no faster than the client reads them.

    `unsent_bytes` is the size of responses that have arrived from the broker and have not been sent to the client.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unsent_bytes = 0

    def forward(self, frame: bytes | bytearray | memoryview, correlation_id: int) -> asyncio.Future[memoryview]:
        """Send a request, and return a future of the response.

        Reading from the broker pauses while `unsent_bytes` is above `MAX_UNSENT_BYTES`.
        """
        response = super().forward(frame, correlation_id)
        response.add_done_callback(self._on_response)
        return response

    def _on_response(self, response: asyncio.Future[memoryview]) -> None:
        if response.cancelled() or response.exception() is not None:
            return
        self.unsent_bytes += len(response.result())
        if self.unsent_bytes > MAX_UNSENT_BYTES:
            self.hold_frames()

    def on_sent(self, size: int) -> None:
        """Record that `size` bytes were sent to the client. Resume reading if `unsent_bytes` is low enough."""
        was_held = self.unsent_bytes > MAX_UNSENT_BYTES
        self.unsent_bytes -= size
        if was_held and self.unsent_bytes <= MAX_UNSENT_BYTES:
            self.release_frames()


def expects_response(header: RequestHeader, frame: memoryview) -> bool:
    """Return whether the broker will respond to a request. It does, unless the request is a Produce with acks=0.

    Raises MalformedRequestError if a Produce request cannot be decoded.
    """
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
        raise MalformedRequestError(f"invalid Produce request: {error}") from None
    return bool(acks != 0)
