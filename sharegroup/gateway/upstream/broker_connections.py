"""The connections to the upstream brokers: one to each, and one for metadata to whichever answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TypeVar

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from sharegroup.gateway.upstream.connection import UpstreamUnavailableError
from sharegroup.gateway.upstream.decoded_metadata import DecodedMetadata
from sharegroup.gateway.upstream.kept_connection import KeptConnection
from sharegroup.gateway.upstream.large_answers import read
from sharegroup.gateway.wire.metadata_bytes import MetadataBytes
from sharegroup.protocol.topic_ids import NO_TOPIC_ID
from sharegroup.topics.client_settings import ClientSettings

#: How long a broker may take to be reached and to give its metadata, before the next one is asked. Requests of clients
#: wait for it: even after some brokers that hang there is to be time left for them.
METADATA_TIMEOUT_S = 5.0

Address = tuple[str, int]
_Answer = TypeVar("_Answer")


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
        self._decoded = DecodedMetadata()

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
        if names is not None:
            return await self._from_any(partial(self._named_metadata, names))
        metadata = await self.metadata_bytes()
        return await read(len(metadata.body), partial(self._decoded.decode, metadata))

    async def metadata_bytes(self, max_version: int | None = None) -> MetadataBytes:
        """About all topics, not decoded; asked as `metadata` asks. Raises UpstreamUnavailableError."""
        return await self._from_any(partial(self._all_metadata, max_version))

    async def _from_any(self, ask: Callable[[KeptConnection], Awaitable[_Answer]]) -> _Answer:
        """What `ask` gets by the connections for metadata alone."""
        problem: UpstreamUnavailableError | None = None
        present = [self._addresses[node_id] for node_id in self._present]
        candidates = dict.fromkeys([*present, *self._bootstrap])
        for address in sorted(candidates, key=lambda candidate: candidate != self._last_answered):
            try:
                answer = await self._answer_of(address, ask)
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

    async def _answer_of(self, address: Address, ask: Callable[[KeptConnection], Awaitable[_Answer]]) -> _Answer:
        """On a connection for this alone: on the others its answer would wait behind a fetch that waits for records."""
        connection = self._for_metadata.get(address)
        if connection is None:
            connection = self._for_metadata[address] = KeptConnection(*address, self._settings)
        try:
            return await asyncio.wait_for(ask(connection), METADATA_TIMEOUT_S)
        except TimeoutError:
            if self._for_metadata.get(address) is connection:  # and not given up on by another who asked
                del self._for_metadata[address]
            connection.close()
            problem = f"broker {address[0]}:{address[1]} gave no metadata within {METADATA_TIMEOUT_S:g} s"
            raise UpstreamUnavailableError(problem) from None

    @staticmethod
    async def _named_metadata(names: Collection[str], connection: KeptConnection) -> MetadataResponse:
        topic = MetadataRequest.MetadataRequestTopic
        topics = [topic(name=name, topic_id=NO_TOPIC_ID) for name in sorted(names)]
        asked = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        answer = await connection.ask(asked, MetadataResponse)
        _check_knows_brokers(answer)
        return answer

    @staticmethod
    async def _all_metadata(max_version: int | None, connection: KeptConnection) -> MetadataBytes:
        asked = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        metadata = await connection.ask(asked, MetadataBytes, max_version)
        _check_knows_brokers(await read(0, lambda: metadata.without_topics))
        return metadata

    def _answered(self, address: Address) -> None:
        """It is asked first from now on; what was begun with others ends."""
        self._last_answered = address
        kept = {at: connection for at, connection in self._for_metadata.items() if at == address}
        self._for_metadata = {at: connection for at, connection in self._for_metadata.items() if at != address}
        for connection in self._for_metadata.values():
            connection.close()
        self._for_metadata = kept


def _check_knows_brokers(answer: MetadataResponse) -> None:
    if not answer.brokers:
        raise UpstreamUnavailableError("a broker does not know the cluster yet")


def _address(server: str) -> Address:
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)
