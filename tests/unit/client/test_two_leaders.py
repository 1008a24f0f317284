"""A consumer whose partitions are led by two brokers, of which one is slower."""

from __future__ import annotations

import asyncio
from typing import Any

from kafka.protocol.metadata import MetadataResponse

from sharegroup.client import AsyncShareConsumer, Record
from sharegroup.client.testing import SettableClock
from sharegroup.protocol.messages import ShareFetchResponse, ShareGroupHeartbeatResponse
from sharegroup.types import AcknowledgeType
from tests.harness.event_loop import settle
from tests.unit.client.members import EXPLICIT, MEMBER, PATIENCE_S
from tests.unit.client.scripted_cluster import TOPIC_ID, ScriptedCluster, ScriptedConnection
from tests.unit.client.test_decoding import batch

LOCK_MS = 30_000
_FETCHED = ShareFetchResponse.ShareFetchableTopicResponse
_PART = MetadataResponse.MetadataResponseTopic.MetadataResponsePartition


class TwoLeaders(ScriptedCluster):
    """Broker 1 leads partition 0, and has a new record for each fetch. Broker 2 leads partition 1, with one record.

    The record of partition 1 is delivered again when its lock has ended. With `is_slow`, broker 2 answers a fetch only
    after the following turn of the event loop.

    Attributes:
        deliveries: the deliveries of the record of partition 1.
        acknowledged: (partition, offset, types) of each acknowledgement.
    """

    def __init__(self, is_slow: bool = False) -> None:
        super().__init__()
        self.clock: SettableClock = SettableClock()
        self.deliveries = self._locked_until_ms = 0
        self.acknowledged: list[tuple[int, int, list[int]]] = []
        self._is_slow = is_slow

    async def connect(self, host: str, port: int, settings: Any) -> ScriptedConnection:
        connection = await super().connect(host, port, settings)
        if port == 2 and self._is_slow:
            ask = connection.ask

            async def ask_slowly(*request: Any) -> Any:
                await settle()
                return await ask(*request)

            connection.ask = ask_slowly  # type: ignore[method-assign]
        return connection

    def _metadata(self, node_id: int, request: Any) -> Any:
        response = super()._metadata(node_id, request)
        response.topics[0].partitions = [
            _PART(error_code=0, partition_index=partition, leader_id=partition + 1, replica_nodes=[], isr_nodes=[])
            for partition in (0, 1)
        ]
        return response

    def _heartbeat(self, node_id: int, request: Any) -> Any:
        response = super()._heartbeat(node_id, request)
        assigned = ShareGroupHeartbeatResponse.Assignment
        topics = [assigned.TopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1])]
        response.assignment = assigned(topic_partitions=topics)
        return response

    def _note(self, request: Any) -> None:
        for topic in request.topics or ():
            for part in topic.partitions:
                for one in part.acknowledgement_batches or ():
                    kinds = list(one.acknowledge_types)
                    self.acknowledged.append((part.partition_index, one.first_offset, kinds))
                    if part.partition_index == 1:
                        is_renewed, is_released = kinds == [AcknowledgeType.RENEW], kinds == [AcknowledgeType.RELEASE]
                        renewed_ms = self.clock.now_ms() + LOCK_MS
                        self._locked_until_ms = renewed_ms if is_renewed else 0 if is_released else 10**18

    def _acknowledge(self, node_id: int, request: Any) -> Any:
        self._note(request)
        response = super()._acknowledge(node_id, request)
        if response.responses:
            response.responses[0].partitions[0].partition_index = node_id - 1
        return response

    def _fetch(self, node_id: int, request: Any) -> Any:
        self._note(request)
        offset, count, is_empty = 0, 1, False
        if node_id == 1:
            offset = self._offset
            self._offset += 1
        else:
            is_empty = self.clock.now_ms() < self._locked_until_ms
            if not is_empty:
                self.deliveries += 1
                self._locked_until_ms = self.clock.now_ms() + LOCK_MS
            count = self.deliveries
        part = _FETCHED.PartitionData
        acquired = part.AcquiredRecords(first_offset=offset, last_offset=offset, delivery_count=count)
        found = part(
            partition_index=node_id - 1,
            error_code=0,
            error_message=None,
            acknowledge_error_code=0,
            acknowledge_error_message=None,
            current_leader=part.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1),
            records=b"" if is_empty else batch(b"%d" % node_id, offset=offset),
            acquired_records=[] if is_empty else [acquired],
        )
        return ShareFetchResponse(
            throttle_time_ms=0,
            error_code=0,
            error_message=None,
            acquisition_lock_timeout_ms=LOCK_MS,
            responses=[_FETCHED(topic_id=TOPIC_ID, partitions=[found])],
            node_endpoints=[],
        )


def test_handler_loop_takes_the_records_of_a_slower_leader_although_it_has_no_room() -> None:
    """Otherwise their locks would end each time, and they would reach the delivery count limit."""
    cluster = TwoLeaders(is_slow=True)
    handled: list[int] = []

    async def run() -> None:
        consumer = AsyncShareConsumer(connector=cluster, **MEMBER)

        @consumer.handler(max_in_hand=(1, "1MB"))
        async def handle(record: Record[bytes]) -> None:
            handled.append(record.partition)
            for _ in range(40):  # a call lasts longer than a lock
                cluster.clock.advance(1_000)
                await settle()
            if len(handled) == 8:
                consumer.stop()

        await consumer.run()

    asyncio.run(run())
    assert 1 in handled
    assert cluster.deliveries == 1


def test_close_sends_the_acknowledgements_of_a_leader_while_another_does_not_answer() -> None:
    cluster = TwoLeaders()

    async def run() -> None:
        consumer = AsyncShareConsumer(connector=cluster, **MEMBER, **EXPLICIT)
        records: list[Record[bytes]] = []
        while not any(record.partition == 1 for record in records):
            for record in records:
                consumer.acknowledge(record)
            records = await consumer.poll(PATIENCE_S)
        for record in records:
            consumer.acknowledge(record)

        async def hang(*_: Any) -> Any:
            await asyncio.Event().wait()

        for connection in cluster.connections:
            if connection.node_id == 1:
                connection.ask = hang  # type: ignore[method-assign]
        consumer._requests.start_turns()
        await settle()
        cluster.acknowledged.clear()
        await consumer.close(0.2)

    asyncio.run(run())
    assert (1, 0, [AcknowledgeType.ACCEPT]) in cluster.acknowledged
