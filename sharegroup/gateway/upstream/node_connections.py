"""A set of connections to the brokers of a cluster, separate from the connections of `UpstreamCluster`."""

from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.broker_connections import Address
from sharegroup.kafka_clients.connections.reconnecting_connection import ReconnectingConnection


class NodeConnections:
    """Connections to the brokers, one per broker. `settings` are kafka-python's settings of these connections."""

    def __init__(self, cluster: UpstreamCluster, settings: ClientSettings) -> None:
        self._cluster, self._settings = cluster, settings
        self._connections: dict[int, tuple[Address, ReconnectingConnection]] = {}

    def get(self, node_id: int) -> ReconnectingConnection:
        """Return the connection to a broker, which is opened when it is used first.

        If the address of the broker has changed, close the previous connection and return a new one. Raises
        UpstreamUnavailableError if the broker is unknown.
        """
        address = self._cluster.address(node_id)
        kept = self._connections.get(node_id)
        if kept is None or kept[0] != address:
            if kept is not None:
                kept[1].close()
            kept = self._connections[node_id] = address, ReconnectingConnection(*address, self._settings)
        return kept[1]

    def close(self) -> None:
        for _, connection in self._connections.values():
            connection.close()
