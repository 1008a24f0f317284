"""The job's client for the start offsets, end offsets and leaders of logs, with one connection to each broker.

One Metadata request names all topics. One ListOffsets request to each leader names all of its partitions, and all
leaders are queried concurrently. A leader that does not respond affects only its own partitions, and a rejected
partition affects no others. Leaders are looked up again after errors such as NOT_LEADER_OR_FOLLOWER, after a lost
connection and after a timeout.

A broker that was paused or cut off may not know yet that other brokers now lead its partitions. It would return old end
offsets. So each request contains the leader epoch (KIP-320). Metadata with an older epoch than the newest known one is
rejected, and another broker is queried.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from kafka import TopicPartition
from kafka.protocol.consumer import ListOffsetsResponse, OffsetForLeaderEpochResponse
from kafka.protocol.metadata import MetadataResponse

from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.kafka_clients.connections.broker_connections import BrokerConnections
from sharegroup.kafka_clients.connections.list_offsets import (
    EARLIEST,
    LATEST,
    epoch_ends_request,
    list_offsets_request,
    read_epoch_ends,
    read_leader_epochs,
    read_offsets,
)
from sharegroup.kafka_clients.connections.silent_brokers import SilentBrokers
from sharegroup.kafka_clients.connections.unavailable import UpstreamUnavailableError
from sharegroup.protocol.topic_ids import NO_TOPIC_ID

__all__ = ["EARLIEST", "LATEST", "LogOffsetsClient"]

#: Timeouts of Metadata and ListOffsets requests to one broker, in seconds.
METADATA_TIMEOUT_S = 2.0
OFFSETS_TIMEOUT_S = 2.0
#: Timeout of a ListOffsets request with a timestamp, in seconds. It is longer because the leader may have to search old
#: segments.
SEARCH_TIMEOUT_S = 10.0

_Topic = MetadataResponse.MetadataResponseTopic
_Ask = Callable[[int, Mapping[TopicPartition, int]], Awaitable[dict[TopicPartition, int]]]


class _Leadership(NamedTuple):
    """The newest known leader epoch of a partition, with the id of its topic.

    A topic that is deleted and created again has a new id, and its epochs start at 0 again. Epochs are therefore only
    compared if the topic ids are equal.
    """

    topic_id: UUID
    epoch: int


class LogOffsetsClient:
    """Fetches log offsets and leaders on one event loop.

    `settings` are kafka-python's. If `brokers` is given, its connections are used instead of new ones.
    """

    def __init__(self, settings: ClientSettings, brokers: BrokerConnections | None = None) -> None:
        self._brokers = brokers or BrokerConnections(settings, METADATA_TIMEOUT_S)
        self._silent = SilentBrokers(self._brokers.connection_to)
        self._leaders: dict[TopicPartition, int] = {}
        self._newest: dict[TopicPartition, _Leadership] = {}
        self._epochs: dict[TopicPartition, int] = {}

    async def fetch_topics(self, names: Collection[str]) -> list[_Topic]:
        """Return the metadata of these topics, each with its own error code.

        Raises UpstreamUnavailableError if no broker responds with metadata, or if all metadata has outdated leaders.
        """
        metadata = await self._brokers.fetch_metadata(names, self._check_is_new)
        self._brokers.update_brokers(metadata)
        for topic in metadata.topics:
            self._learn(topic)
        return list(metadata.topics)

    async def fetch_offsets(
        self, times: Mapping[TopicPartition, int], read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """Return {partition: offset of its first record at or after a time}. The offset is -1 without such a record.

        `times` is {partition: time in ms}; `EARLIEST` and `LATEST` request the start and the end of the log. With
        `read_committed`, the end is the last stable offset. Partitions that have an error or whose leader does not
        respond are left out.
        """
        return await self._of_leaders(times, lambda leader, led: self._ask(leader, led, read_committed))

    def leader_epochs(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return {partition: leader epoch}.

        Each epoch comes from the last ListOffsets response that contained the log end offset. Responses that contained
        the last stable offset are not used. Partitions without an epoch are left out.
        """
        return {partition: self._epochs[partition] for partition in partitions if partition in self._epochs}

    async def fetch_epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return {partition: end offset of a leader epoch} (see `epoch_ends_request`).

        `epochs` is {partition: leader epoch}. Partitions that have an error or whose leader does not respond are left
        out.
        """
        return await self._of_leaders(epochs, self._ask_for_epochs)

    def remove_topics(self, topics: Collection[str]) -> None:
        """Remove the stored leaders and leader epochs of topics that are no longer used."""
        self._leaders = {p: leader for p, leader in self._leaders.items() if p.topic not in topics}
        self._newest = {p: newest for p, newest in self._newest.items() if p.topic not in topics}
        self._epochs = {p: epoch for p, epoch in self._epochs.items() if p.topic not in topics}

    def close(self) -> None:
        self._silent.close()
        self._brokers.close()

    def _check_is_new(self, metadata: MetadataResponse) -> None:
        """Raise UpstreamUnavailableError if a partition's leader epoch is older than the newest known one."""
        for topic in metadata.topics:
            for partition in topic.partitions:
                newest = self._newest.get(TopicPartition(topic.name, partition.partition_index))
                if newest and newest.topic_id == topic.topic_id and newest.epoch > partition.leader_epoch:
                    raise UpstreamUnavailableError("the broker's metadata has outdated leaders")

    def _learn(self, topic: _Topic) -> None:
        for described in topic.partitions:
            partition = TopicPartition(topic.name, described.partition_index)
            self._leaders[partition] = described.leader_id
            if topic.topic_id not in (None, NO_TOPIC_ID):  # brokers before 2.8 have no ids
                self._newest[partition] = _Leadership(topic.topic_id, described.leader_epoch)

    async def _of_leaders(self, asked: Mapping[TopicPartition, int], ask: _Ask) -> dict[TopicPartition, int]:
        """Call `ask` for each leader and its partitions, concurrently. Return the results of all leaders together.

        Unknown leaders are looked up first. Partitions whose leader remains unknown are left out.
        """
        await self._look_up(p for p in asked if self._leaders.get(p, -1) < 0)
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in asked:
            if (leader := self._leaders.get(partition, -1)) >= 0:
                by_leader.setdefault(leader, []).append(partition)
        answers = (ask(leader, {p: asked[p] for p in led}) for leader, led in by_leader.items())
        return {partition: offset for found in await asyncio.gather(*answers) for partition, offset in found.items()}

    async def _look_up(self, partitions: Iterable[TopicPartition]) -> None:
        names = {partition.topic for partition in partitions}
        if names:
            try:
                await self.fetch_topics(names)
            except UpstreamUnavailableError:
                return  # their leaders and offsets stay unknown

    async def _ask(
        self, leader: int, times: Mapping[TopicPartition, int], read_committed: bool
    ) -> dict[TopicPartition, int]:
        if leader in self._silent:
            self._lost(times)
            return {}
        is_search = any(time_ms >= 0 for time_ms in times.values())
        timeout_s = SEARCH_TIMEOUT_S if is_search else OFFSETS_TIMEOUT_S
        epochs = {p: self._newest[p].epoch for p in times if p in self._newest}
        request = list_offsets_request(times, read_committed, epochs)
        try:
            connection = self._brokers.connection_to(leader)
        except UpstreamUnavailableError:
            self._lost(times)
            return {}
        try:
            async with asyncio.timeout(timeout_s):  # may include connecting
                answer = await connection.ask(request, ListOffsetsResponse, timeout_s=timeout_s)
        except (TimeoutError, UpstreamUnavailableError) as error:
            connection.close()  # the next request uses a new one
            self._lost(times)
            self._silent.add(leader, str(error) or f"no response within {timeout_s:g} s")
            return {}
        found = read_offsets(answer)
        if not read_committed:
            self._epochs.update((p, epoch) for p, epoch in read_leader_epochs(answer).items() if times[p] == LATEST)
        self._lost(p for p in times if p not in found)
        return found

    async def _ask_for_epochs(self, leader: int, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Request the end offsets of leader epochs from one leader. Return {} if the leader does not respond.

        A leader that is already in `SilentBrokers` is sent no request. Unlike `_ask`, this method adds no leader to
        `SilentBrokers`.
        """
        if leader in self._silent:
            return {}
        try:
            async with asyncio.timeout(OFFSETS_TIMEOUT_S):
                answer = await self._brokers.connection_to(leader).ask(
                    epoch_ends_request(epochs), OffsetForLeaderEpochResponse
                )
        except (TimeoutError, UpstreamUnavailableError):
            return {}
        return read_epoch_ends(answer)

    def _lost(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove the leaders of these partitions, so that they are looked up before the next request."""
        for partition in partitions:
            self._leaders.pop(partition, None)
