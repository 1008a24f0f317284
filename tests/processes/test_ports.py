"""A gateway's ports: which there are, and as whose client one comes to each."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from sharegroup.config import GatewayConfig
from sharegroup.gateway.clients.accepting.ports import Ports
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.testing.gateway_process import free_base_port

HOST = "127.0.0.1"


class Opened:
    """The ports of a gateway before these brokers, and who has come: (broker, whether as another gateway's client)."""

    def __init__(self, *node_ids: int, base: int | None = None) -> None:
        self.base = free_base_port() if base is None else base
        self.cluster: Any = SimpleNamespace(node_ids=list(node_ids))
        self.listeners = Listeners(HOST)
        config = GatewayConfig.model_validate({"gateway.listener.port": self.base})
        self.ports = Ports(config, self.cluster, self.listeners)
        self.ports.set_protocol_factory(self._connected)
        self.came: asyncio.Queue[tuple[int, bool]] = asyncio.Queue()

    def _connected(self, node_id: int, is_standby: bool) -> asyncio.BaseProtocol:
        self.came.put_nowait((node_id, is_standby))
        return asyncio.Protocol()

    async def comes_as(self, port: int) -> tuple[int, bool]:
        """What a client is that comes to a port."""
        _, writer = await asyncio.open_connection(HOST, port)
        writer.close()
        await writer.wait_closed()
        return await self.came.get()


async def test_a_port_is_the_base_port_and_the_brokers_id_whatever_came_first() -> None:
    opened = Opened(3)
    await opened.ports.open()
    opened.cluster.node_ids = [1, 3]
    await opened.ports.open_new()
    base = opened.base
    assert opened.listeners.addresses == {3: (HOST, base + 3), 1: (HOST, base + 1)}
    assert opened.listeners.standby == (HOST, base - 1)
    assert [await opened.comes_as(base + place) for place in (1, 3, -1)] == [(1, False), (3, False), (1, True)]
    opened.ports.close()


async def test_base_port_is_a_bootstrap_address_until_broker_0_comes() -> None:
    opened = Opened(2, 3)
    await opened.ports.open()
    assert await opened.comes_as(opened.base) == (2, False)
    assert set(opened.listeners.addresses) == {2, 3}
    opened.cluster.node_ids = [0, 2, 3]
    await opened.ports.open_new()
    assert opened.listeners.addresses[0] == (HOST, opened.base)
    assert await opened.comes_as(opened.base) == (0, False)
    opened.ports.close()


async def test_any_free_ports() -> None:
    opened = Opened(1, 2, base=0)
    await opened.ports.open()
    told = [*opened.listeners.addresses.values(), opened.listeners.standby]
    assert len(set(told)) == 3
    opened.ports.close()


async def test_a_port_that_is_taken_or_that_there_is_not(caplog: pytest.LogCaptureFixture) -> None:
    """At the start it is an error; of a broker that comes later it is said, and clients do not see it."""

    first = Opened(1)
    await first.ports.open()
    with pytest.raises(OSError, match="in use"):
        await Opened(1, base=first.base).ports.open()
    first.cluster.node_ids = [1, 65_000]
    with caplog.at_level(logging.WARNING):
        await first.ports.open_new()
    assert f"port {first.base + 65_000} (gateway.listener.port + 65000) is above 65535" in caplog.text
    assert set(first.listeners.addresses) == {1}
    first.ports.close()


@pytest.mark.parametrize(
    ("place", "named"),
    [
        (-1, "gateway.listener.port (--port) -1, which is the standby port"),
        (0, "gateway.listener.port (--port), which is the bootstrap address"),
        (2, "gateway.listener.port (--port) +2, which is the port of broker 2"),
    ],
)
async def test_error_names_the_taken_port_and_its_option(place: int, named: str) -> None:
    opened = Opened(2)
    error = re.escape(f"cannot open port {opened.base + place}, {named}: ")
    with socket.create_server((HOST, opened.base + place)), pytest.raises(OSError, match=error):
        await opened.ports.open()
    opened.ports.close()


async def test_a_gateway_that_ends_opens_no_port() -> None:
    opened = Opened(1)
    opened.ports.close()
    with pytest.raises(OSError, match="shutting down"):
        await opened.ports.open()
