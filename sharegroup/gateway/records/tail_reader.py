"""Reads the ends of logs continuously, and adds new record batches to the cache from which members are served.

The gateway has a separate connection and fetch session to each broker for this. Therefore new records never wait behind
long reads for other members. A broker that fails or does not respond delays only its own partitions. If the leader of a
partition changes, the partition is read from the new leader at the same offset.

A read begins at least `PACE_S` after the previous one. Otherwise, at a high rate, each record would arrive in a
response of its own, and the cost of these responses would delay all records.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from kafka.protocol.consumer import FetchRequest, FetchResponse

from sharegroup.errors import ErrorCode
from sharegroup.gateway.records.batch_cache import BatchCache, CacheKey
from sharegroup.gateway.records.fetch_session import FetchSession, FetchStep
from sharegroup.gateway.records.log_reader import (
    IDS_FETCH_VERSION,
    READ_BYTES,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    LogPosition,
    chunk_from,
    fetch_partition,
)
from sharegroup.gateway.records.record_batches import CorruptRecordBatch
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.kafka_clients.connections.connection import UpstreamUnavailableError
from sharegroup.kafka_clients.connections.reconnecting_connection import ReconnectingConnection
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

_Fetched = FetchResponse.FetchableTopicResponse.PartitionData

#: How long a broker waits for new records, in ms. A partition that is added meanwhile is read after at most this time.
MAX_WAIT_MS = 200
#: The minimum time from one read of a broker to the next, and the pause after a failure, in seconds.
PACE_S, RETRY_S = 0.005, 0.25
#: Timeout of a read in seconds. A partition is reported as lost when its reads have failed for `LOST_AFTER_S`.
TIMEOUT_S, LOST_AFTER_S = 3.0, 5.0


class Connections(Protocol):
    """Returns connections to brokers. Only the tail reader uses these connections. Implemented by `NodeConnections`."""

    def get(self, node_id: int) -> ReconnectingConnection:
        """Return the connection to a broker. Raises UpstreamUnavailableError if the broker is unknown."""


class TailReader:
    """Reads partitions into the cache continuously, each from a given offset until it is removed.

    Must be used on the event loop. `on_read` is called with a partition and the offset up to which it has been read.
    `on_lost` is called with a partition that is no longer read, because the offset to read does not exist or its reads
    have failed for too long.
    """

    def __init__(
        self,
        cluster: UpstreamCluster,
        connections: Connections,
        cache: BatchCache,
        on_read: Callable[[CacheKey, int], None],
        on_lost: Callable[[CacheKey], None],
    ) -> None:
        self._cluster, self._connections, self._cache = cluster, connections, cache
        self._on_read, self._on_lost = on_read, on_lost
        self._positions: dict[CacheKey, LogPosition] = {}
        self._brokers: dict[tuple[int, bool], _BrokerTails] = {}
        self._retries: set[asyncio.Task[None]] = set()
        #: {partition: time of the first failure since its last successful read, in seconds of the event loop's clock}
        self._failed_s: dict[CacheKey, float] = {}
        cluster.on_log_change(self._on_log_change)

    def follow(self, position: LogPosition, offset: int) -> None:
        """Start to read a partition from `offset`. The offset must exist or be the end of the log.

        Does nothing if the partition is already being read.
        """
        if position.key not in self._positions:
            self._positions[position.key] = position
            self._add(position, offset)

    def offset(self, key: CacheKey) -> int | None:
        """Return the offset up to which a partition has been read; None if the partition is not read."""
        found = (broker.session.offset(key) for broker in self._brokers.values())
        return next((offset for offset in found if offset is not None), None)

    def remove(self, key: CacheKey) -> None:
        """Stop reading a partition."""
        self._failed_s.pop(key, None)
        if self._positions.pop(key, None) is not None:
            for broker in self._brokers.values():
                broker.session.remove(key)

    def close(self) -> None:
        """Stop reading all partitions."""
        self._positions.clear()
        for broker in self._brokers.values():
            broker.close()
        for retry in self._retries:
            retry.cancel()

    def _add(self, position: LogPosition, offset: int) -> None:
        leader = self._cluster.leader(position.topic.topic_id, position.partition)
        if leader is None or leader.node_id < 0:
            self._retry_later(position, offset)
            return
        place = leader.node_id, position.read_committed
        broker = self._brokers.get(place)
        if broker is None:
            broker = self._brokers[place] = _BrokerTails(self, *place)
        broker.session.set_offset(position.key, offset)
        broker.start()

    def _retry_later(self, position: LogPosition, offset: int) -> None:
        """Read the partition again after a pause. Metadata is refreshed before, because the leader may have changed.

        If the reads of the partition have failed for too long, the partition is removed and reported as lost instead.
        """
        if self._is_lost(position.key, asyncio.get_running_loop().time()):
            return
        task = asyncio.ensure_future(self._retry(position, offset))
        self._retries.add(task)
        task.add_done_callback(self._retries.discard)

    async def _retry(self, position: LogPosition, offset: int) -> None:
        await asyncio.sleep(RETRY_S)
        await self._cluster.try_refresh()
        is_read = any(broker.session.offset(position.key) is not None for broker in self._brokers.values())
        if self._positions.get(position.key) == position and not is_read:
            self._add(position, offset)

    def _is_lost(self, key: CacheKey, failed_s: float) -> bool:
        """Record that a read of a partition failed at `failed_s`. Return whether its reads have failed for too long.

        If they have failed for `LOST_AFTER_S`, the partition is removed and reported as lost.
        """
        if failed_s - self._failed_s.setdefault(key, failed_s) < LOST_AFTER_S:
            return False
        self.remove(key)
        self._on_lost(key)
        return True

    def on_failure(self, session: FetchSession, started_s: float) -> None:
        """Handle the failure of a read that started at `started_s`. The next read begins a new fetch session.

        Partitions whose reads have failed for too long are removed and reported as lost.
        """
        session.reset()
        for key in session.partitions():
            self._is_lost(key, started_s)

    def _on_log_change(self, topic_id: UUID, partition: int) -> None:
        """Read a partition from its new leader at the same offset."""
        for read_committed in (False, True):
            key = CacheKey(topic_id, partition, read_committed)
            position = self._positions.get(key)
            if position is None:
                continue
            offsets = [
                offset for broker in self._brokers.values() if (offset := broker.session.offset(key)) is not None
            ]
            for broker in self._brokers.values():
                broker.session.remove(key)
            if offsets:
                self._add(position, offsets[0])

    # -- one broker ----------------------------------------------------------------------------------------------------

    async def read(self, node_id: int, read_committed: bool, session: FetchSession) -> None:
        """Send the next request of a fetch session and handle the response.

        Raises UpstreamUnavailableError if the broker does not respond, or rejects a request that begins a session. If
        it rejects another request, for example because it has evicted the session, no error is raised, and the next
        request begins a new session.
        """
        step = session.next_step()
        failing = [key for key in self._failed_s if session.offset(key) is not None]
        request = self._request(step, read_committed)
        connection = self._connections.get(node_id)
        response = await connection.ask(request, FetchResponse, IDS_FETCH_VERSION, TIMEOUT_S)
        if response.error_code:
            if step.epoch == 0:
                raise UpstreamUnavailableError(f"the broker rejects fetch requests with error {response.error_code}")
            session.reset()
            return
        session.on_response(response.session_id)
        ids = {position.topic.name: position.topic.topic_id for position in self._positions.values()}
        for topic in response.responses:
            topic_id = ids.get(topic.topic) if topic.topic else topic.topic_id
            if topic_id is not None:
                for found in topic.partitions:
                    key = CacheKey(topic_id, found.partition_index, read_committed)
                    # Otherwise the partition was removed during the read, and perhaps added at another offset. A chunk
                    # that was read from one offset and stored for another would hide records.
                    if session.offset(key) == step.all_offsets.get(key):
                        self._apply(session, key, found)
        for key in failing:
            if session.offset(key) is not None:  # otherwise its read has failed again
                self._failed_s.pop(key, None)

    def _request(self, step: FetchStep, read_committed: bool) -> FetchRequest:
        topic = FetchRequest.FetchTopic
        partitions: dict[UUID, list[FetchRequest.FetchTopic.FetchPartition]] = {}
        for key, offset in step.offsets.items():
            partitions.setdefault(key.topic_id, []).append(fetch_partition(key.partition, offset))
        forgotten: dict[UUID, list[int]] = {}
        for key in step.forgotten:
            forgotten.setdefault(key.topic_id, []).append(key.partition)
        return FetchRequest(
            replica_id=-1,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=READ_BYTES,
            isolation_level=READ_COMMITTED if read_committed else READ_UNCOMMITTED,
            session_id=step.session_id,
            session_epoch=step.epoch,
            topics=[
                topic(topic=self._name(topic_id), topic_id=topic_id, partitions=found)
                for topic_id, found in partitions.items()
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(topic=self._name(topic_id), topic_id=topic_id, partitions=found)
                for topic_id, found in forgotten.items()
            ],
            rack_id="",
        )

    def _name(self, topic_id: UUID) -> str:
        """Return the name of a topic; empty if unknown. Brokers without topic ids in Fetch require the name."""
        topic = self._cluster.topic_by_id(topic_id)
        return "" if topic is None else topic.name

    def _apply(self, session: FetchSession, key: CacheKey, found: _Fetched) -> None:
        position, offset = self._positions.get(key), session.offset(key)
        if position is None or offset is None:  # it was removed during the read
            return
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.remove(key)
            self._on_lost(key)
        elif found.error_code:  # the broker does not lead the partition or does not know it
            session.remove(key)
            self._retry_later(position, offset)
        else:
            try:
                chunk = chunk_from(found, offset, key.read_committed)
            except CorruptRecordBatch as error:
                logger.warning(
                    "%(topic)s-%(partition)d: failed to read the end of the log: %(error)s",
                    LogFields(topic=position.topic.name, partition=position.partition, error=error),
                )
                self.remove(key)
                self._on_lost(key)
                return
            if chunk is not None:
                self._cache.insert(key, chunk)
                session.set_offset(key, chunk.last_offset + 1)
                self._on_read(key, chunk.last_offset + 1)


class _BrokerTails:
    """Reads partitions that one broker leads, with one isolation level, until no partition is left to read."""

    def __init__(self, reader: TailReader, node_id: int, read_committed: bool) -> None:
        self._reader, self._node_id, self._read_committed = reader, node_id, read_committed
        self.session = FetchSession()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self.session:
                started_s = loop.time()
                try:
                    await self._reader.read(self._node_id, self._read_committed, self.session)
                    pause_s = started_s + PACE_S - loop.time()
                except UpstreamUnavailableError as error:
                    logger.info(
                        "failed to read the ends of logs from broker %(broker)d; retrying: %(error)s",
                        LogFields(broker=self._node_id, error=error),
                    )
                    self._reader.on_failure(self.session, started_s)
                    pause_s = RETRY_S
                await asyncio.sleep(max(0.0, pause_s))
        finally:
            self._task = None
            self.session.reset()
