"""The share group in memory. Tests call its methods, and it responds to consumers as the only broker of a cluster."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest, MetadataResponse

from sharegroup.client.async_consumer import AsyncShareConsumer
from sharegroup.client.connector import UpstreamUnavailableError
from sharegroup.client.consumer import ShareConsumer
from sharegroup.client.errors import InvalidSettingError
from sharegroup.client.testing.group_members import GroupMembers, heartbeat_error
from sharegroup.client.testing.messages import (
    API_RANGES,
    AcknowledgeErrors,
    Fetched,
    Topic,
    acknowledge_response,
    fetch_response,
    find_coordinator_response,
    forgotten_of,
    metadata_response,
    partitions_of,
)
from sharegroup.client.testing.settable_clock import SettableClock, call_soon
from sharegroup.client.testing.stored_partition import Headers, StoredPartition, StoredRecord
from sharegroup.config import GroupConfig, ShareGroupConfig, check_group_overrides
from sharegroup.core.operators.share_partition.partition_configs import PartitionConfig
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.protocol.acknowledge_rules import check_renewing_fetch
from sharegroup.protocol.messages import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from sharegroup.protocol.rows.share_group_requests import TopicMetadata
from sharegroup.protocol.share_session import ContextKind, ShareSession, ShareSessionCache, TopicIdPartition
from sharegroup.protocol.topic_ids import derive_topic_id, topic_id_text
from sharegroup.types import is_topic_name

#: The maximum time that a fetch waits for records. It is short, because `close` of a consumer waits for its fetch.
_MAX_WAIT_MS = 10


class InMemoryShareGroup:
    """A share group and its topics in memory. Pass it to consumers as `connector`.

    The group delivers all records of a topic, including those that were produced before a consumer subscribed.

    Consumers may run on any threads and event loops. The methods of this class may be called on any thread.

    Args:
        group_id: the id of the group. Consumers of other groups receive the error GROUP_ID_NOT_FOUND.
        topics: {topic: number of partitions}. All other topics have one partition.
        configs: the group configs. Their names are Kafka's with underscores, such as `share_record_lock_duration_ms`.

    Raises:
        InvalidSettingError: a config is unknown or has an invalid value.
    """

    def __init__(self, group_id: str, topics: Mapping[str, int] | None = None, **configs: Any) -> None:
        config = _parse_configs(configs)
        self.group_id, self.clock = group_id, SettableClock()
        self._machine_config = PartitionConfig.from_group_config(config).machine
        self._members = GroupMembers(group_id, config, self._release_member)
        self._sessions = ShareSessionCache(config.max_size)
        self._topics: dict[str, list[StoredPartition]] = {}
        self._names: dict[UUID, str] = {}
        self._connections: dict[int, _Connection] = {}
        self._connection_ids = itertools.count()
        self._finishing: list[tuple[ShareConsumer | AsyncShareConsumer, set[str]]] = []
        self._lock = threading.RLock()
        for topic, partitions in (topics or {}).items():
            self._create_topic(topic, partitions)

    # -- tests ---------------------------------------------------------------------------------------------------------

    def produce(
        self, topic: str, value: bytes | None, key: bytes | None = None, headers: Headers = (), partition: int = 0
    ) -> int:
        """Append a record and return its offset. A topic that does not exist is created with one partition."""
        with self._lock:
            found = self._create_topic(topic)[partition]
            offset = found.append(key, value, headers, int(time.time() * 1000))
            self._notify()
        return offset

    def records(self, topic: str) -> list[StoredRecord]:
        """Return the records of a topic with their current state, sorted by partition and offset."""
        with self._lock:
            self._expire()
            return [record for partition in self._partitions(topic) for record in partition.records]

    def is_finished(self, *topics: str) -> bool:
        """Return whether all records of these topics are accepted, rejected or archived. Default: all topics."""
        with self._lock:
            self._expire()
            return all(partition.is_finished for partition in self._partitions(*topics))

    def advance(self, duration_ms: int) -> None:
        """Advance the clock of this group and its consumers. Locks, renewals, retries and poll timeouts use it."""
        with self._lock:
            self.clock.advance(duration_ms)
            self._expire()
            self._notify()

    def stop_when_finished(self, consumer: ShareConsumer | AsyncShareConsumer) -> None:
        """Call `consumer.stop()` as soon as all records of its topics are finished, so that `run` returns.

        If this method is called for only one consumer, the clock skips the delays of its handler (`Retry`, `Release`).
        With several consumers, these delays are not skipped.
        """
        with self._lock:
            self._finishing.append((consumer, consumer.subscription()))
            self.clock.skips_delays = len(self._finishing) == 1

    # -- Connector -----------------------------------------------------------------------------------------------------

    async def connect(self, host: str, port: int, settings: ClientSettings) -> _Connection:
        """Return a connection to this group, whatever the address. Only the client id of `settings` is used."""
        with self._lock:
            connection = _Connection(self, next(self._connection_ids), str(settings.get("client_id", "")))
            self._connections[connection.id] = connection
        return connection

    async def respond(self, connection: _Connection, request: Any) -> Any:
        """Process a request of a consumer and return the response."""
        if isinstance(request, ShareFetchRequest):
            return await self._fetch(connection, request)
        with self._lock:
            self._expire()
            match request:
                case MetadataRequest():
                    return self._metadata(request)
                case FindCoordinatorRequest():
                    return find_coordinator_response(request)
                case ShareGroupHeartbeatRequest():
                    return self._heartbeat(connection, request)
                case ShareAcknowledgeRequest():
                    return self._acknowledge(connection, request)
        raise AssertionError(f"unknown request {request}")

    def disconnect(self, connection: _Connection) -> None:
        """End the share sessions of a closed connection, and release the records of their members."""
        with self._lock:
            self._connections.pop(connection.id, None)
            for session in self._sessions.evict_connection(connection.id):
                self._release_member(session.key.member_id)

    # -- requests ------------------------------------------------------------------------------------------------------

    def _metadata(self, request: Any) -> MetadataResponse:
        names = [topic.name for topic in request.topics]
        return metadata_response(
            Topic(name, _topic_id(name), len(self._create_topic(name))) if is_topic_name(name) else Topic(name, None, 0)
            for name in names
        )

    def _heartbeat(self, connection: _Connection, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        if request.group_id != self.group_id:
            return heartbeat_error(ErrorCode.GROUP_ID_NOT_FOUND, f"the only group in this test is {self.group_id}")
        for name in request.subscribed_topic_names or ():
            if is_topic_name(name):
                self._create_topic(name)
        topics = {name: TopicMetadata(topic_id_text(_topic_id(name)), len(self._topics[name])) for name in self._topics}
        return self._members.heartbeat(request, connection.client_id, topics, self.clock.now_ms())

    async def _fetch(self, connection: _Connection, request: Any) -> ShareFetchResponse:
        try:
            with self._lock:
                session, errors, may_acquire = self._begin_fetch(connection, request)
        except RequestError as error:
            return fetch_response(self._lock_timeout_ms, error)
        fetched: dict[TopicIdPartition, Fetched] = {}
        end_ms = self.clock.now_ms() + min(request.max_wait_ms, _MAX_WAIT_MS)
        while may_acquire and connection.is_open:
            connection.changed.clear()
            now_ms = self.clock.now_ms()
            with self._lock:
                fetched = self._acquire(session, request)
            if fetched or now_ms >= end_ms:
                break
            await self.clock.wait(connection.changed, end_ms)
        if may_acquire:
            fetched |= {key: Fetched(b"", ()) for key in session.pop_unanswered(()) if key not in fetched}
        return fetch_response(self._lock_timeout_ms, None, errors, fetched)

    def _begin_fetch(self, connection: _Connection, request: Any) -> tuple[ShareSession, AcknowledgeErrors, bool]:
        """Open, continue or close the session of a fetch, and apply the acknowledgements in the request.

        Returns (session, results of the acknowledgements, whether records may be acquired).
        """
        self._expire()
        check_renewing_fetch(
            request.is_renew_ack, request.max_wait_ms, request.min_bytes, request.max_bytes, request.max_records
        )
        context = self._sessions.fetch_context(
            request.group_id,
            request.member_id,
            request.share_session_epoch,
            connection.id,
            [key for key, _ in partitions_of(request)],
            forgotten_of(request),
            any(batches for _, batches in partitions_of(request)),
        )
        if context.dropped is not None:
            self._release_member(context.dropped.key.member_id)
        errors = self._apply_acknowledgements(context.session, context.kind, request)
        return context.session, errors, context.kind is not ContextKind.FINAL and not request.is_renew_ack

    def _acquire(self, session: ShareSession, request: Any) -> dict[TopicIdPartition, Fetched]:
        self._expire()
        self._stop_finished()
        records, size, now_ms = request.max_records, request.max_bytes, self.clock.now_ms()
        fetched = {}
        for key in session.rotated_partitions(session.epoch):
            if records <= 0 or size <= 0:
                break
            partition = self._partition(key)
            acquired = partition.acquire(session.key.member_id, records, size, now_ms)
            if acquired:
                fetched[key] = Fetched(partition.read(acquired), acquired)
                records -= sum(last + 1 - first for first, last, _ in acquired)
                size -= len(fetched[key].records)
        return fetched

    def _acknowledge(self, connection: _Connection, request: Any) -> ShareAcknowledgeResponse:
        try:
            session, kind = self._sessions.acknowledge_context(
                request.group_id, request.member_id, request.share_session_epoch, connection.id
            )
        except RequestError as error:
            return acknowledge_response(self._lock_timeout_ms, error)
        errors = self._apply_acknowledgements(session, kind, request)
        return acknowledge_response(self._lock_timeout_ms, None, errors)

    def _apply_acknowledgements(self, session: ShareSession, kind: ContextKind, request: Any) -> AcknowledgeErrors:
        """Apply the acknowledgements of a request, and return their results.

        If the request ends the session, release the member's other records.
        """
        member_id, now_ms = session.key.member_id, self.clock.now_ms()
        errors = {
            key: self._partition(key).acknowledge(member_id, batches, request.is_renew_ack, now_ms)
            for key, batches in partitions_of(request)
            if batches
        }
        if kind is ContextKind.FINAL:
            self._release_member(member_id)
        self._notify()
        self._stop_finished()
        return errors

    @property
    def _lock_timeout_ms(self) -> int:
        return self._machine_config.record_lock_duration_ms

    # -- state ---------------------------------------------------------------------------------------------------------

    def _create_topic(self, name: str, partitions: int = 1) -> list[StoredPartition]:
        """Return the partitions of a topic. The topic is created if it does not exist."""
        if name not in self._topics:
            self._names[_topic_id(name)] = name
            self._topics[name] = [StoredPartition(name, index, self._machine_config) for index in range(partitions)]
        return self._topics[name]

    def _partition(self, key: TopicIdPartition) -> StoredPartition:
        return self._topics[self._names[key.topic_id]][key.partition]

    def _partitions(self, *topics: str) -> Iterator[StoredPartition]:
        """Yield the partitions of these topics, or of all topics if none is passed."""
        for topic in topics or self._topics:
            yield from self._topics.get(topic, ())

    def _release_member(self, member_id: str) -> None:
        for partition in self._partitions():
            partition.release_member(member_id)
        self._notify()

    def _expire(self) -> None:
        now_ms = self.clock.now_ms()
        for partition in self._partitions():
            partition.expire(now_ms)

    def _notify(self) -> None:
        """Wake all waiting fetches."""
        for connection in self._connections.values():
            call_soon(connection.loop, connection.changed.set)

    def _stop_finished(self) -> None:
        """Stop each consumer that was passed to `stop_when_finished` if all records of its topics are finished."""
        for consumer, topics in list(self._finishing):
            if self.is_finished(*topics):
                consumer.stop()
                self._finishing.remove((consumer, topics))


class _Connection:
    """A connection of a consumer to the group."""

    def __init__(self, group: InMemoryShareGroup, connection_id: int, client_id: str) -> None:
        self._group, self.id, self.client_id = group, connection_id, client_id
        self.is_open, self.api_ranges = True, API_RANGES
        self.loop, self.changed = asyncio.get_running_loop(), asyncio.Event()

    async def ask(self, request: ApiMessage, response: Any, version: int, timeout_s: float = 30.0) -> Any:
        """Let the group process a request, and return the response. Raises UpstreamUnavailableError after `close`."""
        await asyncio.sleep(0)
        if not self.is_open:
            raise UpstreamUnavailableError("the connection is closed")
        return await self._group.respond(self, request)

    def close(self) -> None:
        """Close the connection. The group ends its share sessions and releases the records of their members."""
        if self.is_open:
            self.is_open = False
            self._group.disconnect(self)


def _topic_id(name: str) -> UUID:
    return derive_topic_id(None, name)


def _parse_configs(configs: Mapping[str, Any]) -> GroupConfig:
    job = ShareGroupConfig()
    overrides, problems = check_group_overrides({name.replace("_", "."): value for name, value in configs.items()}, job)
    if problems:
        raise InvalidSettingError("; ".join(problems))
    return GroupConfig.from_overrides(job, overrides)
