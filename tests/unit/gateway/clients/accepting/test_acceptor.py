"""Accepted connections."""

from __future__ import annotations

import asyncio
import socket

from sharegroup.gateway.clients.accepting.acceptor import Acceptor


class Taken(asyncio.Protocol):
    """A protocol that keeps the client's transport."""

    def __init__(self, taken: asyncio.Future[asyncio.BaseTransport]) -> None:
        self._taken = taken

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._taken.set_result(transport)


def test_accepted_connections_have_no_delay() -> None:
    asyncio.run(_takes_one_in())


async def _takes_one_in() -> None:
    taken: asyncio.Future[asyncio.BaseTransport] = asyncio.get_running_loop().create_future()
    acceptor = await Acceptor.listen(lambda: Taken(taken), "127.0.0.1", 0, backlog=1)
    try:
        _, writer = await asyncio.open_connection(*acceptor.sockets[0].getsockname())
        transport = await asyncio.wait_for(taken, 30)
        assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        transport.close()
        writer.close()
    finally:
        acceptor.close()
