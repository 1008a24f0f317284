"""The connections to the upstream brokers: one to each, and one for metadata to whichever answers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from sharegroup.gateway.upstream.connection import UpstreamUnavailableError
from sharegroup.gateway.upstream.kept_connection import KeptConnection
from sharegroup.protocol.topic_ids import NO_TOPIC_ID
from sharegroup.topics.client_settings import ClientSettings

#: How long a broker may take to be reached and to give its metadata, before the next one is asked. Requests of clients
#: wait for it: even after some brokers that hang there is to be time left for them.
METADATA_TIMEOUT_S = 5.0

Address = tuple[str, int]


class BrokerConnections:
    """Knows the bootstrap servers, and the brokers that it was told of. `settings` are kafka-python's."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._bootstrap = [_address(server) for server in settings["bootstrap_servers"]]
        self._by_node: dict[int, KeptConnection] = {}
        self._addresses: dict[int, Address] = {}
        self._present: list[int] = []
        self._for_metadata: dict[Address, KeptConnection] = {}
        self._last_answered: Address | None = None

    @property
    def node_ids(self) -> list[int]:
        """The brokers of the newest metadata, sorted."""
        return self._present

    def address(self, node_id: int) -> Address:
        """A broker's (host, port); while it is away, where it was. Raises UpstreamUnavailableError."""
        try:
            return self._addresses[node_id]
        except KeyError:
            raise UpstreamUnavailableError(f"there is no upstream broker {node_id}") from None

    def to(self, node_id: int) -> KeptConnection:
        """The connection to a broker. Raises UpstreamUnavailableError."""
        self.address(node_id)
        return self._by_node[node_id]

    def learn(self, metadata: MetadataResponse) -> None:
        """Take in where the brokers are.

        A broker that is absent keeps its connection: requests may be under way there, and it may come back.
        """
        addresses = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
        self._present = sorted(addresses)
        for node_id, address in addresses.items():
            if self._addresses.get(node_id) != address:
                old = self._by_node.pop(node_id, None)
                if old is not None:
                    old.close()
                self._by_node[node_id] = KeptConnection(*address, self._settings)
                self._addresses[node_id] = address

    async def metadata(self, names: Collection[str] | None = None) -> MetadataResponse:
        """About the named topics, or all; from any broker that answers. Raises UpstreamUnavailableError.

        First the one that did last is asked, and the bootstrap servers after all others.
        """
        problem: UpstreamUnavailableError | None = None
        present = [self._addresses[node_id] for node_id in self._present]
        candidates = dict.fromkeys([*present, *self._bootstrap])
        for address in sorted(candidates, key=lambda candidate: candidate != self._last_answered):
            try:
                answer = await self._metadata_of(address, names)
            except UpstreamUnavailableError as error:
                problem = error
            else:
                self._answered(address)
                return answer
        assert problem is not None
        raise problem

    def close(self) -> None:
        """Close all connections."""
        for connection in (*self._by_node.values(), *self._for_metadata.values()):
            connection.close()

    async def _metadata_of(self, address: Address, names: Collection[str] | None) -> MetadataResponse:
        """On a connection for this alone: on the others its answer would wait behind a fetch that waits for records."""
        connection = self._for_metadata.get(address)
        if connection is None:
            connection = self._for_metadata[address] = KeptConnection(*address, self._settings)
        topic = MetadataRequest.MetadataRequestTopic
        topics = None if names is None else [topic(name=name, topic_id=NO_TOPIC_ID) for name in sorted(names)]
        asked = connection.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), MetadataResponse)
        try:
            answer = await asyncio.wait_for(asked, METADATA_TIMEOUT_S)
        except TimeoutError:
            self._for_metadata.pop(address).close()
            problem = f"broker {address[0]}:{address[1]} gave no metadata within {METADATA_TIMEOUT_S:g} s"
            raise UpstreamUnavailableError(problem) from None
        if not answer.brokers:
            raise UpstreamUnavailableError(f"broker {address[0]}:{address[1]} does not know the cluster yet")
        return answer

    def _answered(self, address: Address) -> None:
        """It is asked first from now on; what was begun with others ends."""
        self._last_answered = address
        kept = {address: self._for_metadata.pop(address)}
        for connection in self._for_metadata.values():
            connection.close()
        self._for_metadata = kept


def _address(server: str) -> Address:
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)
