"""The addresses that clients receive for upstream brokers. Each broker has its own port of the gateway."""

import socket
from collections.abc import Iterable, Mapping

from sharegroup.config.keys.advertised_listeners import STANDBY, AdvertisedListeners
from sharegroup.kafka_clients.connections.broker_connections import Address
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError


class Listeners:
    """The advertised addresses of the open ports.

    The host is `host`, unless `advertised` contains another address for the port.
    """

    def __init__(self, host: str, advertised: AdvertisedListeners | None = None) -> None:
        self._host, self._hostname = host, socket.gethostname()
        self._advertised = advertised or AdvertisedListeners.parse("")
        self._addresses: dict[int, Address] = {}
        #: The address of the standby port, for clients whose own gateway has failed. None until the port is open.
        self.standby: Address | None = None

    @property
    def addresses(self) -> Mapping[int, Address]:
        """{id of an upstream broker: address of its port}"""
        return self._addresses

    def without_port(self, node_ids: Iterable[int]) -> list[int]:
        """Return the ids among `node_ids` whose brokers have no port yet, sorted."""
        return sorted(node_id for node_id in node_ids if node_id not in self._addresses)

    def add(self, node_id: int, port: int) -> None:
        self._addresses[node_id] = self._advertised_address(node_id, port)

    def add_standby(self, port: int) -> None:
        """Set the number of the standby port after it has been opened."""
        self.standby = self._advertised_address(STANDBY, port)

    def get_address(self, node_id: int) -> Address:
        """Return (host, port) of a broker. Raises UpstreamUnavailableError if it has no port."""
        try:
            return self._addresses[node_id]
        except KeyError:
            raise UpstreamUnavailableError(f"no port is open for the upstream broker {node_id}") from None

    def has_port(self, node_id: int) -> bool:
        return node_id in self._addresses

    def _advertised_address(self, listener: int | str, port: int) -> Address:
        return self._advertised.address(listener, port, self._hostname) or (self._host, port)
