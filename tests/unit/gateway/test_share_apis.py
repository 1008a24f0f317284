"""ShareFetch and ShareAcknowledge: who may acknowledge, and that acknowledgements go before all that follows."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from sharegroup.config import JobConfig
from sharegroup.errors import ErrorCode
from sharegroup.gateway.handlers.share_fetch import ShareApis
from sharegroup.gateway.listeners import Listeners
from sharegroup.gateway.request import Caller, Request
from sharegroup.gateway.upstream_cluster import Leader, Topic
from sharegroup.protocol.messages import ShareAcknowledgeRequest, ShareFetchRequest
from sharegroup.protocol.request_rows import ACKNOWLEDGE, FETCH, RELEASE_MEMBER
from sharegroup.types import AcknowledgeType, AcquiredRange
from tests.unit.gateway.recording_engine import RecordingEngine

ORDERS, SECRETS = UUID(int=1), UUID(int=2)
NODE, LOCK_MS = 1, 30_000


class Gateway:
    """The handlers for one member of the group g, who may read orders and not secrets."""

    def __init__(self) -> None:
        config = JobConfig()
        topics = {ORDERS: topic("orders", ORDERS), SECRETS: topic("secrets", SECRETS)}
        cluster: Any = SimpleNamespace(
            topic_by_id=topics.get,
            leader=lambda topic_id, partition: topics[topic_id].leaders.get(partition),
            watch=lambda _: None,
        )
        groups: Any = SimpleNamespace(group_config=config.group_config)
        security = SimpleNamespace(fetch=lambda *_: None, may_read=lambda _, name: name == "orders")
        self.engine = RecordingEngine()
        listeners = Listeners("localhost")
        listeners.add(NODE, 9192)
        self.apis = ShareApis(config, groups, cast(Any, self.engine), cluster, listeners, security)

    async def fetch(self, epoch: int, topic_id: UUID, *reject: tuple[int, int]) -> Any:
        """A ShareFetch of partition 0 that waits for nothing, and rejects these offsets."""
        named = ShareFetchRequest.FetchTopic
        partition = named.FetchPartition
        entry = partition(partition_index=0, acknowledgement_batches=batches(partition, reject))
        body = ShareFetchRequest(
            group_id="g",
            member_id="m",
            share_session_epoch=epoch,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1_000,
            max_records=10,
            batch_size=10,
            topics=[named(topic_id=topic_id, partitions=[entry])],
            forgotten_topics_data=[],
        )
        return await self.apis.fetch(request(78, body))

    async def acknowledge(self, epoch: int, topic_id: UUID, *reject: tuple[int, int]) -> Any:
        """A ShareAcknowledge that rejects these offsets of partition 0."""
        named = ShareAcknowledgeRequest.AcknowledgeTopic
        partition = named.AcknowledgePartition
        entry = partition(partition_index=0, acknowledgement_batches=batches(partition, reject))
        body = ShareAcknowledgeRequest(
            group_id="g",
            member_id="m",
            share_session_epoch=epoch,
            topics=[named(topic_id=topic_id, partitions=[entry])],
        )
        return await self.apis.acknowledge(request(79, body))

    def rows(self) -> list[tuple[str, str]]:
        """(type, topic) of the rows that were sent since the last time."""
        rows, self.engine.rows = self.engine.rows, []
        return [(row.type, row.topic) for row in rows]


def topic(name: str, topic_id: UUID) -> Topic:
    return Topic(name, topic_id, {0: Leader(NODE, 0)})


def batches(partition: Any, offsets: tuple[tuple[int, int], ...]) -> list[Any]:
    return [
        partition.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[AcknowledgeType.REJECT])
        for first, last in offsets
    ]


def request(api_key: int, body: Any) -> Request:
    return Request(cast(Any, SimpleNamespace(api_key=api_key, api_version=1)), body, Caller(7, NODE, "localhost"))


def test_acknowledging_needs_the_right_to_read_the_topic() -> None:
    async def test() -> None:
        gateway = Gateway()
        await gateway.fetch(0, ORDERS)
        gateway.rows()
        refused = await gateway.acknowledge(1, SECRETS, (0, 9))
        (partition,) = refused.responses[0].partitions
        assert partition.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        refused = await gateway.fetch(2, SECRETS, (0, 9))
        found = {entry.topic_id: entry.partitions[0] for entry in refused.responses}[SECRETS]
        assert found.error_code == found.acknowledge_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert [row for row in gateway.rows() if row[1] == "secrets"] == []

    asyncio.run(test())


def test_the_end_of_the_connection_comes_behind_the_acknowledgements_that_came_with_a_fetch() -> None:
    async def test() -> None:
        gateway = Gateway()
        await gateway.fetch(0, ORDERS)
        session = gateway.apis.sessions.node(NODE).get("g", "m")
        assert session is not None
        (part,) = gateway.apis.sessions.serve(session).parts
        gateway.engine.acquire(0, 9, LOCK_MS)
        sent = [AcquiredRange(0, 9, 1)]
        part.read_ahead.take(sent, (), 0)
        part.handed_out(sent, LOCK_MS, 0)
        gateway.rows()
        fetching = asyncio.ensure_future(gateway.fetch(1, ORDERS, (0, 9)))
        while not gateway.engine.rows:
            await asyncio.sleep(0)
        gateway.apis.sessions.disconnected(7)
        assert [row for row in gateway.rows() if row[0] != FETCH] == [
            (ACKNOWLEDGE, "orders"),
            (RELEASE_MEMBER, "orders"),
        ]
        await fetching

    asyncio.run(test())
