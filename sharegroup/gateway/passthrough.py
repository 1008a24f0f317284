"""A client's own link to its upstream broker: requests that are not the gateway's pass through undecoded."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from typing import Any

from sharegroup.gateway.upstream_connection import UpstreamConnection
from sharegroup.gateway.wire import MalformedRequestError, RequestHeader, read_varint, skip_tagged_fields

PRODUCE = 0
_FLEXIBLE_PRODUCE = 9
_TRANSACTIONAL_PRODUCE = 3
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


class Passthrough:
    """Opened by the first request that passes through, closed with its client."""

    def __init__(self, address: tuple[str, int], settings: Mapping[str, Any]) -> None:
        self._address, self._settings = address, settings
        self._connection: UpstreamConnection | None = None

    async def forward(self, header: RequestHeader, frame: memoryview) -> asyncio.Future[memoryview] | None:
        """Send a client's frame; a future of the response's frame, None where there is none.

        Raises UpstreamUnavailableError.
        """
        if self._connection is None:
            self._connection = await UpstreamConnection.connect(*self._address, self._settings)
        connection = self._connection
        has_response = expects_response(header, frame)
        await connection.drained()
        connection.send(_INT32.pack(len(frame)))
        if not has_response:
            connection.send(frame)
            return None
        return connection.forward(frame, header.correlation_id)

    def close(self) -> None:
        """Close the link."""
        if self._connection is not None:
            self._connection.close()


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
