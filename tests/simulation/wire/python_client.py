"""The project's own Python client as a share consumer at simulated gateways.

`AsyncShareConsumer` runs unchanged on a virtual event loop. Only its connector is simulated, and it reports to the
`Observer` what passes through it. Metadata and coordinators are answered here, because simulated gateways serve share
groups only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kafka.protocol.metadata import (
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataResponse,
)

from sharegroup.client import AsyncShareConsumer, Record, Reject, Release, WakeupError
from sharegroup.client.clock import SteadyClock
from sharegroup.client.connector import ApiRanges, UpstreamUnavailableError
from sharegroup.client.handlers.runner import HandlerRunner
from sharegroup.client.testing.messages import (
    API_RANGES,
    find_coordinator_response,
    forgotten_of,
    partitions_of,
)
from sharegroup.errors import ErrorCode, ShareGroupError
from sharegroup.kafka_clients.client_settings import ClientSettings
from sharegroup.protocol.acknowledge_rules import split_unused
from sharegroup.protocol.messages import (
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
)
from sharegroup.protocol.share_session import TopicIdPartition
from sharegroup.protocol.topic_ids import NO_TOPIC_ID, parse_topic_id, topic_id_text
from sharegroup.types import AcknowledgeType
from tests.simulation.gateway.gateway_process import SimulatedGateway
from tests.simulation.wire.wire_client import LEAST_LOCK_MS, ClientProcess
from tests.simulation.wire.wire_connection import Answer, Connection, ConnectionLostError
from tests.simulation.wire.wire_observer import Acknowledgement, Place
from tests.simulation.wire.wire_session import deliveries_in, parts_of

_POLL_S, _DRAIN_S = 30.0, 20.0
#: Calls of the handler loop that run at the same time.
_CONCURRENCY = 4


class PythonClient(ClientProcess):
    """A consumer that is an `AsyncShareConsumer`, of which it is the connector.

    Half of them run a handler loop, which renews locks; the others poll and commit.
    """

    def _set_up(self) -> None:
        #: Implements Connector, as `connect` does.
        self.clock = SteadyClock(lambda: self.side.clock.now_ms)
        self._handles = self._random.random() < 0.5
        self.connections: list[ObservedConnection] = []
        self._consumer: AsyncShareConsumer | None = None
        self._runner: HandlerRunner | None = None
        self._lock_ms = LEAST_LOCK_MS
        self._is_leaving = False

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join and consume."""
        how = "handles" if self._handles else "polls"
        self._say(f"starts: Python client, {how}, {self.habit.name}, group {self.group_id}, {', '.join(self.topics)}")
        self.loop.start(self._run())

    def _close_connections(self, seen_after_ms: float) -> None:
        for connection in self.connections:
            connection.close(seen_after_ms)

    def leave(self) -> None:
        """Close in order: acknowledgements, sessions, then the membership."""
        if not (self.has_ended or self._is_leaving):
            self._is_leaving = True
            self._say("leaves")
            self.loop.call_soon(self._stop)

    def _stop(self) -> None:
        if self._runner is not None:
            self._runner.stop()
        elif self._consumer is not None:
            self._consumer.wakeup()

    # -- consuming -----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        size = self.habit.size
        first = self._random.randrange(len(self.side.gateways))
        gateways = [*self.side.gateways[first:], *self.side.gateways[:first]]
        self._consumer = consumer = AsyncShareConsumer(
            ",".join(f"{gateway.name}:{self.side.kafka.brokers[0]}" for gateway in gateways),
            group_id=self.group_id,
            topics=self.topics,
            connector=self,
            member_id=self.member_id,
            client_id=self.client_id or "python",
            share_acknowledgement_mode="explicit",
            share_acquire_mode="record_limit" if size.is_record_limit else "batch_optimized",
            max_poll_records=size.max_records,
            fetch_max_wait_ms=size.max_wait_ms,
            check_crcs=False,
        )
        try:
            if self._handles:
                await self._handle()
            else:
                await self._poll(consumer)
        except ShareGroupError as error:
            self._say(f"gives up: {error}")
        await consumer.close()
        self._end()
        self.loop.call_soon(self.loop.kill)

    async def _handle(self) -> None:
        """Run the handler loop until `leave`."""
        consumer = self._consumer
        assert consumer is not None

        @consumer.handler(concurrency=_CONCURRENCY, max_in_hand=(2 * self.habit.size.max_records, "1MB"))
        async def work(record: Record[Any]) -> None:
            await asyncio.sleep(self._work_ms() / 1000)
            self._raise_verdict(record)

        async def here(coroutine: Any) -> Any:
            return await coroutine

        self._runner = HandlerRunner(consumer, consumer._handler(), here)
        await self._runner.run(_DRAIN_S)

    def _raise_verdict(self, record: Record[Any]) -> None:
        kind = self._verdict()
        if kind is AcknowledgeType.RELEASE:
            raise Release
        if kind is AcknowledgeType.REJECT:
            raise Reject(f"offset {record.offset}")

    async def _poll(self, consumer: AsyncShareConsumer) -> None:
        """Poll, work, and commit until `leave`."""
        while not self._is_leaving:
            try:
                records = await consumer.poll(_POLL_S)
            except WakeupError:
                return
            if records:
                await asyncio.sleep(self._work_ms() / 1000)
            for record in records:
                consumer.acknowledge(record, self._verdict())
            if records and self._random.random() < self.habit.explicit:
                try:
                    await consumer.commit_sync()
                except WakeupError:
                    return
            await asyncio.sleep(self._random.uniform(*self.habit.rests_ms) / 1000)

    def _work_ms(self) -> float:
        work_ms = self._random.uniform(*self.habit.work_ms)
        if self._random.random() < self.habit.stumbles:
            work_ms += self._lock_ms * self._random.uniform(*self.habit.work_locks)
        return work_ms / _CONCURRENCY if self._handles else work_ms

    def note_lock(self, lock_ms: int) -> None:
        """Note the lock duration of a response, on which the duration of slow work depends."""
        self._lock_ms = max(LEAST_LOCK_MS, lock_ms)

    # -- Connector -----------------------------------------------------------------------------------------------------

    async def connect(self, host: str, port: int, settings: ClientSettings) -> ObservedConnection:
        """Implement Connector."""
        gateway = next(gateway for gateway in self.side.gateways if gateway.name == host)
        await asyncio.sleep(self.side.weather.latency_ms(self.side.clock) / 1000)
        if not gateway.is_up:
            raise UpstreamUnavailableError(f"{host}:{port} refuses a connection")
        connection = ObservedConnection(self, gateway, port)
        self.connections = [*(known for known in self.connections if known.is_open), connection]
        return connection


class ObservedConnection:
    """A connection of the client to a port of a gateway, which reports what passes through it."""

    def __init__(self, client: PythonClient, gateway: SimulatedGateway, node_id: int) -> None:
        side = client.side
        self._client, self._side, self._gateway = client, side, gateway
        self._inner = Connection(side.clock, side.weather, client.loop, gateway, node_id, client.client_id)
        self._inner.on_end = self._session_lost
        self._partitions: dict[Place, None] = {}
        self.api_ranges: ApiRanges = API_RANGES

    # -- Connection ----------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Implement Connection."""
        return not self._inner.is_lost

    async def ask(self, request: Any, response: Any, version: int, timeout_s: float = 30.0) -> Any:
        """Implement Connection."""
        match request:
            case MetadataRequest():
                return await self._answer(self._metadata(request))
            case FindCoordinatorRequest():
                node_id = self._side.kafka.brokers[0]
                return await self._answer(find_coordinator_response(request, node_id, self._gateway.name, node_id))
            case ShareGroupHeartbeatRequest():
                return await self._heartbeat(request, version, timeout_s)
            case _:
                return await self._session_request(request, version, timeout_s)

    def close(self, seen_after_ms: float = 0.0) -> None:
        """Implement Connection."""
        self._inner.close(seen_after_ms)

    async def _ask(self, request: Any, version: int, timeout_s: float) -> Answer:
        try:
            return await self._inner.ask(request, version, timeout_s)
        except ConnectionLostError as error:
            raise UpstreamUnavailableError(str(error)) from error

    # -- metadata ------------------------------------------------------------------------------------------------------

    async def _answer(self, response: Any) -> Any:
        await asyncio.sleep(2 * self._side.weather.latency_ms(self._side.clock) / 1000)
        if not self._gateway.is_up:
            self.close()
            raise UpstreamUnavailableError("the gateway has ended")
        return response

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        broker, topic = MetadataResponse.MetadataResponseBroker, MetadataResponse.MetadataResponseTopic
        view = self._side.kafka.metadata(self._side.metadata_lag_ms)
        topics = []
        for name in (str(asked.name) for asked in request.topics or ()):
            known = view.get(name)
            parts = [
                topic.MetadataResponsePartition(
                    error_code=0, partition_index=index, leader_id=leader, replica_nodes=[], isr_nodes=[]
                )
                for index, leader in enumerate(known.leaders if known is not None else ())
            ]
            code = ErrorCode.NONE if known is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topic_id = parse_topic_id(known.topic_id) if known is not None else NO_TOPIC_ID
            topics.append(topic(error_code=code, name=name, topic_id=topic_id, partitions=parts))
        brokers = [broker(node_id=node, host=self._gateway.name, port=node) for node in self._side.kafka.brokers]
        return MetadataResponse(brokers=brokers, topics=topics)

    # -- the group -----------------------------------------------------------------------------------------------------

    async def _heartbeat(self, request: Any, version: int, timeout_s: float) -> Any:
        client, observer = self._client, self._side.observer
        sent_ms = self._side.clock.now_ms
        if request.member_epoch < 0:
            observer.left(client.identity, client.group_id)
        else:
            observer.heartbeat_sent(client.identity, client.group_id, client.topics)
        response = (await self._ask(request, version, timeout_s)).message
        if response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            observer.left(client.identity, client.group_id)
        elif not response.error_code and request.member_epoch >= 0:
            observer.heartbeat_answered(client.identity, client.group_id, sent_ms)
        return response

    # -- the session ---------------------------------------------------------------------------------------------------

    async def _session_request(self, request: Any, version: int, timeout_s: float) -> Any:
        """Send a ShareFetch or ShareAcknowledge, and report what it acknowledges, ends and returns."""
        self._report_begin(request)
        sent = list(self._acknowledgements(request))
        for acknowledgement in sent:
            self._side.observer.acknowledge_sent(acknowledgement)
        try:
            answer = await self._ask(request, version, timeout_s)
        except BaseException:
            self._report_failure(sent, None)
            raise
        if answer.message.error_code:
            self._report_failure(sent, answer.message.error_code)
        elif isinstance(request, ShareFetchRequest):
            self._report_fetch(request, answer, sent)
        else:
            codes = {place: part.error_code for place, part in parts_of(self._client.group_id, answer.message)}
            self._report_answers(sent, codes, answer.message.acquisition_lock_timeout_ms)
        return answer.message

    def _report_begin(self, request: Any) -> None:
        """Report that a session begins or ends with this request."""
        if request.share_session_epoch == 0:
            self._side.observer.let_go(
                self._client.identity, [self._place(key) for key, _ in partitions_of(request)], "opens a session"
            )
            self._partitions = {}
        elif request.share_session_epoch < 0:
            self._side.observer.let_go(self._client.identity, list(self._partitions), "ends its session")
            self._partitions = {}

    def _report_fetch(self, request: ShareFetchRequest, answer: Answer, sent: Sequence[Acknowledgement]) -> None:
        group_id = self._client.group_id
        codes = {place: part.acknowledge_error_code for place, part in parts_of(group_id, answer.message)}
        self._report_answers(sent, codes, 0)
        self._partitions |= dict.fromkeys(self._place(key) for key, _ in partitions_of(request))
        for key in forgotten_of(request):
            self._partitions.pop(self._place(key), None)
        for node in answer.message.node_endpoints:
            node.host, node.port = self._gateway.name, node.node_id
        self._client.note_lock(answer.message.acquisition_lock_timeout_ms)
        for delivery in deliveries_in(answer, group_id, self._client.identity):
            self._side.observer.delivered(delivery)

    def _report_answers(self, sent: Sequence[Acknowledgement], codes: Mapping[Place, int], lock_ms: int) -> None:
        for acknowledgement in sent:
            self._side.observer.acknowledge_answered(acknowledgement, codes.get(acknowledgement.place, 0), lock_ms)

    def _report_failure(self, sent: Sequence[Acknowledgement], code: int | None) -> None:
        self._partitions = {}
        for acknowledgement in sent:
            self._side.observer.acknowledge_answered(acknowledgement, code, 0)

    def _place(self, key: TopicIdPartition) -> Place:
        return Place(self._client.group_id, topic_id_text(key.topic_id), key.partition)

    def _acknowledgements(self, request: Any) -> Iterator[Acknowledgement]:
        for key, batches in partitions_of(request):
            if batches:
                unused, others = split_unused(batches)
                yield Acknowledgement(
                    next(self._side.numbers), self._place(key), self._client.identity, (*unused, *others),
                    request.is_renew_ack, self._side.clock.now_ms, tuple(unused),
                )  # fmt: skip

    def _session_lost(self) -> None:
        if self._partitions and not self._client.client_id:
            self._side.observer.let_go(self._client.identity, list(self._partitions), "its connection ends")
        self._partitions = {}
