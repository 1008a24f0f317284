"""Which address a client is told for which upstream broker: one port of the gateway for each."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping

from sharegroup.config.keys.advertised_listeners import STANDBY, AdvertisedListeners
from sharegroup.kafka_clients.connections.broker_connections import Address
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError


class Listeners:
    """The advertised addresses of the open ports: at `host`, where `advertised` says nothing else."""

    def __init__(self, host: str, advertised: AdvertisedListeners | None = None) -> None:
        self._host, self._hostname = host, socket.gethostname()
        self._advertised = advertised or AdvertisedListeners.parse("")
        self._addresses: dict[int, Address] = {}
        #: Where clients of other gateways come to when theirs is lost; None while that port is not open.
        self.standby: Address | None = None

    @property
    def addresses(self) -> Mapping[int, Address]:
        """{upstream broker: address} of the brokers that have a port."""
        return self._addresses

    def missing(self, node_ids: Iterable[int]) -> list[int]:
        """Those of the brokers that have no port yet, sorted."""
        return sorted(node_id for node_id in node_ids if node_id not in self._addresses)

    def add(self, node_id: int, port: int) -> None:
        """The broker's port is open."""
        self._addresses[node_id] = self._told(node_id, port)

    def add_standby(self, port: int) -> None:
        """The port for clients of other gateways is open."""
        self.standby = self._told(STANDBY, port)

    def address(self, node_id: int) -> Address:
        """(host, port) of a broker. Raises UpstreamUnavailableError for one that has no port (yet)."""
        try:
            return self._addresses[node_id]
        except KeyError:
            raise UpstreamUnavailableError(f"no port is open for the upstream broker {node_id}") from None

    def has(self, node_id: int) -> bool:
        """Whether a broker has a port."""
        return node_id in self._addresses

    def _told(self, listener: int | str, port: int) -> Address:
        return self._advertised.address(listener, port, self._hostname) or (self._host, port)
