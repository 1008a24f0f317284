"""A conversation with the share APIs of a gateway: requests of clients, rows and responses of the job, responses.

    client.send(share_fetch(0, ORDERS, max_wait_ms=LONG_MS))
    job.receive(FETCH)
    job.acquire(0, 9)
    assert client.receive() == {ORDERS: Entry(acquired=[(0, 9, 1)])}

The gateway runs only while the test receives something.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from sharegroup.config import Config
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.open_outcomes import OpenLeaves
from sharegroup.gateway.handlers.share.heartbeat import ShareGroupHeartbeat
from sharegroup.gateway.handlers.share.share_fetch import ShareApis
from sharegroup.gateway.records.slicing import Slice
from sharegroup.gateway.sessions.member_identities import MemberIdentities
from sharegroup.gateway.sessions.member_leases import MemberLeases
from sharegroup.gateway.upstream.listeners import Listeners
from sharegroup.gateway.wire.request import Request
from sharegroup.kafka_clients.connections.headers import decode_response, encode_pieces, read_header
from sharegroup.protocol.messages import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange, OffsetRange
from tests.harness.event_loop import EventLoop
from tests.unit.gateway.known_cluster import KnownCluster
from tests.unit.gateway.passthrough_cases import ALICE, alice_may
from tests.unit.gateway.recording_job import RecordingJob
from tests.unit.gateway.wire_bytes import decode, request_frame

ORDERS, SECRETS, BILLS = UUID(int=1), UUID(int=2), UUID(int=3)
NODE, OTHER_NODE, OTHER_PORT = ALICE.node_id, 2, 9193
#: Longer than any test takes.
LONG_MS = 120_000


class Job(RecordingJob):
    """A job whose rows the test receives one by one."""

    def __init__(self, loop: EventLoop) -> None:
        super().__init__()
        self._loop, self._received = loop, 0

    def receive(self, kind: str) -> Any:
        """Wait for the next row of a type, past rows of other types."""
        while True:
            self._loop.until(lambda: len(self.rows) > self._received)
            self._received += 1
            if self.rows[self._received - 1].type == kind:
                return self.rows[self._received - 1]

    def unread(self) -> list[Any]:
        """Return all rows since the last one that was received."""
        rows = self.rows[self._received :]
        self._received = len(self.rows)
        return rows


@dataclass(frozen=True)
class Entry:
    """A partition in a response of ShareFetch or ShareAcknowledge; `acquired` are (first, last, delivery count)."""

    error: int = 0
    acknowledge_error: int = 0
    acquired: list[tuple[int, int, int]] = field(default_factory=list)


class Client:
    """A connection of the member m of the group g, with one request at a time."""

    def __init__(self, loop: EventLoop, routes: dict[Any, Any], connection_id: int) -> None:
        self._loop, self._routes = loop, routes
        self.caller = replace(ALICE, connection_id=connection_id)
        #: The last response.
        self.response: Any = None

    def send(self, body: Any, version: int = 1) -> None:
        """Send a request."""
        frame = request_frame(body, version)
        handler, response = self._routes[type(body)]
        sent = Request(read_header(frame), decode(type(body), frame), self.caller)

        async def respond() -> Any:
            pieces = encode_pieces(await handler(sent), version, sent.header.correlation_id)
            return decode_response(response, version, memoryview(b"".join(pieces))[4:])

        self.responding = self._loop.start(respond())

    def receive(self) -> Any:
        """Wait for the response: entries by topic, or the error of all; the message itself for a heartbeat."""
        self.response = self._loop.finish(self.responding)
        if isinstance(self.response, ShareGroupHeartbeatResponse):
            return self.response
        if self.response.error_code:
            return self.response.error_code
        return {topic.topic_id: _entry(*topic.partitions) for topic in self.response.responses}

    def is_waiting(self) -> bool:
        """Return whether the gateway waits for something before it responds."""
        self._loop.settle()
        return not self.responding.done()


def _entry(partition: Any) -> Entry:
    if isinstance(partition, ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse.PartitionData):
        return Entry(acknowledge_error=partition.error_code)
    acquired = [(each.first_offset, each.last_offset, each.delivery_count) for each in partition.acquired_records]
    return Entry(partition.error_code, partition.acknowledge_error_code, acquired)


class ShareGateway:
    """The share APIs of a gateway. Alice, whose clients are the member m of the group g, may not read `secrets`."""

    def __init__(self, loop: EventLoop) -> None:
        config = Config()
        self.loop, self.job = loop, Job(loop)
        self.cluster = KnownCluster(orders=(ORDERS, NODE), secrets=(SECRETS, NODE), bills=(BILLS, NODE))
        self.group_config = config.group_config("g")
        configs: Any = SimpleNamespace(group_config=lambda _: self.group_config)
        security = alice_may("All group *", "All topic *", "Deny All topic secrets")
        listeners = Listeners("localhost")
        listeners.add(NODE, 9192)
        listeners.add(OTHER_NODE, OTHER_PORT)
        self.leases, self.identities, self.open_leaves = MemberLeases(), MemberIdentities(configs), OpenLeaves()
        #: (node id, group id) of each look-up of the groups of the brokers.
        self.looked_up: list[tuple[int, str]] = []
        job = cast(Any, self.job)
        self.apis = ShareApis(
            config, configs, job, self.cluster, listeners, security, self.leases, self.identities
        )  # fmt: skip
        upstream_groups: Any = SimpleNamespace(check_joined=self._check_joined)
        heartbeat = ShareGroupHeartbeat(
            job, self.cluster, security, self.leases, upstream_groups, self.identities,
            self.apis.open_acknowledgements, self.open_leaves,
        )  # fmt: skip
        self._routes = {
            ShareFetchRequest: (self.apis.fetch, ShareFetchResponse),
            ShareAcknowledgeRequest: (self.apis.acknowledge, ShareAcknowledgeResponse),
            ShareGroupHeartbeatRequest: (heartbeat, ShareGroupHeartbeatResponse),
        }
        self._connections = 0

    async def _check_joined(self, node_id: int, group_id: str) -> None:
        self.looked_up.append((node_id, group_id))
        if group_id == "classic":
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, "not a share group")

    def connect(self) -> Client:
        """Return a client with a new connection."""
        self._connections += 1
        return Client(self.loop, self._routes, self._connections)

    def alter_group(self, **values: Any) -> None:
        """Alter the configuration of all groups."""
        self.group_config = replace(self.group_config, **values)


def heartbeat(epoch: int, topics: list[str] | None = None, group_id: str = "g") -> ShareGroupHeartbeatRequest:
    """Return a heartbeat that subscribes to `topics`."""
    return ShareGroupHeartbeatRequest(
        group_id=group_id, member_id="m", member_epoch=epoch, rack_id=None, subscribed_topic_names=topics
    )


def share_fetch(
    epoch: int, *topic_ids: UUID, reject: tuple[int, int] | None = None, max_wait_ms: int = 0, min_bytes: int = 1,
    max_records: int = 10, acquire_mode: int = 0,
) -> ShareFetchRequest:  # fmt: skip
    """Return a ShareFetch of partition 0 of these topics that rejects offsets (first, last) of each."""
    topic = ShareFetchRequest.FetchTopic
    return ShareFetchRequest(
        group_id="g", member_id="m", share_session_epoch=epoch, max_wait_ms=max_wait_ms, min_bytes=min_bytes,
        max_bytes=1_000_000, max_records=max_records, batch_size=10, share_acquire_mode=acquire_mode,
        topics=[_rejecting(topic, topic.FetchPartition, topic_id, reject) for topic_id in topic_ids],
        forgotten_topics_data=[],
    )  # fmt: skip


def share_acknowledge(
    epoch: int, topic_id: UUID, reject: tuple[int, int], unused: tuple[int, int] | None = None
) -> ShareAcknowledgeRequest:
    """Return a ShareAcknowledge that rejects offsets (first, last) of partition 0, and releases unused ones."""
    topic = ShareAcknowledgeRequest.AcknowledgeTopic
    topics = [_rejecting(topic, topic.AcknowledgePartition, topic_id, reject)]
    if unused is not None:
        batch = topic.AcknowledgePartition.AcknowledgementBatch(
            first_offset=unused[0], last_offset=unused[1], acknowledge_types=[AcknowledgeType.RELEASE], is_unused=True
        )
        topics[0].partitions[0].acknowledgement_batches.append(batch)
    return ShareAcknowledgeRequest(group_id="g", member_id="m", share_session_epoch=epoch, topics=topics)


def _rejecting(topic: Any, partition: Any, topic_id: UUID, offsets: tuple[int, int] | None) -> Any:
    batches = [
        partition.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[AcknowledgeType.REJECT])
        for first, last in ([] if offsets is None else [offsets])
    ]
    return topic(topic_id=topic_id, partitions=[partition(partition_index=0, acknowledgement_batches=batches)])


def acknowledging(first: int, last: int, *types: int) -> AcknowledgementBatch:
    """Return an acknowledgement of these offsets, by default an accept."""
    return AcknowledgementBatch(first, last, types or (AcknowledgeType.ACCEPT,))


def sliced(first: int, last: int, count: int = 1, gaps: tuple[OffsetRange, ...] = ()) -> Slice:
    """Return these records as a part of a response; `gaps` have no records."""
    return Slice([AcquiredRange(first, last, count)], [], list(gaps), [], last - first + 1, 0)
