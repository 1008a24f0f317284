"""The upstream cluster as the gateway knows it, and when it asks anew: how old what is known of a topic may be."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Any, TypeVar

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import MetadataResponse

from sharegroup.gateway.upstream.all_metadata import AllMetadata
from sharegroup.gateway.upstream.known_topics import KnownTopics, Leader, Topic
from sharegroup.gateway.upstream.metadata_snapshots import MetadataSnapshots
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.broker_connections import Address, BrokerConnections
from sharegroup.kafka_clients.connections.connection import Features, UpstreamUnavailableError
from sharegroup.kafka_clients.connections.headers import Response
from sharegroup.kafka_clients.connections.quiet_task import quiet_task
from sharegroup.kafka_clients.outage_log import OutageLog

__all__ = ["Leader", "Topic", "UpstreamCluster"]

logger = logging.getLogger(__name__)

#: Asked again at most this often, whatever clients ask for.
REFRESH_PAUSE_S = 0.2
#: So long a topic that was seen is taken to be there, and so long whoever must know it waits for the answer.
SEEN_FOR_S, LOOK_TIMEOUT_S = 1.0, 1.0
#: After this time without an answer of a partition's leader it is looked up who leads.
SLOW_ANSWER_S = 2.0

T = TypeVar("T")


class UpstreamCluster:
    """Known by its bootstrap servers and kafka-python's `settings`. Methods raise UpstreamUnavailableError."""

    def __init__(self, settings: ClientSettings) -> None:
        self._connections = BrokerConnections(settings)
        self._all_metadata = AllMetadata(self._connections)
        self._known = KnownTopics()
        #: What clients are shown of it.
        self.snapshots = MetadataSnapshots(self._all_metadata.as_bytes)
        self._refreshed = float("-inf")
        #: Whether the last look at all metadata was answered.
        self.is_reachable = False
        self._refreshing = asyncio.Lock()
        #: {topic: when it was asked for last}, by the loop's clock; what was asked before `_doubted_until` is void.
        self._seen: dict[str, float] = {}
        self._doubted_until = float("-inf")
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._next_look: asyncio.Task[None] | None = None
        self._next_names: set[str] = set()
        self._outage = OutageLog(logger, "the metadata of the brokers cannot be read", "the metadata is read again")
        self._look_outage = OutageLog(logger, "topics cannot be looked up", "topics are looked up again")

    # -- what is known ---------------------------------------------------------------------------------------------

    @property
    def node_ids(self) -> list[int]:
        """The brokers of the newest metadata, sorted."""
        return self._connections.node_ids

    def address(self, node_id: int) -> Address:
        """A broker's (host, port); while it is away, where it was."""
        return self._connections.address(node_id)

    def topic(self, name: str) -> Topic | None:
        """A topic by its name, None if it is not known."""
        return self._known.by_name.get(name)

    def topic_names(self) -> list[str]:
        """All topics that are known."""
        return list(self._known.by_name)

    def topic_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        """A topic by its id, None if it is not known."""
        return self._known.by_id(topic_id)

    def leader(self, topic_id: uuid.UUID, partition: int) -> Leader | None:
        """Who leads a topic partition, None if that is not known."""
        topic = self.topic_by_id(topic_id)
        return None if topic is None else topic.leaders.get(partition)

    def topic_id(self, name: str, from_broker: uuid.UUID | None) -> uuid.UUID:
        """The broker's id, or the one that is made from the name."""
        return self._known.id_of(name, from_broker)

    def watch(self, changed: Callable[[uuid.UUID, int], None]) -> None:
        """Have `changed` told of each topic partition (id, index) whose log may not be what it was.

        It has another leader or leader epoch, so that its end may have been truncated, or it is gone.
        """
        self._known.watch(changed)

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
        return await self._connections.to(node_id).ask(request, response, max_version, timeout_s)

    async def while_it_leads(self, leader: Callable[[], Leader | None], asked: Coroutine[Any, Any, T]) -> T:
        """The answer of a partition's leader to what it was `asked`; a silent one is left once another broker leads.

        `leader` returns the leader in the newest metadata. Raises UpstreamUnavailableError, also for one that was left.
        """
        task = quiet_task(asked)
        try:
            begun_with = leader()
            while not (await asyncio.wait([task], timeout=SLOW_ANSWER_S))[0]:
                await self.try_refresh()
                if begun_with is not None and leader() != begun_with:
                    raise UpstreamUnavailableError(f"broker {begun_with.node_id} does not answer and no longer leads")
            return task.result()
        finally:
            task.cancel()

    async def features(self, node_id: int) -> Features:
        """Which APIs a broker offers, in which versions."""
        return await self._connections.to(node_id).features()

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
            try:
                self.learn(await self._metadata())
            except UpstreamUnavailableError:
                self.is_reachable = False
                raise
            self.is_reachable = True
            self._refreshed = loop.time()
            self._seen = dict.fromkeys(self._known.by_name, sent)

    async def try_refresh(self) -> bool:
        """The same where it may fail: what was known stays, and False is returned."""
        try:
            await self.refresh()
        except UpstreamUnavailableError as error:
            self._outage.began(error)
            return False
        self._outage.ended()
        return True

    async def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Those of the named topics that exist; asks when one is not known yet."""
        wanted = set(names)
        if not wanted <= self._known.by_name.keys():
            await self.refresh()
        known = self._known.by_name
        return {name: known[name] for name in wanted if name in known}

    async def newest_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Those of the named topics that exist now: what was seen more than a second ago is looked at again."""
        wanted = set(names)
        await asyncio.gather(*(self._look_at(name) for name in wanted if name in self._known.by_name))
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
        self._known.deleted(topic_id)

    def learn(self, metadata: MetadataResponse) -> None:
        """Take in a Metadata response about all topics."""
        self._connections.learn(metadata)
        self._known.learn(metadata)

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

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
        asked, this_look = asyncio.get_running_loop().time(), asyncio.current_task()
        try:
            self._known.learn_of(names, await asyncio.wait_for(self._metadata(names), LOOK_TIMEOUT_S))
        except (TimeoutError, UpstreamUnavailableError) as error:
            self._look_outage.began(error or "no answer")
        else:
            self._look_outage.ended()
        finally:
            self._seen |= dict.fromkeys(names, asked)
            for name in names:
                if self._looks.get(name) is this_look:
                    del self._looks[name]

    async def _metadata(self, names: Collection[str] | None = None) -> MetadataResponse:
        if names is None:
            return await self._all_metadata.decoded()
        return await self._connections.metadata_of(names)
