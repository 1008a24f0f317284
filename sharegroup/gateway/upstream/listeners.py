"""The addresses that clients receive for upstream brokers. The gateway has a separate port for each broker."""

import socket
from collections.abc import Iterable, Mapping

from sharegroup.config.keys.advertised_listeners import STANDBY, AdvertisedListeners
from sharegroup.kafka_clients.connections.broker_connections import Address
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError


class Listeners:
    """The addresses of the gateway's open ports, as clients receive them.

    An address consists of `host` and the port, unless `advertised` contains another address for the port.
    """

    def __init__(self, host: str, advertised: AdvertisedListeners | None = None) -> None:
        self._host, self._hostname = host, socket.gethostname()
        self._advertised = advertised or AdvertisedListeners.parse("")
        self._addresses: dict[int, Address] = {}
        #: The address of the standby port, for clients whose own gateway has failed. None until the port is open.
        self.standby: Address | None = None

    @property
    def addresses(self) -> Mapping[int, Address]:
        """{id of an upstream broker: address of the gateway's port for this broker}."""
        return self._addresses

    def without_port(self, node_ids: Iterable[int]) -> list[int]:
        """Return those of `node_ids` for whose brokers the gateway has no open port yet, sorted."""
        return sorted(node_id for node_id in node_ids if node_id not in self._addresses)

    def add(self, node_id: int, port: int) -> None:
        self._addresses[node_id] = self._advertised_address(node_id, port)

    def add_standby(self, port: int) -> None:
        """Add the standby port, which has been opened with the number `port`."""
        self.standby = self._advertised_address(STANDBY, port)

    def get_address(self, node_id: int) -> Address:
        """Return the address (host, port) of the gateway's port for a broker.

        Raises UpstreamUnavailableError if no port is open for this broker.
        """
        try:
            return self._addresses[node_id]
        except KeyError:
            raise UpstreamUnavailableError(f"the gateway has no open port for upstream broker {node_id}") from None

    def has_port(self, node_id: int) -> bool:
        return node_id in self._addresses

    def _advertised_address(self, listener: int | str, port: int) -> Address:
        return self._advertised.address(listener, port, self._hostname) or (self._host, port)
