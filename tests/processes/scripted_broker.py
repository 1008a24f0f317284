"""A broker on a real port that takes rows as Kafka does: it knows the sequence numbers, and appends a batch once.

What it does with a Produce request is scripted: one entry of `script` for each, in order, and then it just appends.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID

from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse
from kafka.record import MemoryRecords

from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.kafka_clients.connections import headers as wire
from sharegroup.kafka_clients.connections.framing import FrameProtocol
from tests.harness.event_loop import until

TOPIC = "requests"
NEWEST = {0: 13, 18: 4, 22: 5}
#: The last versions of Kafka 2.1.
OLD = {0: 7, 18: 2, 22: 1}
UNSUPPORTED_VERSION, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH = 35, 45, 47

#: Besides error codes, which are answered without appending.
APPEND, HANG_UP_BEFORE, HANG_UP_AFTER, NEVER_ANSWER = "append", "hang up before", "hang up after", "never answer"
ScriptEntry = int | str | asyncio.Event


class Produced(NamedTuple):
    """A Produce request; `rows` are values."""

    partition: int
    producer_id: int
    epoch: int
    sequence: int
    rows: tuple[bytes, ...]


class ScriptedBroker:
    """Answers as its `script` says, and keeps what was produced. An asyncio.Event in the `script` is waited for before
    the batch is appended.

    `now_ms` is the broker's clock, which tells when a batch was appended first; None: it does not say so.
    """

    def __init__(self, node_id: int = 1, versions: dict[int, int] | None = None) -> None:
        self.node_id, self.versions = node_id, versions or NEWEST
        self.script: deque[ScriptEntry] = deque()
        #: Batches with one of these never arrive: the connection ends instead, whatever the script says.
        self.lost_rows: set[bytes] = set()
        self.produced: list[Produced] = []
        self.request_versions: set[int] = set()
        self.logs: dict[int, list[bytes]] = defaultdict(list)
        #: (partition, producer id): (epoch, first and next sequence of the last batch)
        self.producers: dict[tuple[int, int], tuple[int, int, int]] = {}
        self.now_ms: Callable[[], int] | None = None
        self.append_times: dict[Produced, int] = {}
        self.init_errors: deque[int] = deque()
        self.producer_ids = 0
        self.connections: list[_Connection] = []
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> ScriptedBroker:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self.connections:
            connection.abort()
        await until(lambda: all(connection.transport is None for connection in self.connections))

    def append(self, produced: Produced) -> int:
        """As ProducerStateManager does; the error code."""
        place = produced.partition, produced.producer_id
        epoch, first, after = self.producers.get(place, (produced.epoch, -1, produced.sequence))
        if produced.epoch < epoch:
            return INVALID_PRODUCER_EPOCH
        if produced.epoch > epoch:
            first, after = -1, 0
        end = (produced.sequence + len(produced.rows)) & 0x7FFFFFFF
        if (produced.sequence, end) == (first, after):
            return 0
        if produced.sequence != after:
            return OUT_OF_ORDER_SEQUENCE_NUMBER
        self.producers[place] = produced.epoch, produced.sequence, end
        self.logs[produced.partition] += produced.rows
        if self.now_ms is not None:
            self.append_times[produced] = self.now_ms()
        return 0


class _Connection(FrameProtocol):
    def __init__(self, broker: ScriptedBroker) -> None:
        super().__init__(2**31 - 1)
        self._broker = broker
        self._frames: deque[bytes] = deque()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._broker.connections.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._task is not None:
            self._task.cancel()

    def frame_error(self, problem: str) -> None:
        raise AssertionError(problem)

    def frame_received(self, frame: memoryview) -> None:
        """One request at a time, as a broker handles them."""
        self._frames.append(bytes(frame))
        if self._task is None:
            self._task = asyncio.ensure_future(self._answer_all())

    async def _answer_all(self) -> None:
        broker = self._broker
        while self._frames:
            frame = memoryview(self._frames.popleft())
            header = wire.read_header(frame)
            message = {0: ProduceRequest, 18: ApiVersionsRequest, 22: InitProducerIdRequest}[header.api_key]
            start = header.end
            if message.flexible_version_q(header.api_version):
                start = wire.skip_tagged_fields(frame, start)
            answer = await self._answer(message.decode(bytes(frame[start:]), version=header.api_version), header)
            if answer is None:
                return
            assert self.transport is not None
            version = header.api_version if header.api_version <= broker.versions[header.api_key] else 0
            self.transport.write(wire.encode_response(answer, version, header.correlation_id))
        self._task = None

    async def _answer(self, request: Any, header: wire.RequestHeader) -> Any:
        broker = self._broker
        if header.api_key == ApiVersionsRequest.API_KEY:
            return self._api_versions(header)
        assert header.api_version <= broker.versions[header.api_key]
        if header.api_key == InitProducerIdRequest.API_KEY:
            if broker.init_errors:
                return InitProducerIdResponse(error_code=broker.init_errors.popleft())
            broker.producer_ids += 1
            return InitProducerIdResponse(error_code=0, producer_id=1_000 + broker.producer_ids, producer_epoch=0)
        broker.request_versions.add(header.api_version)
        return await self._produce(request)

    def _api_versions(self, header: wire.RequestHeader) -> Any:
        key = ApiVersionsResponse.ApiVersion
        keys = [key(api_key=k, min_version=0, max_version=v) for k, v in self._broker.versions.items()]
        is_known = header.api_version <= self._broker.versions[header.api_key]
        return ApiVersionsResponse(error_code=0 if is_known else UNSUPPORTED_VERSION, api_keys=keys if is_known else [])

    async def _produce(self, request: Any) -> Any:
        broker = self._broker
        assert request.acks == -1
        (topic,) = request.topic_data
        (partition,) = topic.partition_data
        assert topic.name == TOPIC
        produced = produced_of(partition)
        broker.produced.append(produced)
        if broker.lost_rows.intersection(produced.rows):
            self.abort()
            return None
        entry = broker.script.popleft() if broker.script else APPEND
        if entry == HANG_UP_BEFORE:
            self.abort()
            return None
        if isinstance(entry, asyncio.Event):
            await entry.wait()
        code = entry if isinstance(entry, int) else broker.append(produced)
        if entry == HANG_UP_AFTER:
            self.abort()
        if entry in (HANG_UP_AFTER, NEVER_ANSWER):
            return None
        answered = ProduceResponse.TopicProduceResponse
        found = answered.PartitionProduceResponse(
            index=partition.index, error_code=code, base_offset=0, record_errors=[], error_message=None,
            log_append_time_ms=broker.append_times.get(produced, -1),
        )  # fmt: skip
        return ProduceResponse(responses=[answered(name=TOPIC, partition_responses=[found])], throttle_time_ms=0)


def produced_of(partition: Any) -> Produced:
    """What a partition of a Produce request holds: one batch."""
    records = MemoryRecords(bytes(partition.records))
    batch = records.next_batch()
    assert batch.validate_crc()
    assert not records.has_next()
    rows = tuple(record.value for record in batch)
    return Produced(partition.index, batch.producer_id, batch.producer_epoch, batch.base_sequence, rows)


class ScriptedCluster(UpstreamCluster):
    """Knows the leaders it was told; `moved` is what it learns when it is refreshed."""

    def __init__(self, *brokers: ScriptedBroker, partitions: int = 1) -> None:
        super().__init__({"bootstrap_servers": ["127.0.0.1:1"]})
        self._brokers, self.refreshed = brokers, 0
        self.moved: int | None = None
        self.lead(brokers[0].node_id, partitions)

    def lead(self, node_id: int, partitions: int = 1) -> None:
        leaders = [SimpleNamespace(partition_index=n, leader_id=node_id, leader_epoch=1) for n in range(partitions)]
        topic = SimpleNamespace(error_code=0, name=TOPIC, topic_id=UUID(int=7), partitions=leaders)
        addresses = [SimpleNamespace(node_id=b.node_id, host="127.0.0.1", port=b.port) for b in self._brokers]
        self.apply_metadata(SimpleNamespace(cluster_id="c", brokers=addresses, topics=[topic]))

    async def refresh(self) -> None:
        self.refreshed += 1
        if self.moved is not None:
            self.lead(self.moved)
