"""Connections to the page that are silent, slow or many, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, cast

import pytest
import uvicorn

from sharegroup.ui.connections import MOST_OF_AN_ADDRESS, PageConnections
from tests.harness.event_loop import EventLoop, advance, until

HOST, ANOTHER = "127.0.0.1", "127.0.0.2"
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = 16_000_000

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[..., Awaitable[Stream]]
Serve = Callable[..., Awaitable[tuple[uvicorn.Server, Connect]]]


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answer /large with many bytes, and all else with few."""
    body = b"x" * (LARGE if scope["path"] == "/large" else 5)
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def serve(loop: EventLoop) -> Iterator[Serve]:
    """Return a function that starts a server with a patience, and returns how to connect from an address."""
    with loop.entering(_serving) as serve:
        yield serve


@contextlib.asynccontextmanager
async def _serving(patience_s: float) -> AsyncIterator[tuple[uvicorn.Server, Connect]]:
    connections = cast("type[asyncio.Protocol]", PageConnections({}, patience_s))
    server = uvicorn.Server(
        uvicorn.Config(application, HOST, 0, http=connections, lifespan="off", log_config=None, loop="asyncio")
    )
    serving = asyncio.ensure_future(server.serve())
    await until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    opened: list[asyncio.StreamWriter] = []

    async def connect(address: str = HOST, limit: int = 65_536) -> Stream:
        stream = await asyncio.open_connection(HOST, port, local_addr=(address, 0), limit=limit)
        opened.append(stream[1])
        return stream

    try:
        yield server, connect
    finally:
        for writer in opened:
            writer.transport.abort()
        server.should_exit = True
        await serving


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
async def test_silent_connections_of_one_address_leave_room_for_others(serve: Serve) -> None:
    _, connect = await serve(patience_s=3_600)
    silent = [await connect(ANOTHER) for _ in range(MOST_OF_AN_ADDRESS)]
    await closed(await connect(ANOTHER))
    assert await answered(await connect()) == b"HTTP/1.1 200 OK"
    silent[0][1].close()
    while not await answered(await connect(ANOTHER)):
        pass


@pytest.mark.parametrize("sent", [b"", REQUEST[:-2], b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc"])
async def test_connection_that_does_not_finish_its_request_is_closed(sent: bytes, serve: Serve) -> None:
    _, connect = await serve(patience_s=0.2)
    stream = await connect()
    if sent:
        stream[1].write(sent)
    await closed(stream)


async def test_bytes_that_trickle_in_do_not_keep_a_connection_open(serve: Serve) -> None:
    _, connect = await serve(patience_s=0.3)

    async def trickle(stream: Stream) -> None:
        while True:
            stream[1].write(b"x")
            await asyncio.sleep(0.02)

    stream = await connect()
    stream[1].write(b"GET /")
    trickling = asyncio.ensure_future(trickle(stream))
    await closed(stream)
    trickling.cancel()


async def test_connection_that_does_not_read_its_answer_is_closed(serve: Serve) -> None:
    server, connect = await serve(patience_s=3_600)
    stream = await connect(limit=1)
    stream[1].write(REQUEST.replace(b"/ ", b"/large ", 1))
    await until(lambda: any(each.flow.write_paused for each in server.server_state.connections))  # the answer is made
    advance(3_600)
    await until(lambda: not server.server_state.connections)
    received = 0
    try:
        while part := await stream[0].read(1_000_000):
            received += len(part)
    except ConnectionError:
        pass
    assert received < LARGE


async def test_connection_with_requests_in_time_stays_open(serve: Serve) -> None:
    _, connect = await serve(patience_s=30)
    stream = await connect()
    for _ in range(3):
        assert await answered(stream) == b"HTTP/1.1 200 OK"
