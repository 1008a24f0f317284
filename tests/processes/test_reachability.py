"""Whether another gateway takes connections."""

from __future__ import annotations

import asyncio

from sharegroup.gateway.fleet.reachability import CONNECT_TIMEOUT_S, Reachability
from sharegroup.protocol.rows.gateway_rows import GatewayAddress
from tests.harness.event_loop import advance


def test_a_port_that_listens_is_reached_and_one_look_is_for_all_who_ask() -> None:
    async def main() -> None:
        accepted = asyncio.Semaphore(0)

        async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.release()
            writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        address = GatewayAddress("127.0.0.1", server.sockets[0].getsockname()[1])
        reachability = Reachability()
        assert await asyncio.gather(*(reachability(address) for _ in range(5))) == [True] * 5
        await accepted.acquire()
        assert accepted.locked()
        server.close()
        await server.wait_closed()
        reachability.close()
        assert not await Reachability()(address)

    asyncio.run(main())


def test_who_is_late_itself_does_not_take_another_gateway_for_gone() -> None:
    async def main() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        address = GatewayAddress("127.0.0.1", server.sockets[0].getsockname()[1])
        reachability = Reachability()
        look = asyncio.ensure_future(reachability(address))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        advance(2 * CONNECT_TIMEOUT_S)  # as if something else blocked the event loop
        assert await look
        reachability.close()
        server.close()

    asyncio.run(main())
