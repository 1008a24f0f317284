"""The upstream cluster: the newest metadata that the gateway has read, and requests to the brokers."""

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
from sharegroup.kafka_clients.outage_log import OutageLog, OutageLogs

__all__ = ["Leader", "Topic", "UpstreamCluster"]

logger = logging.getLogger(__name__)

#: Minimum pause between two requests for all metadata, regardless of the number of clients that need it.
REFRESH_PAUSE_S = 0.2
#: How long a topic is assumed to exist after a check, and the timeout of a request that checks topics.
SEEN_FOR_S, CHECK_TIMEOUT_S = 1.0, 1.0
#: How long a topic that the job has reported as deleted is ignored in metadata, in seconds. After that, the topic
#: counts again if brokers return it, because outdated metadata may have misled the job. The group coordinator does the
#: same.
DELETED_FOR_S = 600.0
#: If a partition's leader has not responded for this long, the metadata is refreshed.
SLOW_RESPONSE_S = 2.0

T = TypeVar("T")


class UpstreamCluster:
    """The Kafka cluster at the bootstrap servers in kafka-python's `settings`.

    Methods that send a request to one broker raise UpstreamUnavailableError if this broker does not respond. `refresh`,
    `topics` and `newest_topics` raise it if no broker responds.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._connections = BrokerConnections(settings)
        self._all_metadata = AllMetadata(self._connections)
        self._known = KnownTopics()
        #: Undecoded metadata for responses to clients.
        self.snapshots = MetadataSnapshots(self._all_metadata.fetch_bytes)
        self._refreshed = float("-inf")
        #: Whether the last request for all metadata succeeded.
        self.is_reachable = False
        self._refreshing = asyncio.Lock()
        #: {topic: time of the last check that it exists}, in seconds of the event loop's clock. Checks before
        #: `_doubted_until` do not count, because topics were being changed.
        self._seen: dict[str, float] = {}
        self._doubted_until = float("-inf")
        self._checks: dict[str, asyncio.Task[None]] = {}
        self._next_check: asyncio.Task[None] | None = None
        self._next_names: set[str] = set()
        self._outage = OutageLog(logger, "failed to read the brokers' metadata", "the metadata can be read again")
        #: Logs outages of requests for log end offsets, by broker.
        self.log_end_outages = OutageLogs(
            logger,
            "failed to list log end offsets of broker %(broker)d",
            "log end offsets of broker %(broker)d can be listed again",
        )
        self._check_outage = OutageLog(logger, "failed to look up topics", "topics can be looked up again")

    # -- known state -----------------------------------------------------------------------------------------------

    @property
    def node_ids(self) -> list[int]:
        """The ids of the brokers in the newest metadata, sorted."""
        return self._connections.node_ids

    def address(self, node_id: int) -> Address:
        """Return (host, port) of a broker, from the newest metadata that contains the broker.

        Raises UpstreamUnavailableError if no metadata so far contained the broker.
        """
        return self._connections.address(node_id)

    def topic(self, name: str) -> Topic | None:
        return self._known.by_name.get(name)

    def topic_names(self) -> list[str]:
        return list(self._known.by_name)

    def topic_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        return self._known.by_id(topic_id)

    def leader(self, topic_id: uuid.UUID, partition: int) -> Leader | None:
        topic = self.topic_by_id(topic_id)
        return None if topic is None else topic.leaders.get(partition)

    def topic_id(self, name: str, from_broker: uuid.UUID | None) -> uuid.UUID:
        """Return the id of topic `name`. `from_broker` is the id in a broker's response.

        If the broker does not support topic ids, `from_broker` is None or zero. The result is then an id that is
        computed from the name.
        """
        return self._known.get_id(name, from_broker)

    def on_log_change(self, changed: Callable[[uuid.UUID, int], None]) -> None:
        """Register `changed`, which is called with (topic id, partition index) if the partition's log may have changed.

        It is called if the partition has another leader or leader epoch than before, because its log may have been
        truncated. It is also called if the partition was deleted.
        """
        self._known.on_log_change(changed)

    # -- requests --------------------------------------------------------------------------------------------------

    async def ask(
        self,
        node_id: int,
        request: ApiMessage,
        response: type[Response],
        max_version: int | None = None,
        timeout_s: float = 30.0,
    ) -> Response:
        """Send a request to one broker and return its response, an instance of `response`.

        The version is the newest that both sides support, but at most `max_version`.
        """
        return await self._connections.connection_to(node_id).ask(request, response, max_version, timeout_s)

    async def while_leading(self, leader: Callable[[], Leader | None], asked: Coroutine[Any, Any, T]) -> T:
        """Run `asked`, a request to the leader of a partition, and return its result.

        `leader` returns this leader from the newest metadata. While there is no response, the metadata is refreshed
        every `SLOW_RESPONSE_S` seconds. Raises UpstreamUnavailableError if the request fails, or if the leader or the
        leader epoch changes meanwhile.
        """
        task = quiet_task(asked)
        try:
            begun_with = leader()
            while not (await asyncio.wait([task], timeout=SLOW_RESPONSE_S))[0]:
                await self.try_refresh()
                if begun_with is not None and leader() != begun_with:
                    raise UpstreamUnavailableError(
                        f"broker {begun_with.node_id} does not respond and no longer leads the partition"
                    )
            return task.result()
        finally:
            task.cancel()

    async def features(self, node_id: int) -> Features:
        """Return the APIs that a broker supports, with their versions."""
        return await self._connections.connection_to(node_id).features()

    async def refresh(self) -> None:
        """Request the metadata of all topics and store it.

        Concurrent calls wait for each other. If another call has stored metadata meanwhile, no request is sent.
        """
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
                self.apply_metadata(await self._metadata())
            except UpstreamUnavailableError:
                self.is_reachable = False
                raise
            self.is_reachable = True
            self._refreshed = loop.time()
            self._seen = dict.fromkeys(self._known.by_name, sent)

    async def try_refresh(self) -> bool:
        """Refresh the metadata, and return whether this succeeded. A failure is logged, and changes no metadata."""
        try:
            await self.refresh()
        except UpstreamUnavailableError as error:
            self._outage.report_failure(error)
            return False
        self._outage.report_success()
        return True

    async def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Return {name: topic} of the existing topics in `names`. If a name is unknown, refresh the metadata first."""
        wanted = set(names)
        if not wanted <= self._known.by_name.keys():
            await self.refresh()
        known = self._known.by_name
        return {name: known[name] for name in wanted if name in known}

    async def newest_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Return {name: topic} of the topics in `names` that exist now.

        A topic is checked again if its last check was more than a second ago. If no broker responds to the check within
        a second, the last known state of the topic is used.
        """
        wanted = set(names)
        await asyncio.gather(*(self._check(name) for name in wanted if name in self._known.by_name))
        return await self.topics(wanted)

    async def exists(self, topic_id: uuid.UUID) -> bool:
        """Return whether a topic exists now.

        The topic is checked again if its last check was more than a second ago. If no broker responds to the check
        within a second, the last known state of the topic is used.
        """
        topic = self.topic_by_id(topic_id)
        if topic is not None:
            await self._check(topic.name)
        return self.topic_by_id(topic_id) is not None

    def expire_seen_topics(self) -> None:
        """Discard the results of earlier checks of topics, and those of the next second.

        Called when topics are being changed. During this second, `exists` and `newest_topics` check a topic at each
        call.
        """
        self._doubted_until = asyncio.get_running_loop().time() + SEEN_FOR_S
        self._checks.clear()

    def mark_deleted(self, topic_id: uuid.UUID) -> None:
        """Mark a topic as deleted, because the job has reported its deletion.

        If brokers still return the topic, it is ignored for `DELETED_FOR_S` seconds. A new topic of the same name has
        another id, so it is not affected.
        """
        if self._known.mark_deleted(topic_id):
            asyncio.get_running_loop().call_later(DELETED_FOR_S, self._known.discard_deleted, topic_id)

    def apply_metadata(self, metadata: MetadataResponse) -> None:
        """Store the metadata of a response that contains all topics."""
        self._connections.update_brokers(metadata)
        self._known.apply_metadata(metadata)

    def close(self) -> None:
        self._connections.close()

    async def _check(self, name: str) -> None:
        asked = self._seen.get(name, float("-inf"))
        if asked >= self._doubted_until and asyncio.get_running_loop().time() - asked < SEEN_FOR_S:
            return
        check = self._checks.get(name)
        if check is None:
            if self._next_check is None:
                self._next_check = asyncio.ensure_future(self._run_check())
            self._next_names.add(name)
            check = self._checks[name] = self._next_check
        await asyncio.shield(check)

    async def _run_check(self) -> None:
        """Check with one request whether the topics in `_next_names` exist, and store their metadata."""
        await asyncio.sleep(0)  # to include topics of the same loop iteration
        names, self._next_names, self._next_check = self._next_names, set(), None
        asked, this_check = asyncio.get_running_loop().time(), asyncio.current_task()
        try:
            self._known.apply_metadata_of(names, await asyncio.wait_for(self._metadata(names), CHECK_TIMEOUT_S))
        except (TimeoutError, UpstreamUnavailableError) as error:
            self._check_outage.report_failure(error or "no response")
        else:
            self._check_outage.report_success()
        finally:
            self._seen |= dict.fromkeys(names, asked)
            for name in names:
                if self._checks.get(name) is this_check:
                    del self._checks[name]

    async def _metadata(self, names: Collection[str] | None = None) -> MetadataResponse:
        if names is None:
            return await self._all_metadata.fetch_decoded()
        return await self._connections.fetch_metadata(names)
