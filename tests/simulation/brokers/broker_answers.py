"""The responses of simulated brokers; requests and responses are kafka-python's objects, not frames."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from kafka.errors import KafkaError, LeaderNotAvailableError
from kafka.protocol.admin import DeleteGroupsRequest, DeleteGroupsResponse
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse

from sharegroup.errors import ErrorCode
from sharegroup.gateway.records.log_reader import IDS_FETCH_VERSION, NAMES_FETCH_VERSION, READ_COMMITTED
from sharegroup.kafka_clients.connections.list_offsets import EARLIEST, LATEST
from sharegroup.protocol.topic_ids import NO_TOPIC_ID, parse_topic_id, topic_id_text
from tests.simulation.brokers.fetch_sessions import FetchSessions, Place
from tests.simulation.brokers.kafka_log import (
    CLUSTER_ID,
    LogBatch,
    Metadata,
    PartitionLog,
    SimulatedKafka,
    TopicView,
)
from tests.simulation.gateway.gateway_batch_bytes import batch_bytes, producer_id

#: The APIs that a broker offers to the gateway: {api key: (lowest, highest version)}; and those without topic ids.
OFFERED = {1: (4, 17), 2: (1, 10), 3: (0, 13), 16: (0, 4), 23: (2, 4), 42: (0, 2)}
#: The session epoch of a request without a fetch session.
NO_SESSION_EPOCH = -1
OFFERED_WITHOUT_IDS = OFFERED | {1: (4, NAMES_FETCH_VERSION), 3: (0, 9)}


@dataclass
class UpstreamFaults:
    """The faults between a gateway and its brokers; chances are of each request.

    `metadata_lag_ms`: the age of the brokers' metadata. `empty_answer`: a Fetch response without records although there
    are some. `lost_answer`: no response for as long as the gateway waits.
    """

    metadata_lag_ms: int = 0
    empty_answer: float = 0.0
    lost_answer: float = 0.0


class BatchBytes:
    """The bytes of the log's batches for all gateways, created once for each batch."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, int, int, int], bytes] = {}

    def of(self, topic_id: str, partition: int, batch: LogBatch) -> bytes:
        """Return the bytes of a batch."""
        # The time distinguishes it from the batch of an earlier topic, which has the same id if brokers have none.
        key = (topic_id, partition, batch.base_offset, batch.append_ms)
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = batch_bytes(batch)
        return found


class BrokerAnswers:
    """The responses to one client. `random` decides on faults; `metadata_lag_ms` is the age of metadata."""

    def __init__(
        self,
        kafka: SimulatedKafka,
        random: Random,
        faults: UpstreamFaults,
        batches: BatchBytes,
        latency_s: Callable[[], float],
        metadata_lag_ms: Callable[[], int],
    ) -> None:
        self.kafka, self._random, self.faults, self._batches = kafka, random, faults, batches
        self._latency_s, self._metadata_lag_ms = latency_s, metadata_lag_ms
        self._told: tuple[Metadata, Any] | None = None
        self._sessions = FetchSessions(kafka, self._read_tail)
        self._answers: dict[str, Callable[[int, Any, int], Any]] = {
            MetadataRequest.__name__: self._metadata,
            FetchRequest.__name__: self._fetch,
            ListOffsetsRequest.__name__: self._list_offsets,
            OffsetForLeaderEpochRequest.__name__: self._epoch_ends,
            DeleteGroupsRequest.__name__: _no_such_groups,
        }

    async def answer(self, node_id: int, request: Any, version: int) -> Any:
        """Return the response of a broker. It never arrives if it is lost or the broker stays silent."""
        if isinstance(request, ApiVersionsRequest):
            await self._served(node_id)
            return self._api_versions()
        if latency_s := self._latency_s():
            await asyncio.sleep(latency_s)
        await self._served(node_id)
        if not isinstance(request, MetadataRequest) and self._happens(self.faults.lost_answer):
            await asyncio.get_running_loop().create_future()
        if isinstance(request, FetchRequest) and request.session_epoch != NO_SESSION_EPOCH:
            if self._happens(self.faults.empty_answer):
                self._sessions.lose(node_id)
            found = await self._sessions.answer(node_id, request)
            await self._served(node_id)
            return found
        answer = self._answers[type(request).__name__]
        found = answer(node_id, request, version)
        if found is None:  # a long poll without records
            await asyncio.sleep(request.max_wait_ms / 1000)
            await self._served(node_id)
            found = answer(node_id, request, version)
        if found is None:
            asked = request.topics[0].partitions[0]
            found = _response_of(request, self._data(request, asked.partition, asked.fetch_offset, ErrorCode.NONE))
        return found

    async def _served(self, node_id: int) -> None:
        """Wait until the broker serves its requests."""
        if node_id in self.kafka.silence:
            served = asyncio.get_running_loop().create_future()
            self.kafka.silence.serve(node_id, lambda: None if served.done() else served.set_result(None))
            await served

    def _api_versions(self) -> Any:
        offered = OFFERED if self.kafka.has_topic_ids else OFFERED_WITHOUT_IDS
        api = ApiVersionsResponse.ApiVersion
        keys = [api(api_key=key, min_version=low, max_version=high) for key, (low, high) in offered.items()]
        return ApiVersionsResponse(error_code=0, api_keys=keys)

    def _metadata(self, node_id: int, request: Any, _: int) -> Any:
        view = self.kafka.metadata(self._metadata_lag_ms())
        if request.topics is not None:
            return metadata_response(self.kafka, view, [topic.name for topic in request.topics])
        if self._told is None or self._told[0] is not view:
            self._told = view, metadata_response(self.kafka, view, view)
        return self._told[1]

    def _fetch(self, node_id: int, request: Any, version: int) -> Any:
        """Return None if there is nothing yet at the log's end. Newer requests name the topic by its id."""
        asked, name = request.topics[0].partitions[0], self._name(request.topics[0], version)
        data = self._read(node_id, request, name, asked.partition, asked.fetch_offset, asked.partition_max_bytes)
        if data is None:
            return None
        return _response_of(request, data)

    def _read_tail(self, node_id: int, request: Any, place: Place, offset: int) -> Any | None:
        """Return the data of a partition of a fetch session, or None if there is nothing new."""
        found = self.kafka.topic_by_id(topic_id_text(place[0])) if self.kafka.has_topic_ids else None
        data = self._read(node_id, request, None if found is None else found.name, place[1], offset, request.max_bytes)
        return data if data is not None and (data.records or data.error_code) else None

    def _read(
        self, node_id: int, request: Any, name: str | None, partition: int, offset: int, max_bytes: int
    ) -> Any | None:
        """Return the data of a partition, or None if there is nothing at this offset yet."""
        if name is None:
            return self._data(request, partition, offset, ErrorCode.UNKNOWN_TOPIC_ID)
        log = self._led(node_id, name, partition)
        if isinstance(log, ErrorCode):
            return self._data(request, partition, offset, log)
        if not log.log_start_offset <= offset <= log.log_end_offset:
            return self._data(request, partition, offset, ErrorCode.OFFSET_OUT_OF_RANGE, log)
        if self._happens(self.faults.empty_answer):
            return self._data(request, partition, offset, ErrorCode.NONE, log)
        end = _visible_end(request, log)
        if offset >= end:
            return None
        topic_id = self.kafka.topic(name).topic_id
        records, last = bytearray(), offset
        for batch in log.read(offset, end):
            data = self._batches.of(topic_id, partition, batch)
            if records and len(records) + len(data) > max_bytes:
                break
            records += data
            last = batch.last_offset
        return self._data(request, partition, offset, ErrorCode.NONE, log, bytes(records), last)

    def _name(self, topic: Any, version: int) -> str | None:
        if version < IDS_FETCH_VERSION:
            return str(topic.topic)
        found = self.kafka.topic_by_id(topic_id_text(topic.topic_id)) if self.kafka.has_topic_ids else None
        return None if found is None else found.name

    def _data(
        self,
        request: Any,
        partition: int,
        offset: int,
        code: ErrorCode,
        log: PartitionLog | None = None,
        records: bytes = b"",
        last: int = -1,
    ) -> Any:
        topic = FetchResponse.FetchableTopicResponse
        committed = request.isolation_level == READ_COMMITTED
        aborted = [
            topic.PartitionData.AbortedTransaction(producer_id=producer_id(producer), first_offset=first)
            for producer, first, marker in (log.aborted if log is not None and committed else ())
            if first <= last and marker >= offset
        ]
        return topic.PartitionData(
            partition_index=partition,
            error_code=int(code),
            high_watermark=-1 if log is None else log.log_end_offset,
            last_stable_offset=-1 if log is None else log.last_stable_offset,
            log_start_offset=-1 if log is None else log.log_start_offset,
            aborted_transactions=aborted,
            records=records,
        )

    def _list_offsets(self, node_id: int, request: Any, _: int) -> Any:
        kind = ListOffsetsResponse.ListOffsetsTopicResponse
        return ListOffsetsResponse(
            throttle_time_ms=0,
            topics=[
                kind(
                    name=topic.name,
                    partitions=[
                        kind.ListOffsetsPartitionResponse(
                            partition_index=asked.partition_index,
                            error_code=code,
                            timestamp=-1,
                            offset=offset,
                            leader_epoch=epoch,
                        )
                        for asked in topic.partitions
                        for code, offset, epoch in [self._offset(node_id, request, topic.name, asked)]
                    ],
                )
                for topic in request.topics
            ],
        )

    def _epoch_ends(self, node_id: int, request: Any, _: int) -> Any:
        kind = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        topics = []
        for topic in request.topics:
            ends = []
            for asked in topic.partitions:
                log = self._led(node_id, topic.topic, asked.partition)
                code, end = (int(log), -1) if isinstance(log, ErrorCode) else (0, log.epoch_end(asked.leader_epoch))
                ends.append(
                    kind.EpochEndOffset(
                        error_code=code, partition=asked.partition, leader_epoch=asked.leader_epoch, end_offset=end
                    )
                )
            topics.append(kind(topic=topic.topic, partitions=ends))
        return OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=topics)

    def _led(self, node_id: int, topic: str, partition: int) -> PartitionLog | ErrorCode:
        """Return the log if the broker leads it."""
        try:
            log = self.kafka.log(topic, partition)
        except LeaderNotAvailableError:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        except KafkaError:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return log if log.leader == node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _offset(self, node_id: int, request: Any, topic: str, asked: Any) -> tuple[int, int, int]:
        """Return (error code, offset, leader epoch)."""
        log = self._led(node_id, topic, asked.partition_index)
        if isinstance(log, ErrorCode):
            return int(log), -1, -1
        if asked.timestamp == EARLIEST:
            return 0, log.log_start_offset, log.leader_epoch
        if asked.timestamp == LATEST:
            return 0, _visible_end(request, log), log.leader_epoch
        at = log.first_at(asked.timestamp)
        return 0, -1 if at is None else at, log.leader_epoch

    def _happens(self, chance: float) -> bool:
        return chance > 0 and self._random.random() < chance


def _response_of(request: Any, data: Any) -> Any:
    """Return the response to a request without a session, which has one partition."""
    named = FetchResponse.FetchableTopicResponse(topic=request.topics[0].topic, partitions=[data])
    return FetchResponse(throttle_time_ms=0, error_code=0, session_id=0, responses=[named])


def _no_such_groups(_node_id: int, request: Any, _: int) -> Any:
    """Respond that the cluster has no groups of its own."""
    result = DeleteGroupsResponse.DeletableGroupResult
    code = int(ErrorCode.GROUP_ID_NOT_FOUND)
    results = [result(group_id=group_id, error_code=code) for group_id in request.groups_names]
    return DeleteGroupsResponse(throttle_time_ms=0, results=results)


def _visible_end(request: Any, log: PartitionLog) -> int:
    return log.last_stable_offset if request.isolation_level == READ_COMMITTED else log.log_end_offset


def broker_host(node_id: int) -> str:
    """Return the host of a broker."""
    return f"broker-{node_id}"


def broker_id(host: str) -> int:
    """Return the broker on a host."""
    return int(host.removeprefix("broker-"))


def metadata_response(kafka: SimulatedKafka, view: Metadata, names: Iterable[str]) -> Any:
    """Return the metadata of all brokers and the topics of these names."""
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[
            MetadataResponse.MetadataResponseBroker(node_id=node_id, host=broker_host(node_id), port=9092, rack=None)
            for node_id in kafka.brokers
        ],
        cluster_id=CLUSTER_ID,
        controller_id=kafka.brokers[0],
        topics=[_topic(name, view.get(name), kafka.has_topic_ids) for name in names],
    )


def _topic(name: str, found: TopicView | None, has_id: bool) -> Any:
    topic = MetadataResponse.MetadataResponseTopic
    leaders = () if found is None else zip(found.leaders, found.leader_epochs, strict=True)
    return topic(
        error_code=int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else ErrorCode.NONE),
        name=name,
        topic_id=parse_topic_id(found.topic_id) if found is not None and has_id else NO_TOPIC_ID,
        is_internal=False,
        partitions=[
            topic.MetadataResponsePartition(
                error_code=0, partition_index=partition, leader_id=leader, leader_epoch=epoch,
                replica_nodes=[leader], isr_nodes=[leader], offline_replicas=[],
            )
            for partition, (leader, epoch) in enumerate(leaders)
        ],
    )  # fmt: skip
