"""Connections to the page that are silent, slow or many, over real sockets."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import uvicorn

from sharegroup.ui.connections import MOST_OF_AN_ADDRESS, PageConnections

HOST, ANOTHER = "127.0.0.1", "127.0.0.2"
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = 16_000_000
DEADLINE_S = 120.0

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[..., Awaitable[Stream]]


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answer /large with many bytes, and all else with few."""
    body = b"x" * (LARGE if scope["path"] == "/large" else 5)
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def run(test: Callable[[Connect, uvicorn.Server], Awaitable[None]], patience_s: float) -> None:
    """Run a test with a function that connects from an address, and the server."""

    async def main() -> None:
        connections = cast("type[asyncio.Protocol]", PageConnections({}, patience_s))
        server = uvicorn.Server(
            uvicorn.Config(application, HOST, 0, http=connections, lifespan="off", log_config=None, loop="asyncio")
        )
        serving = asyncio.ensure_future(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        opened: list[asyncio.StreamWriter] = []

        async def connect(address: str = HOST, limit: int = 65_536) -> Stream:
            stream = await asyncio.open_connection(HOST, port, local_addr=(address, 0), limit=limit)
            opened.append(stream[1])
            return stream

        try:
            await test(connect, server)
        finally:
            for writer in opened:
                writer.transport.abort()
            server.should_exit = True
            await serving

    asyncio.run(asyncio.wait_for(main(), DEADLINE_S))


async def answered(stream: Stream, request: bytes = REQUEST) -> bytes:
    """The status line of an answer; nothing from a connection that is closed."""
    reader, writer = stream
    writer.write(request)
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(5)
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""
    return head.split(b"\r\n")[0]


async def closed(stream: Stream) -> None:
    """Wait until the server has closed a connection."""
    try:
        while await stream[0].read(65_536):
            pass
    except ConnectionError:
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="this machine has one loopback address")
def test_silent_connections_of_one_address_leave_room_for_others() -> None:
    async def test(connect: Connect, server: uvicorn.Server) -> None:
        silent = [await connect(ANOTHER) for _ in range(MOST_OF_AN_ADDRESS)]
        await closed(await connect(ANOTHER))
        assert await answered(await connect()) == b"HTTP/1.1 200 OK"
        silent[0][1].close()
        while not await answered(await connect(ANOTHER)):
            pass

    run(test, patience_s=3_600)


@pytest.mark.parametrize("sent", [b"", REQUEST[:-2], b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc"])
def test_connection_that_does_not_finish_its_request_is_closed(sent: bytes) -> None:
    async def test(connect: Connect, server: uvicorn.Server) -> None:
        stream = await connect()
        if sent:
            stream[1].write(sent)
        await closed(stream)

    run(test, patience_s=0.2)


def test_bytes_that_trickle_in_do_not_keep_a_connection_open() -> None:
    async def trickle(stream: Stream) -> None:
        while True:
            stream[1].write(b"x")
            await asyncio.sleep(0.02)

    async def test(connect: Connect, server: uvicorn.Server) -> None:
        stream = await connect()
        stream[1].write(b"GET /")
        trickling = asyncio.ensure_future(trickle(stream))
        await closed(stream)
        trickling.cancel()

    run(test, patience_s=0.3)


def test_connection_that_does_not_read_its_answer_is_closed() -> None:
    async def test(connect: Connect, server: uvicorn.Server) -> None:
        stream = await connect(limit=1)
        stream[1].write(REQUEST.replace(b"/ ", b"/large ", 1))
        while not server.server_state.total_requests:  # the answer is made
            await asyncio.sleep(0.01)
        while server.server_state.connections:
            await asyncio.sleep(0.01)
        received = 0
        try:
            while part := await stream[0].read(1_000_000):
                received += len(part)
        except ConnectionError:
            pass
        assert received < LARGE

    run(test, patience_s=0.3)


def test_connection_with_requests_in_time_stays_open() -> None:
    async def test(connect: Connect, server: uvicorn.Server) -> None:
        stream = await connect()
        for _ in range(3):
            assert await answered(stream) == b"HTTP/1.1 200 OK"

    run(test, patience_s=30)
