"""A gateway that is served on real ports while the brokers behind it are away, and clients that send it bytes."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from sharegroup.config import Config, GatewayConfig, JobConfig
from sharegroup.gateway.server import Gateway
from sharegroup.kafka_clients.connections import headers as wire
from tests.harness.event_loop import until

NODE_ID = 1
#: The port is reserved (RFC 1700): nobody listens there.
NOBODY = JobConfig.model_validate({"bootstrap.servers": "127.0.0.1:1"})


@contextlib.asynccontextmanager
async def serving(config: dict[str, object] | None = None) -> AsyncIterator[tuple[Gateway, Client]]:
    """A gateway, and a client that has not connected yet; at the end all connections and their tasks must be gone."""
    others: set[Any] = set(asyncio.all_tasks())
    gateway = Gateway(replace(Config(), job=NOBODY, gateway=GatewayConfig.model_validate(config or {})))
    server = await gateway.parts.ports.listen(NODE_ID, 0)
    client = Client(server.sockets[0].getsockname()[1], [])
    try:
        yield gateway, client
    finally:
        await client.close_all()
        server.close()
        await gateway.stop()
    others.add(asyncio.current_task())  # need not be the one that has begun
    await until(lambda: not gateway.parts.connections and asyncio.all_tasks() <= others)


class Client:
    """A connection to make, and what may be said on it."""

    def __init__(self, port: int, connected: list[Client]) -> None:
        self.port, self._connected = port, connected
        self.context: ssl.SSLContext | None = None
        #: Where it comes from; None: as the machine chooses.
        self.address: str | None = None
        self._correlation_id = 0
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    def another(self, address: str | None = None) -> Client:
        """Another client of the same port, not connected yet."""
        other = Client(self.port, self._connected)
        other.address = address
        return other

    async def connect(self) -> Client:
        name = "localhost" if self.context is not None else None
        local = (self.address, 0) if self.address is not None else None
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.context, server_hostname=name, local_addr=local
        )
        self._connected.append(self)
        return self

    def send(self, data: bytes) -> None:
        """Send any bytes, be they a request or not."""
        self.writer.write(data)

    async def frame(self) -> bytes:
        """The next response without its length. Raises IncompleteReadError or ConnectionError at the end."""
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        """Wait for the end of the connection; whether no response came before it."""
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True
        finally:
            self.close()

    def close(self) -> None:
        """Go away at once."""
        self.writer.transport.abort()

    async def close_all(self) -> None:
        """All clients to this port go away."""
        for client in self._connected:
            client.close()
            with contextlib.suppress(OSError):
                await client.writer.wait_closed()

    async def ask(self, request: Any, response: Any, version: int) -> Any:
        """A request and its response."""
        self._correlation_id += 1
        self.send(wire.encode_request(request, version, self._correlation_id, "test"))
        frame = await self.frame()
        assert int.from_bytes(frame[:4], "big") == self._correlation_id
        return wire.decode_response(response, version, memoryview(frame))

    async def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> int:
        """Send a SaslHandshake; the error code of its answer."""
        answer = await self.ask(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, version)
        return int(answer.error_code)

    async def authenticate(self, message: bytes) -> tuple[int, bytes]:
        """SaslAuthenticate; error code and answer."""
        answer = await self.ask(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse, 2)
        return int(answer.error_code), bytes(answer.auth_bytes)

    async def is_served(self) -> bool:
        """Whether the gateway answers; needs no broker."""
        self.send(unknown_api_versions(7))
        return await self.frame() == UNKNOWN_API_VERSIONS


#: Serves a gateway with these keys.
Serve = Callable[..., Awaitable[tuple[Gateway, Client]]]


def unknown_api_versions(correlation_id: int) -> bytes:
    """ApiVersions in a version that nobody has: the one request that is answered in any state."""
    frame = bytearray(wire.encode_request(ApiVersionsRequest(), 0, correlation_id, "test"))
    frame[6:8] = b"\0\x63"
    return bytes(frame)


#: UNSUPPORTED_VERSION, and the versions of ApiVersions.
UNKNOWN_API_VERSIONS = b"\0\0\0\7" + b"\0\x23" + b"\0\0\0\1" + b"\0\x12\0\0\0\4"
