"""Which address a client is told for which upstream broker: one port of the gateway for each."""

from __future__ import annotations

from collections.abc import Iterable

from sharegroup.gateway.upstream.connection import UpstreamUnavailableError


class Listeners:
    """The advertised addresses. A broker keeps its port; one that is new gets the next."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._ports: dict[int, int] = {}

    @property
    def host(self) -> str:
        """The host that clients are told."""
        return self._host

    @property
    def node_ids(self) -> list[int]:
        """The brokers that have a port."""
        return list(self._ports)

    def missing(self, node_ids: Iterable[int]) -> list[int]:
        """Those of the brokers that have no port yet, sorted."""
        return sorted(node_id for node_id in node_ids if node_id not in self._ports)

    def add(self, node_id: int, port: int) -> None:
        """The broker's port is open."""
        self._ports[node_id] = port

    def port(self, node_id: int) -> int:
        """The port of a broker. Raises UpstreamUnavailableError for one that has none (yet)."""
        try:
            return self._ports[node_id]
        except KeyError:
            raise UpstreamUnavailableError(f"no port is open for the upstream broker {node_id}") from None

    def has(self, node_id: int) -> bool:
        """Whether a broker has a port."""
        return node_id in self._ports
