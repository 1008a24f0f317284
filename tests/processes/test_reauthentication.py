"""Connections to brokers whose SASL sessions end: they reauthenticate (KIP-368). The gateway is the broker here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from sharegroup.gateway.clients.client_connection import ClientConnection
from sharegroup.gateway.clients.logins.sasl_server import SaslServer
from sharegroup.gateway.server import Gateway
from sharegroup.gateway.wire.request import Request
from sharegroup.kafka_clients.connections.connection import UpstreamConnection
from sharegroup.kafka_clients.connections.unavailable import UpstreamLoginRejectedError, UpstreamUnavailableError
from sharegroup.security.authentication.credentials import hash_password
from tests.harness.event_loop import advance
from tests.processes.served_clients import serving

PASSWORD, MECHANISM = "s3cret-of-alice", "SCRAM-SHA-256"
LIFETIME_MS = 10_000
LOGIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": MECHANISM,
    "sasl_plain_username": "alice",
    "sasl_plain_password": PASSWORD,
}


class Server:
    """A gateway that answers ApiVersions itself, when `may_end` is set; `begun` is set when the first has arrived."""

    def __init__(self, gateway: Gateway, port: int) -> None:
        self.gateway, self.port = gateway, port
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.may_end.set()
        gateway.parts._service.routes[ApiVersionsRequest.API_KEY] = ApiVersionsRequest, self._api_versions

    async def _api_versions(self, _: Request[Any]) -> ApiVersionsResponse:
        self.begun.set()
        await self.may_end.wait()
        return ApiVersionsResponse(error_code=0, api_keys=[], supported_features=[], finalized_features=[])

    @property
    def login(self) -> SaslServer:
        """The login of the only connection."""
        (connection,) = cast("set[ClientConnection]", self.gateway.parts.connections)
        assert connection._requests._login._sasl is not None
        return connection._requests._login._sasl

    def advance(self, part: float) -> None:
        """Move the clocks of both sides forward by a part of a session's lifetime."""
        advance(part * LIFETIME_MS / 1000)
        logins = self.gateway.parts.logins
        before = logins.now_ms
        logins.now_ms = lambda: before() + int(part * LIFETIME_MS)


def write_users(directory: Path, user: str) -> Path:
    path = directory / "users.yaml"
    path.write_text(hash_password(user, PASSWORD, (MECHANISM,)), encoding="utf-8")
    return path


@asynccontextmanager
async def connected(directory: Path) -> AsyncIterator[tuple[Server, UpstreamConnection]]:
    users = write_users(directory, "alice")
    config: dict[str, object] = {
        "gateway.sasl.users.location": str(users),
        "gateway.connections.max.reauth.ms": LIFETIME_MS,
    }
    async with serving(config) as (gateway, client):
        connection = await UpstreamConnection.connect("127.0.0.1", client.port, LOGIN)
        try:
            yield Server(gateway, client.port), connection
        finally:
            connection.close()


async def ask(connection: UpstreamConnection) -> int:
    """Send a request; return the error code of its response."""
    return int((await connection.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)).error_code)


@pytest.mark.parametrize("part", [0.9, 2.5], ids=["before the end", "after the end"])
def test_connection_outlives_its_sessions(tmp_path: Path, part: float) -> None:
    async def test() -> None:
        async with connected(tmp_path) as (server, connection):
            ends = [server.login.session_ends_ms]
            for _ in range(3):
                assert await ask(connection) == 0
                assert server.login.session_ends_ms == ends[-1]
                server.advance(part)
                assert await asyncio.gather(*(ask(connection) for _ in range(5))) == [0] * 5
                ends.append(server.login.session_ends_ms)
            assert len(set(ends)) == len(ends)

    asyncio.run(test())


def test_reauthentication_follows_a_pending_request(tmp_path: Path) -> None:
    async def test() -> None:
        async with connected(tmp_path) as (server, connection):
            server.may_end.clear()
            pending = asyncio.ensure_future(ask(connection))
            await server.begun.wait()
            server.advance(0.9)
            later = asyncio.ensure_future(ask(connection))
            await asyncio.sleep(0)
            server.may_end.set()
            assert await asyncio.gather(pending, later) == [0, 0]
            assert server.login._reauthenticated_ms is not None

    asyncio.run(test())


def test_rejected_reauthentication_closes_the_connection(tmp_path: Path) -> None:
    async def test() -> None:
        async with connected(tmp_path) as (server, connection):
            write_users(tmp_path, "bob")
            for _ in range(2):  # a file that changes is read when it stays the same
                await asyncio.to_thread(server.gateway.parts.reload_security)
            server.advance(0.9)
            with pytest.raises(UpstreamLoginRejectedError):
                await ask(connection)
            assert not connection.is_open

    asyncio.run(test())


def test_interrupted_reauthentication_closes_the_connection(tmp_path: Path) -> None:
    async def test() -> None:
        async with connected(tmp_path) as (server, connection):
            server.advance(0.9)
            first, second = (asyncio.ensure_future(ask(connection)) for _ in range(2))
            await asyncio.sleep(0)
            first.cancel()
            with pytest.raises(UpstreamUnavailableError):
                await second
            assert not connection.is_open

    asyncio.run(test())
