"""Connections to the brokers of a cluster: one to each broker, and a separate one for metadata."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TypeVar

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.kafka_clients.connections.quiet_task import quiet_task
from sharegroup.kafka_clients.connections.reconnecting_connection import ReconnectingConnection
from sharegroup.protocol.topic_ids import NO_TOPIC_ID

#: Timeout for connecting to one broker and receiving its metadata, in seconds. After this time, the next broker is
#: tried. The timeout is short because requests of clients wait for the metadata, and some brokers may hang.
METADATA_TIMEOUT_S = 5.0
#: If a broker has not sent its metadata after this time, in seconds, the next broker is queried as well.
NEXT_BROKER_S = 0.5

Address = tuple[str, int]
MetadataCheck = Callable[[MetadataResponse], None]
_Result = TypeVar("_Result")


class BrokerConnections:
    """Connections to the bootstrap servers and to the brokers that the newest metadata contains.

    `settings` are kafka-python's. `metadata_timeout_s` is the timeout of a Metadata request to one broker.
    """

    def __init__(self, settings: ClientSettings, metadata_timeout_s: float = METADATA_TIMEOUT_S) -> None:
        self._settings, self._metadata_timeout_s = settings, metadata_timeout_s
        self._bootstrap = [_address(server) for server in settings["bootstrap_servers"]]
        self._by_node: dict[int, ReconnectingConnection] = {}
        self._addresses: dict[int, Address] = {}
        self._present: list[int] = []
        self._for_metadata: dict[Address, ReconnectingConnection] = {}
        self._last_answered: Address | None = None

    @property
    def node_ids(self) -> list[int]:
        """The sorted ids of the brokers that the newest metadata contains."""
        return self._present

    def address(self, node_id: int) -> Address:
        """Return a broker's (host, port) from the newest metadata that contains the broker.

        Raises UpstreamUnavailableError if no metadata so far contained the broker.
        """
        try:
            return self._addresses[node_id]
        except KeyError:
            raise UpstreamUnavailableError(f"broker {node_id} is unknown, because no metadata contained it") from None

    def connection_to(self, node_id: int) -> ReconnectingConnection:
        """Return the connection to a broker. Raises UpstreamUnavailableError if no metadata contained the broker."""
        self.address(node_id)
        return self._by_node[node_id]

    def update_brokers(self, metadata: MetadataResponse) -> None:
        """Store the addresses of the brokers in `metadata`.

        If the address of a broker has changed, the connection to its old address is closed. The connection to a broker
        that is missing in `metadata` is kept. It may have pending requests, and the broker may come back.
        """
        addresses = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
        self._present = sorted(addresses)
        for node_id, address in addresses.items():
            if self._addresses.get(node_id) != address:
                old = self._by_node.pop(node_id, None)
                if old is not None:
                    old.close()
                self._by_node[node_id] = self._connection(address)
                self._addresses[node_id] = address

    async def fetch_metadata(self, names: Collection[str], check: MetadataCheck | None = None) -> MetadataResponse:
        """Return metadata of the named topics, from any broker that responds.

        The broker that sent the previous response is queried first, and the bootstrap servers last. `check` raises
        UpstreamUnavailableError to reject a response, so that the next broker is queried. If all brokers fail, this
        method raises UpstreamUnavailableError.
        """
        return await self.query_any(partial(self._named_metadata, names, check))

    async def query_any(self, ask: Callable[[ReconnectingConnection], Awaitable[_Result]]) -> _Result:
        """Call `ask` for one broker after another, and return the first result.

        The argument of `ask` is the broker's connection for metadata. A broker that has not responded within
        half a second may hang, so the next one is queried as well. If all brokers fail, the last
        UpstreamUnavailableError is raised.
        """
        problem: UpstreamUnavailableError | None = None
        present = [self._addresses[node_id] for node_id in self._present]
        candidates = dict.fromkeys([*present, *self._bootstrap])
        left = sorted(candidates, key=lambda candidate: candidate != self._last_answered)
        pending: dict[asyncio.Task[_Result], Address] = {}
        is_slow = False
        try:
            while left or pending:
                if left and (is_slow or not pending):
                    address = left.pop(0)
                    pending[quiet_task(self._query(address, ask))] = address
                timeout_s = NEXT_BROKER_S if left else None
                done, _ = await asyncio.wait(pending, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
                is_slow = not done
                for task in done:
                    address = pending.pop(task)
                    try:
                        result = task.result()
                    except UpstreamUnavailableError as error:
                        problem = error
                    else:
                        self._prefer(address)
                        return result
        finally:
            for task in pending:
                task.cancel()
        assert problem is not None
        raise problem

    def close(self) -> None:
        for connection in (*self._by_node.values(), *self._for_metadata.values()):
            connection.close()

    def _connection(self, address: Address) -> ReconnectingConnection:
        return ReconnectingConnection(*address, self._settings)

    async def _query(self, address: Address, ask: Callable[[ReconnectingConnection], Awaitable[_Result]]) -> _Result:
        """Call `ask` with the broker's connection for metadata, and return the result.

        The broker's other connection (`connection_to`) is not used, because there the response could wait behind a
        fetch. If `ask` takes longer than `metadata_timeout_s`, the connection is closed, and UpstreamUnavailableError
        is raised.
        """
        connection = self._for_metadata.get(address)
        if connection is None:
            connection = self._for_metadata[address] = self._connection(address)
        try:
            async with asyncio.timeout(self._metadata_timeout_s):
                return await ask(connection)
        except TimeoutError:
            if self._for_metadata.get(address) is connection:  # another request may have closed it already
                del self._for_metadata[address]
            connection.close()
            problem = f"broker {address[0]}:{address[1]} returned no metadata within {self._metadata_timeout_s:g} s"
            raise UpstreamUnavailableError(problem) from None

    @staticmethod
    async def _named_metadata(
        names: Collection[str], check: MetadataCheck | None, connection: ReconnectingConnection
    ) -> MetadataResponse:
        topic = MetadataRequest.MetadataRequestTopic
        topics = [topic(name=name, topic_id=NO_TOPIC_ID) for name in sorted(names)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = await connection.ask(request, MetadataResponse)
        check_has_brokers(response)
        if check is not None:
            check(response)
        return response

    def _prefer(self, address: Address) -> None:
        """Query this broker first from now on, and close the metadata connections to all other brokers."""
        self._last_answered = address
        kept = {at: connection for at, connection in self._for_metadata.items() if at == address}
        self._for_metadata = {at: connection for at, connection in self._for_metadata.items() if at != address}
        for connection in self._for_metadata.values():
            connection.close()
        self._for_metadata = kept


def check_has_brokers(response: MetadataResponse) -> None:
    """Raise UpstreamUnavailableError for a response without brokers, which a broker sends while it starts."""
    if not response.brokers:
        raise UpstreamUnavailableError("the broker has just started and has no metadata of the cluster yet")


def _address(server: str) -> Address:
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)
