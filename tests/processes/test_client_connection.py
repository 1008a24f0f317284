"""Clients' connections over real sockets: what is no request, too much, too slow, or not allowed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import ssl
import struct
import threading
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.sasl import SaslHandshakeRequest
from scramp import ScramClient

from sharegroup.config import GatewayConfig
from sharegroup.gateway.clients import client_connection
from sharegroup.gateway.clients.client_connection import ClientConnection
from sharegroup.gateway.clients.request_sizes import MAX_LOGIN_REQUEST_BYTES, MAX_OWN_REQUEST_BYTES
from sharegroup.gateway.clients.waiting_frames import MAX_WAITING_FRAMES
from sharegroup.gateway.server import Gateway
from sharegroup.kafka_clients.connections import headers as wire
from sharegroup.security.authentication.credentials import ScramCredential
from tests.harness.event_loop import advance, until
from tests.processes.served_clients import UNKNOWN_API_VERSIONS, Client, Serve, unknown_api_versions
from tests.unit.gateway.wire_bytes import framed

#: For a test that hangs.
DEADLINE_S = 200.0


def request(api_key: int, version: int, body: bytes = b"") -> bytes:
    return framed(struct.pack(">hhih", api_key, version, 7, -1) + body)


def metadata(version: int = 1) -> bytes:
    return bytes(wire.encode_request(MetadataRequest(topics=[]), version, 7, "test"))


NO_REQUEST = {
    "not Kafka": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("16030100f8010000f40303") + bytes(240),
    "a negative length": b"\xff\xff\xff\xff",
    "too long": struct.pack(">i", 2**31 - 1),
    "an empty frame": framed(b""),
    "half a header": framed(b"\0\x12\0\3\0"),
    "a client id that is cut off": framed(b"\0\x12\0\3\0\0\0\7\0\x10abc"),
    "an unknown version": request(3, 99),
    "a negative version": request(78, -1),
    "an unknown API": request(999, 0),
    "a negative API": request(-1, 0),
    "a hidden API": request(83, 0),
    "Metadata that is cut off": request(3, 1, b"\0\0\0\1\0\5abc"),
    "ShareFetch of random bytes": request(78, 2, random.Random(1).randbytes(100)),
    "an array without an end": request(3, 9, b"\0\xff\xff\xff\xff\x0f"),
    "a varint without an end": request(3, 9, b"\xff" * 1_000),
    "an own request that is too long": request(78, 1, bytes(MAX_OWN_REQUEST_BYTES)),
    "the beginning of one": struct.pack(">ih", 100_000_000, 78),
}


@pytest.mark.parametrize("garbage", NO_REQUEST.values(), ids=NO_REQUEST)
async def test_what_is_no_request_closes_its_connection_and_no_other(
    garbage: bytes, caplog: pytest.LogCaptureFixture, serve: Serve
) -> None:
    with caplog.at_level(logging.INFO):
        _, client = await serve()
        other = await client.another().connect()
        await client.connect()
        client.send(garbage)
        assert await client.is_closed()
        assert await other.is_served()
    line = [record for record in caplog.records if record.name.startswith("sharegroup.gateway.clients.")]
    assert len(line) == 1
    assert line[0].levelno <= logging.WARNING
    assert "client 127.0.0.1 disconnected: " in line[0].message
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_what_came_before_the_garbage_is_answered(serve: Serve) -> None:
    _, client = await serve()
    await client.connect()
    assert await client.is_served()
    client.send(unknown_api_versions(7))
    assert await client.frame() == UNKNOWN_API_VERSIONS
    client.send(request(999, 0))
    assert await client.is_closed()


async def test_a_frame_that_never_ends_is_closed_with_its_client(serve: Serve) -> None:
    gateway, client = await serve()
    await client.connect()
    client.send(metadata()[:-1])
    await until(lambda: len(gateway.parts.connections) == 1)
    client.close()
    await until(lambda: len(gateway.parts.connections) == 0)


async def test_thousands_of_requests_in_a_row_are_answered_in_order(serve: Serve) -> None:
    _, client = await serve()
    await client.connect()
    client.send(b"".join(map(unknown_api_versions, range(5_000))))
    assert [int.from_bytes((await client.frame())[:4], "big") for _ in range(5_000)] == list(range(5_000))


def connection_of(gateway: Gateway) -> ClientConnection:
    (connection,) = gateway.parts.connections
    assert isinstance(connection, ClientConnection)
    return connection


def principal(gateway: Gateway) -> str:
    return connection_of(gateway)._requests.caller.principal


@contextlib.asynccontextmanager
async def raw_socket(gateway: Gateway, client: Client) -> AsyncIterator[tuple[socket.socket, ClientConnection]]:
    """A socket with a small buffer, which reads nothing by itself, and the gateway's end of it."""
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", client.port))
        await until(lambda: len(gateway.parts.connections) == 1)
        yield raw, connection_of(gateway)


def transport_of(connection: ClientConnection) -> asyncio.Transport:
    assert connection.transport is not None
    assert not connection.transport.is_closing()
    return connection.transport


def accepted_by(connection: ClientConnection) -> socket.socket:
    accepted: socket.socket = transport_of(connection).get_extra_info("socket")
    return accepted


async def test_a_client_that_never_reads_is_not_read_from_and_then_closed(
    monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    monkeypatch.setattr(client_connection, "WRITE_BUFFER_BYTES", 1_024)
    gateway, client = await serve({"gateway.tcp.keepalive.ms": 0})
    async with raw_socket(gateway, client) as (unread, connection):
        accepted_by(connection).setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        requests = asyncio.get_running_loop().sock_sendall(unread, unknown_api_versions(1) * 1_000_000)
        sending = asyncio.ensure_future(requests)
        await until(lambda: connection.is_held and not connection._drained.is_set())
        assert len(connection._requests._frames) <= MAX_WAITING_FRAMES
        other = await client.another().connect()
        assert await other.is_served()
        other.close()
        advance(client_connection.UNREAD_TIMEOUT_S)
        await until(lambda: len(gateway.parts.connections) == 0)
        with pytest.raises(ConnectionError):
            await sending


async def test_a_client_that_reads_slowly_keeps_its_connection_until_it_stops(
    monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    monkeypatch.setattr(client_connection, "WRITE_BUFFER_BYTES", 1_024)
    gateway, client = await serve({"gateway.tcp.keepalive.ms": 0})
    async with raw_socket(gateway, client) as (slow, connection):
        accepted_by(connection).setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        connection.write_pieces([bytes(100_000) for _ in range(8)])
        await asyncio.sleep(0)
        assert transport_of(connection).get_write_buffer_size() > 700_000
        while transport_of(connection).get_write_buffer_size() > 600_000:
            await asyncio.get_running_loop().sock_recv(slow, 4_096)
        timer = connection._unread_timer
        advance(client_connection.UNREAD_TIMEOUT_S)
        await until(lambda: connection._unread_timer is not timer)
        assert transport_of(connection)  # it goes on
        advance(client_connection.UNREAD_TIMEOUT_S)
        await until(lambda: len(gateway.parts.connections) == 0)


async def test_a_thousand_connections_at_once(serve: Serve) -> None:
    _, client = await serve()
    clients = await asyncio.gather(*(client.another().connect() for _ in range(1_000)))
    served = await asyncio.gather(*(each.is_served() for each in clients))
    for each in clients:
        each.close()
    assert sum(served) == 1_000


async def test_too_many_connections(serve: Serve) -> None:
    gateway, client = await serve({"gateway.max.connections": 2})
    first, second = await client.another().connect(), await client.another().connect()
    assert await first.is_served()
    assert await second.is_served()
    assert await (await client.another().connect()).is_closed()
    first.close()
    await until(lambda: len(gateway.parts.connections) == 1)
    assert await (await client.another().connect()).is_served()


async def test_a_client_that_says_nothing(serve: Serve) -> None:
    gateway, client = await serve()
    silent = await client.another().connect()
    talking = await client.another().connect()
    assert await talking.is_served()
    gateway.parts.connections.close_idle()
    assert await talking.is_served()
    assert len(gateway.parts.connections) == 2
    advance(GatewayConfig().first_request_timeout_ms / 1000)
    gateway.parts.connections.close_idle()
    assert await silent.is_closed()
    assert await talking.is_served()


async def test_a_client_that_has_been_silent_for_long(serve: Serve) -> None:
    gateway, client = await serve()
    await client.connect()
    loop = asyncio.get_running_loop()
    before = loop.time()
    assert await client.is_served()
    connection = connection_of(gateway)
    assert not connection.is_idle(before + 600)
    assert connection.is_idle(loop.time() + 600.1)


async def test_a_gateway_that_ends_lets_its_clients_go_when_they_are_done(serve: Serve) -> None:
    """One has nothing under way; one holds records until after its next request, which is answered."""
    gateway, client = await serve()
    busy = await client.another().connect()
    assert await busy.is_served()
    holder = connection_of(gateway).connection_id
    idle = await client.another().connect()
    assert await idle.is_served()
    draining = asyncio.ensure_future(gateway.parts.connections.drain(lambda number: number not in holders, 100))
    holders = {holder}
    assert await idle.is_closed()
    assert not draining.done()
    holders.clear()
    assert await busy.is_served()
    assert await busy.is_closed()
    assert await draining


async def test_a_client_that_is_never_done_is_waited_for_only_so_long(serve: Serve) -> None:
    gateway, client = await serve()
    assert await gateway.parts.connections.drain(lambda _: False, 0.05)  # nobody is there
    await client.connect()
    assert await client.is_served()
    assert not await gateway.parts.connections.drain(lambda _: False, 0.05)


#: What each platform has of them; TCP_KEEPALIVE is macOS's name of the first.
KEEPALIVE = ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")


async def keepalive_of(gateway: Gateway, client: Client) -> dict[str, int]:
    await client.connect()
    await until(lambda: len(gateway.parts.connections) == 1)
    accepted = accepted_by(connection_of(gateway))
    tcp = {name: getattr(socket, name) for name in KEEPALIVE if hasattr(socket, name)}
    options = {name: accepted.getsockopt(socket.IPPROTO_TCP, option) for name, option in tcp.items()}
    return {"SO_KEEPALIVE": int(accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) != 0), **options}


@pytest.mark.parametrize(
    ("keys", "idle_s", "interval_s", "whole_ms"),
    [
        ({}, 15, 10, 45_000),  # the default session timeout
        ({"gateway.tcp.keepalive.ms": 10_000}, 3, 2, 10_000),
        ({"gateway.tcp.keepalive.ms": 1}, 1, 1, 1),
    ],
)
async def test_tcp_looks_for_clients_that_have_vanished(
    serve: Serve, keys: dict[str, object], idle_s: int, interval_s: int, whole_ms: int
) -> None:
    wanted = {
        "SO_KEEPALIVE": 1,
        "TCP_KEEPIDLE": idle_s,
        "TCP_KEEPALIVE": idle_s,
        "TCP_KEEPINTVL": interval_s,
        "TCP_KEEPCNT": 3,
        "TCP_USER_TIMEOUT": whole_ms,
    }
    found = await keepalive_of(*await serve(keys))
    assert found == {name: wanted[name] for name in found}
    assert len(found) >= 4


async def test_tcp_looks_for_vanished_clients_in_the_tls_handshake_too(pems: Path, serve: Serve) -> None:
    assert (await keepalive_of(*await serve(tls(pems))))["SO_KEEPALIVE"] == 1


async def test_vanished_clients_may_be_left_to_tcp(serve: Serve) -> None:
    assert (await keepalive_of(*await serve({"gateway.tcp.keepalive.ms": 0})))["SO_KEEPALIVE"] == 0


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the platform has no such option")
async def test_a_connection_that_takes_nothing_ends(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    """As one to a machine that has vanished while responses are on their way: without a timer of the gateway's own."""
    gateway, client = await serve({"gateway.tcp.keepalive.ms": 1_000})
    async with raw_socket(gateway, client) as (_, connection):
        ends: list[Exception | None] = []
        lost = connection.connection_lost

        def lost_by(error: Exception | None) -> None:
            ends.append(error)
            lost(error)

        monkeypatch.setattr(connection, "connection_lost", lost_by)
        transport_of(connection).write(bytes(16 * 1_048_576))
        await until(lambda: len(gateway.parts.connections) == 0)
        assert isinstance(ends[0], TimeoutError)


async def test_clients_that_come_and_go_leave_nothing_behind(serve: Serve) -> None:
    """`serving` waits until all tasks are gone."""

    async def visit(client: Client, choice: random.Random) -> None:
        await client.connect()
        client.send(b"".join(unknown_api_versions(number) for number in range(choice.randrange(40))))
        client.send(metadata()[: choice.randrange(30)])
        for _ in range(choice.randrange(5)):
            await asyncio.sleep(0)
        if choice.random() < 0.5:
            client.writer.write_eof()
            await client.is_closed()
        elif choice.random() < 0.5:
            reset = struct.pack("ii", 1, 0)
            client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        client.close()

    _, client = await serve()
    choice = random.Random(7)
    await asyncio.gather(*(visit(client.another(), choice) for _ in range(300)))


# -- brokers that are away ---------------------------------------------------------------------------------------------


async def test_while_the_brokers_are_away_who_needs_them_is_disconnected(
    caplog: pytest.LogCaptureFixture, serve: Serve
) -> None:
    _, client = await serve()
    for _ in range(3):
        other = await client.another().connect()
        other.send(metadata())
        assert await other.is_closed()
    assert await (await client.connect()).is_served()
    ours = [record for record in caplog.records if record.name.startswith("sharegroup")]
    assert {record.levelno for record in ours} == {logging.WARNING}
    assert all("broker 1 is unknown" in record.message for record in ours)


# -- security ----------------------------------------------------------------------------------------------------------


async def test_a_login(users: dict[str, object], serve: Serve) -> None:
    gateway, client = await serve(users)
    await client.connect()
    assert await client.is_served()  # ApiVersions comes before the login
    assert await client.handshake() == 0
    assert await client.authenticate(b"\0alice\0secret") == (0, b"")
    assert await client.handshake() == 34  # only once
    long = SaslHandshakeRequest(mechanism="x" * 20_000)
    client.send(wire.encode_request(long, 1, 9, "test"))  # longer requests are allowed from now on
    assert (await client.frame())[:6] == b"\0\0\0\x09\0\x22"
    assert principal(gateway) == "User:alice"


async def test_a_login_by_scram(users: dict[str, object], serve: Serve) -> None:
    gateway, client = await serve(users)
    await client.connect()
    assert await client.handshake("SCRAM-SHA-512") == 0
    scram = ScramClient(["SCRAM-SHA-512"], "alice", "secret")
    code, challenge = await client.authenticate(scram.get_client_first().encode())
    assert code == 0
    scram.set_server_first(challenge.decode())
    code, proof = await client.authenticate(scram.get_client_final().encode())
    assert code == 0
    scram.set_server_final(proof.decode())
    assert principal(gateway) == "User:alice"


async def bare(client: Client, message: bytes) -> bytes:
    """A SASL message without a request around it, and the answer's."""
    client.send(framed(message))
    return await client.frame()


async def test_a_login_by_bare_messages(users: dict[str, object], serve: Serve) -> None:
    """As clients before Kafka 1.0 log in; what follows are requests again."""
    gateway, client = await serve(users)
    await client.connect()
    assert await client.is_served()
    assert await client.handshake("NO-SUCH-MECHANISM", version=0) == 33
    assert await client.handshake(version=0) == 0
    assert await bare(client, b"\0alice\0secret") == b""
    assert principal(gateway) == "User:alice"
    assert await client.is_served()


async def test_a_login_by_bare_messages_of_scram(users: dict[str, object], serve: Serve) -> None:
    gateway, client = await serve(users)
    await client.connect()
    assert await client.handshake("SCRAM-SHA-512", version=0) == 0
    scram = ScramClient(["SCRAM-SHA-512"], "alice", "secret")
    scram.set_server_first((await bare(client, scram.get_client_first().encode())).decode())
    scram.set_server_final((await bare(client, scram.get_client_final().encode())).decode())
    assert principal(gateway) == "User:alice"
    assert await client.is_served()


@pytest.mark.parametrize(
    "wrong",
    [framed(b"\0alice\0wrong"), framed(b""), framed(b"\xff" * 5_000), unknown_api_versions(7), metadata()],
    ids=["a wrong password", "nothing", "too much", "ApiVersions", "Metadata"],
)
async def test_a_wrong_bare_message_closes_the_connection_without_an_answer(
    users: dict[str, object], wrong: bytes, serve: Serve
) -> None:
    gateway, client = await serve(users)
    await client.connect()
    assert await client.handshake(version=0) == 0
    connection = connection_of(gateway)
    client.send(wrong)
    assert await client.is_closed()
    assert connection._requests.caller.principal == "User:ANONYMOUS"


async def test_bare_messages_come_after_the_handshake_in_one_go(users: dict[str, object], serve: Serve) -> None:
    """A client need not wait for the answer; what came with its password is a request already."""
    _, client = await serve(users)
    await client.connect()
    handshake = bytes(wire.encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 0, 1, "test"))
    client.send(handshake + framed(b"\0alice\0secret") + unknown_api_versions(7))
    assert [(await client.frame())[:6] for _ in range(3)] == [b"\0\0\0\x01\0\0", b"", UNKNOWN_API_VERSIONS[:6]]


async def test_a_wrong_password_is_answered_before_the_connection_is_closed(
    users: dict[str, object], serve: Serve
) -> None:
    _, client = await serve(users)
    await client.connect()
    assert await client.handshake() == 0
    assert await client.authenticate(b"\0alice\0wrong") == (58, b"")
    assert await client.is_closed()


async def test_a_login_in_the_wrong_order_is_answered_before_the_connection_is_closed(
    users: dict[str, object], serve: Serve
) -> None:
    _, client = await serve(users)
    await client.connect()
    assert await client.authenticate(b"\0alice\0secret") == (34, b"")
    assert await client.is_closed()


@pytest.mark.parametrize(
    "early",
    [metadata(), request(0, 3, b"\xff\xff\0\0"), request(78, 2), framed(bytes(MAX_LOGIN_REQUEST_BYTES + 1))],
    ids=["an own request", "one to pass through", "ShareFetch", "a long one"],
)
async def test_nothing_else_is_served_before_the_login(users: dict[str, object], early: bytes, serve: Serve) -> None:
    _, client = await serve(users)
    await client.connect()
    assert await client.is_served()
    client.send(early)
    assert await client.is_closed()


async def test_who_only_talks_does_not_put_off_the_login(users: dict[str, object], serve: Serve) -> None:
    gateway, client = await serve({**users, "gateway.first.request.timeout.ms": 300})
    await client.connect()
    answered = 0
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            assert await client.handshake("NO-SUCH-MECHANISM") == 33
            answered += 1
            gateway.parts.connections.close_idle()
    assert answered


async def test_many_logins_at_once_keep_nobody_waiting(
    users: dict[str, object], monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    """Each takes milliseconds of work, here as long as it takes to serve another client many times."""
    proves, others_are_served = ScramCredential.matches, threading.Event()

    def proves_late(credential: ScramCredential, password: str) -> bool:
        return others_are_served.wait(DEADLINE_S) and proves(credential, password)

    monkeypatch.setattr(ScramCredential, "matches", proves_late)

    async def log_in(client: Client) -> tuple[int, bytes]:
        await client.connect()
        await client.handshake()
        return await client.authenticate(b"\0alice\0secret")

    gateway, client = await serve(users)
    await client.connect()
    logins = asyncio.gather(*(log_in(client.another()) for _ in range(50)))
    await until(lambda: len(gateway.parts.connections) == 51)
    for _ in range(50):
        assert await client.is_served()
    assert not logins.done()
    others_are_served.set()
    assert set(await logins) == {(0, b"")}


async def test_without_sasl_there_is_no_login(serve: Serve) -> None:
    _, client = await serve()
    await client.connect()
    assert await client.handshake() == 34
    assert await client.authenticate(b"\0alice\0secret") == (34, b"")
    assert await client.is_served()


def tls(pems: Path, **more: object) -> dict[str, object]:
    keys = {"gateway.ssl.certificate.location": "cert.pem", "gateway.ssl.key.location": "key.pem"}
    return {**{key: str(pems / name) for key, name in keys.items()}, **more}


def client_context(pems: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=pems / "cert.pem")
    context.load_cert_chain(pems / "cert.pem", pems / "key.pem")
    return context


async def test_a_certificate_is_a_login(pems: Path, serve: Serve) -> None:
    asking = tls(pems, **{"gateway.ssl.client.ca.location": str(pems / "cert.pem")})
    for keys, expected in ((asking, r"User:CN=localhost,O=Share\, Group,C=DE"), (tls(pems), "User:ANONYMOUS")):
        gateway, client = await serve(keys)
        client.context = client_context(pems)
        await client.connect()
        assert await client.is_served()
        assert principal(gateway) == expected


async def test_with_sasl_a_certificate_is_none(pems: Path, users: dict[str, object], serve: Serve) -> None:
    _, client = await serve(tls(pems, **{"gateway.ssl.client.ca.location": str(pems / "cert.pem"), **users}))
    client.context = client_context(pems)
    await client.connect()
    client.send(metadata())
    assert await client.is_closed()


@pytest.mark.parametrize(
    "said", [b"", metadata(), b"\x16\x03\x01", os.urandom(5_000)], ids=["nothing", "plain", "half", "random"]
)
async def test_no_tls_handshake(pems: Path, said: bytes, caplog: pytest.LogCaptureFixture, serve: Serve) -> None:
    one_place = {"gateway.max.connections": 1, "gateway.first.request.timeout.ms": 1_000}
    gateway, client = await serve(tls(pems, **one_place))  # which whoever is closed leaves to the other
    await client.connect()
    client.send(said)
    assert await client.is_closed() or said  # an alert may come before
    patient = {"first_request_timeout_ms": 60_000}
    parts = gateway.parts  # the other has all the time that it needs
    parts._config = replace(parts._config, gateway=parts._config.gateway.model_copy(update=patient))
    other = client.another()
    other.context = client_context(pems)
    assert await (await other.connect()).is_served()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_who_has_not_begun_the_tls_handshake_counts(pems: Path, serve: Serve) -> None:
    gateway, client = await serve(tls(pems, **{"gateway.max.connections": 2}))
    silent = [await client.another().connect() for _ in range(3)]
    await until(lambda: len(gateway.parts.connections) == 2)
    assert await silent[2].is_closed()
    client.context = client_context(pems)
    with pytest.raises((ConnectionError, ssl.SSLError)):
        await client.connect()
    silent[0].close()
    await until(lambda: len(gateway.parts.connections) == 1)
    assert await (await client.connect()).is_served()
    for connection in list(gateway.parts.connections):
        connection.close()
    assert await silent[1].is_closed()


async def test_a_tls_connection_takes_little_memory(pems: Path, serve: Serve) -> None:
    tracemalloc.start()
    try:
        gateway, client = await serve(tls(pems))
        clients = [client.another() for _ in range(20)]
        before, _ = tracemalloc.get_traced_memory()
        for each in clients:
            await each.connect()
        await until(lambda: len(gateway.parts.connections) == len(clients))
        after, _ = tracemalloc.get_traced_memory()
        assert (after - before) / len(clients) < 65_536
    finally:
        tracemalloc.stop()


async def test_requests_over_tls_in_a_row_are_answered_in_order(pems: Path, serve: Serve) -> None:
    _, client = await serve(tls(pems))
    client.context = client_context(pems)
    await client.connect()
    client.send(b"".join(map(unknown_api_versions, range(3_000))))
    assert [int.from_bytes((await client.frame())[:4], "big") for _ in range(3_000)] == list(range(3_000))
