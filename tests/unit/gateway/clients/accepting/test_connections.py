"""The clients that are disconnected because of the brokers."""

from __future__ import annotations

import asyncio
import logging

import pytest

from sharegroup.gateway.clients.accepting.address_limits import AddressLimits
from sharegroup.gateway.clients.accepting.connections import Connections
from sharegroup.kafka_clients.connections.unavailable import UpstreamUnavailableError


def test_clients_that_reconnect_in_an_outage_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def outage() -> None:
        connections = Connections(AddressLimits(100, 10, {}, 0), lambda connection_id: None)
        for number in range(100):
            connections.log_interrupted(f"10.0.0.{number}", UpstreamUnavailableError("no broker"))

    asyncio.run(outage())
    assert caplog.record_tuples == [
        (
            "sharegroup.gateway.clients.accepting.connections",
            logging.WARNING,
            "client 10.0.0.0 disconnected: no broker",
        )
    ]
