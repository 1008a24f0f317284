"""The upstream cluster as the gateway knows it: brokers, topics with their ids and leaders, what the brokers offer."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from sharegroup.errors import ErrorCode
from sharegroup.gateway.upstream.connection import Features, UpstreamUnavailableError
from sharegroup.gateway.upstream.kept_connection import KeptConnection
from sharegroup.gateway.wire.headers import Response
from sharegroup.protocol.topic_ids import NO_TOPIC_ID, made_topic_id
from sharegroup.topics.client_settings import ClientSettings

logger = logging.getLogger(__name__)

#: Asked again at most this often, whatever clients ask for.
REFRESH_PAUSE_S = 0.2
#: How long a broker may take to be reached and to give its metadata, before the next one is asked. Requests of clients
#: wait for it: even after some brokers that hang there is to be time left for them.
METADATA_TIMEOUT_S = 5.0
#: So long a topic that was seen is taken to be there, and so long whoever must know it waits for the answer.
SEEN_FOR_S, LOOK_TIMEOUT_S = 1.0, 1.0
#: Ids of deleted topics that are remembered, so that a broker that does not know it yet does not bring them back.
MAX_DELETED = 10_000

Address = tuple[str, int]


class Leader(NamedTuple):
    """Who leads a topic partition; node -1: nobody now."""

    node_id: int
    epoch: int


class Topic(NamedTuple):
    """A topic; `leaders` by partition index. `has_made_id`: the brokers have no ids, and this one is ours."""

    name: str
    topic_id: uuid.UUID
    leaders: Mapping[int, Leader]
    has_made_id: bool = False


class UpstreamCluster:
    """Known by its bootstrap servers and kafka-python's `settings`. Methods raise UpstreamUnavailableError."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._bootstrap = [_address(server) for server in settings["bootstrap_servers"]]
        self._connections: dict[int, KeptConnection] = {}
        self._addresses: dict[int, Address] = {}
        self._present: list[int] = []
        self._metadata_connections: dict[Address, KeptConnection] = {}
        self._last_answered: Address | None = None
        self._topics: dict[str, Topic] = {}
        self._names: dict[uuid.UUID, str] = {}
        self._refreshed = float("-inf")
        self._refreshing = asyncio.Lock()
        self._watchers: list[Callable[[uuid.UUID, int], None]] = []
        self._deleted: OrderedDict[uuid.UUID, None] = OrderedDict()
        #: {topic: when it was asked for last}, by the loop's clock; what was asked before `_doubted_until` is void.
        self._seen: dict[str, float] = {}
        self._doubted_until = float("-inf")
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._next_look: asyncio.Task[None] | None = None
        self._next_names: set[str] = set()
        self.cluster_id: str | None = None

    # -- what is known ---------------------------------------------------------------------------------------------

    @property
    def node_ids(self) -> list[int]:
        """The brokers of the newest metadata, sorted."""
        return self._present

    def address(self, node_id: int) -> Address:
        """A broker's (host, port); while it is away, where it was."""
        try:
            return self._addresses[node_id]
        except KeyError:
            raise UpstreamUnavailableError(f"there is no upstream broker {node_id}") from None

    def topic(self, name: str) -> Topic | None:
        """A topic by its name, None if it is not known."""
        return self._topics.get(name)

    def topic_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        """A topic by its id."""
        name = self._names.get(topic_id)
        return None if name is None else self._topics.get(name)

    def leader(self, topic_id: uuid.UUID, partition: int) -> Leader | None:
        """Who leads a topic partition, None if that is not known."""
        topic = self.topic_by_id(topic_id)
        return None if topic is None else topic.leaders.get(partition)

    def topic_id(self, name: str, from_broker: uuid.UUID | None) -> uuid.UUID:
        """The broker's id, or the one that is made from the name."""
        if from_broker is not None and from_broker != NO_TOPIC_ID:
            return from_broker
        return made_topic_id(self.cluster_id, name)

    def watch(self, changed: Callable[[uuid.UUID, int], None]) -> None:
        """Have `changed` told of each topic partition (id, index) whose log may not be what it was.

        It has another leader or leader epoch, so that its end may have been truncated, or it is gone.
        """
        self._watchers.append(changed)

    # -- asking ----------------------------------------------------------------------------------------------------

    async def ask(
        self,
        node_id: int,
        request: ApiMessage,
        response: type[Response],
        max_version: int | None = None,
        timeout_s: float = 30.0,
    ) -> Response:
        """A request to one broker, in the newest version that both know."""
        return await self._connection(node_id).ask(request, response, max_version, timeout_s)

    async def features(self, node_id: int) -> Features:
        """What a broker offers."""
        return await self._connection(node_id).features()

    async def refresh(self) -> None:
        """Ask for all metadata, unless that was just done."""
        loop = asyncio.get_running_loop()
        asked = loop.time()
        async with self._refreshing:
            if self._refreshed > asked:
                return  # while we waited for the lock
            pause = self._refreshed + REFRESH_PAUSE_S - asked
            if pause > 0:
                await asyncio.sleep(pause)
            sent = loop.time()
            self.learn(await self._metadata())
            self._refreshed = loop.time()
            self._seen = dict.fromkeys(self._topics, sent)

    async def try_refresh(self) -> bool:
        """The same where it may fail: what was known stays, and False is returned."""
        try:
            await self.refresh()
        except UpstreamUnavailableError as error:
            logger.warning("the upstream cluster's metadata cannot be read: %s", error)
            return False
        return True

    async def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Those of the named topics that exist; asks when one is not known yet."""
        wanted = set(names)
        if not wanted <= self._topics.keys():
            await self.refresh()
        return {name: self._topics[name] for name in wanted if name in self._topics}

    async def newest_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Those of the named topics that exist now: what was seen more than a second ago is looked at again."""
        wanted = set(names)
        await asyncio.gather(*(self._look_at(name) for name in wanted if name in self._topics))
        return await self.topics(wanted)

    async def exists(self, topic_id: uuid.UUID) -> bool:
        """Whether the topic is there: it was seen within the last second, or is looked at now.

        Where no broker says within a second, it is as it was.
        """
        topic = self.topic_by_id(topic_id)
        if topic is not None:
            await self._look_at(topic.name)
        return self.topic_by_id(topic_id) is not None

    def doubt(self) -> None:
        """Topics are being deleted: within the next second nothing that was seen is believed again."""
        self._doubted_until = asyncio.get_running_loop().time() + SEEN_FOR_S
        self._looks.clear()

    def deleted(self, topic_id: uuid.UUID) -> None:
        """The job says that the topic is no more, whatever brokers say; one of its name has another id."""
        topic = self.topic_by_id(topic_id)
        self._deleted[topic_id] = None
        if len(self._deleted) > MAX_DELETED:
            self._deleted.popitem(last=False)
        if topic is not None:
            self._replace({topic.name: topic}, {})

    async def _look_at(self, name: str) -> None:
        asked = self._seen.get(name, float("-inf"))
        if asked >= self._doubted_until and asyncio.get_running_loop().time() - asked < SEEN_FOR_S:
            return
        look = self._looks.get(name)
        if look is None:
            if self._next_look is None:
                self._next_look = asyncio.ensure_future(self._look())
            self._next_names.add(name)
            look = self._looks[name] = self._next_look
        await asyncio.shield(look)

    async def _look(self) -> None:
        """Ask for the topics that are to be looked at, all in one request."""
        await asyncio.sleep(0)  # for those that are named in the same moment
        names, self._next_names, self._next_look = self._next_names, set(), None
        asked = asyncio.get_running_loop().time()
        try:
            self._learn_of(names, await asyncio.wait_for(self._metadata(names), LOOK_TIMEOUT_S))
        except (TimeoutError, UpstreamUnavailableError) as error:
            logger.warning("%d topics cannot be looked at: %s", len(names), error or "no answer")
        finally:
            self._seen |= dict.fromkeys(names, asked)
            for name in names:
                if self._looks.get(name) is asyncio.current_task():
                    del self._looks[name]

    def learn(self, metadata: MetadataResponse) -> None:
        """Take in a Metadata response about all topics."""
        self.cluster_id = metadata.cluster_id or self.cluster_id
        self._learn_addresses({broker.node_id: (broker.host, broker.port) for broker in metadata.brokers})
        self._replace(self._topics, self._topics_of(metadata))

    def _learn_of(self, names: Collection[str], metadata: MetadataResponse) -> None:
        """Take in a Metadata response about these topics. One that has other troubles than being unknown is left."""
        found = self._topics_of(metadata)
        absent = {t.name for t in metadata.topics if t.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        before = {name: self._topics[name] for name in names if name in self._topics and name in found.keys() | absent}
        self._replace(before, {name: topic for name, topic in found.items() if name in names})

    def _topics_of(self, metadata: MetadataResponse) -> dict[str, Topic]:
        topics: dict[str, Topic] = {}
        for found in metadata.topics:
            if found.error_code or not found.name:
                continue
            topic_id = self.topic_id(found.name, found.topic_id)
            has_made_id = topic_id != found.topic_id
            # A made id comes again with the name, whether the gateway knew the topic when it was deleted or not.
            if topic_id in self._deleted and not has_made_id:
                continue
            leaders = {
                partition.partition_index: Leader(partition.leader_id, partition.leader_epoch)
                for partition in found.partitions
            }
            topics[found.name] = Topic(found.name, topic_id, leaders, has_made_id)
        return topics

    def _replace(self, before: Mapping[str, Topic], after: Mapping[str, Topic]) -> None:
        """Know `after` in place of `before`, and tell whoever watches."""
        self._topics = {name: topic for name, topic in self._topics.items() if name not in before} | dict(after)
        for topic in before.values():
            self._names.pop(topic.topic_id, None)
        self._names |= {topic.topic_id: name for name, topic in after.items()}
        for topic_id, partition in list(_changed_logs(before, after)):
            for changed in self._watchers:
                changed(topic_id, partition)

    def close(self) -> None:
        """Close all connections."""
        for connection in (*self._connections.values(), *self._metadata_connections.values()):
            connection.close()

    def _learn_addresses(self, addresses: dict[int, Address]) -> None:
        """A broker that is absent keeps its connection: requests may be under way there, and it may come back."""
        self._present = sorted(addresses)
        for node_id, address in addresses.items():
            if self._addresses.get(node_id) != address:
                old = self._connections.pop(node_id, None)
                if old is not None:
                    old.close()
                self._connections[node_id] = KeptConnection(*address, self._settings)
                self._addresses[node_id] = address

    def _connection(self, node_id: int) -> KeptConnection:
        self.address(node_id)
        return self._connections[node_id]

    async def _metadata(self, names: Collection[str] | None = None) -> MetadataResponse:
        """About the named topics, or all; from any broker that answers.

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

    async def _metadata_of(self, address: Address, names: Collection[str] | None) -> MetadataResponse:
        """On a connection for this alone: on the others its answer would wait behind a fetch that waits for records."""
        connection = self._metadata_connections.get(address)
        if connection is None:
            connection = self._metadata_connections[address] = KeptConnection(*address, self._settings)
        topic = MetadataRequest.MetadataRequestTopic
        topics = None if names is None else [topic(name=name, topic_id=NO_TOPIC_ID) for name in sorted(names)]
        asked = connection.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), MetadataResponse)
        try:
            answer = await asyncio.wait_for(asked, METADATA_TIMEOUT_S)
        except TimeoutError:
            self._metadata_connections.pop(address).close()
            problem = f"broker {address[0]}:{address[1]} gave no metadata within {METADATA_TIMEOUT_S:g} s"
            raise UpstreamUnavailableError(problem) from None
        if not answer.brokers:
            raise UpstreamUnavailableError(f"broker {address[0]}:{address[1]} does not know the cluster yet")
        return answer

    def _answered(self, address: Address) -> None:
        """It is asked first from now on; what was begun with others ends."""
        self._last_answered = address
        kept = {address: self._metadata_connections.pop(address)}
        for connection in self._metadata_connections.values():
            connection.close()
        self._metadata_connections = kept


def _changed_logs(before: Mapping[str, Topic], after: Mapping[str, Topic]) -> Iterator[tuple[uuid.UUID, int]]:
    for name, topic in before.items():
        now = after.get(name)
        is_same = now is not None and now.topic_id == topic.topic_id
        for partition, leader in topic.leaders.items():
            if not is_same or now is None or now.leaders.get(partition) != leader:
                yield topic.topic_id, partition


def _address(server: str) -> Address:
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)
