"""One member's sessions at several nodes: which of them a share-partition belongs to, and what their ends release."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from sharegroup.config import JobConfig
from sharegroup.errors import RequestError
from sharegroup.gateway.served_session import ServedSession
from sharegroup.gateway.served_sessions import ServedSessions
from sharegroup.gateway.share_session import FINAL_EPOCH, FetchContext, TopicIdPartition
from sharegroup.protocol.request_rows import FETCH, RELEASE_MEMBER, UNACQUIRE, SharePartitionRequest
from sharegroup.types import AcquiredRange, OffsetRange, SharePartitionKey
from tests.unit.gateway.recording_engine import RecordingEngine

ORDERS = UUID(int=1)
P0, P1 = TopicIdPartition(ORDERS, 0), TopicIdPartition(ORDERS, 1)
LOCK_MS = 30_000


class Nodes:
    """A gateway's sessions of the member m of group g; a connection has the number of its node."""

    def __init__(self) -> None:
        config = JobConfig()
        self.engine = RecordingEngine()
        topic = SimpleNamespace(name="orders")
        cluster: Any = SimpleNamespace(topic_by_id=lambda _: topic, watch=lambda _: None)
        groups: Any = SimpleNamespace(group_config=config.group_config)
        self.sessions = ServedSessions(config, groups, cast(Any, self.engine), cluster)

    def fetch(
        self, node: int, epoch: int, *add: TopicIdPartition, forget: tuple[TopicIdPartition, ...] = ()
    ) -> FetchContext:
        """A ShareFetch, as far as `ShareApis` takes it before there are records."""
        context = self.sessions.node(node).fetch("g", "m", epoch, node, add, forget)
        if context.dropped is not None:
            self.sessions.end(context.dropped)
        served = self.sessions.serve(context.session)
        self.sessions.own(context.session, context.partitions)
        if epoch == 0:
            served.open(context.partitions)
        served.forget(forget, 0)
        for key in context.partitions:
            served.is_dry(key, 0)
        served.ask(context.partitions, 10, 0)
        return context

    def served(self, context: FetchContext) -> ServedSession:
        return self.sessions.serve(context.session)

    def hand_out(self, context: FetchContext, key: TopicIdPartition, first: int, last: int, sent: int) -> None:
        """The job grants the last demand first..last, of which the member is sent first..sent."""
        self.engine.acquire(first, last, LOCK_MS)
        part = self.served(context).partition(key)
        ranges = (AcquiredRange(first, sent, 1),)
        deadline_ms = part.read_ahead.take(ranges, (), 0)
        assert deadline_ms is not None
        part.handed_out(ranges, deadline_ms, 0)

    def rows(self) -> list[SharePartitionRequest]:
        """What was sent since the last time, but for fetches."""
        rows, self.engine.rows = self.engine.rows, []
        return [row for row in rows if row.type != FETCH]


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


def test_the_end_of_a_session_releases_its_own_share_partitions(nodes: Nodes) -> None:
    context = nodes.fetch(1, 0, P0)
    nodes.hand_out(context, P0, 0, 9, 3)
    nodes.rows()
    nodes.sessions.disconnected(1)
    (row,) = nodes.rows()
    assert (row.type, row.partition, row.delivered) == (RELEASE_MEMBER, 0, (OffsetRange(0, 3),))


def test_a_share_partition_that_moved_to_another_node_stays_with_the_session_there(nodes: Nodes) -> None:
    """The leader of partition 0 moves from node 1 to node 2; then the connection to node 1 breaks."""
    old = nodes.fetch(1, 0, P0, P1)
    nodes.engine.rows = [row for row in nodes.engine.rows if row.partition == 0]
    nodes.hand_out(old, P0, 0, 9, 3)
    nodes.rows()
    new = nodes.fetch(2, 0, P0)
    assert [(row.type, row.acquired) for row in nodes.rows()] == [
        (UNACQUIRE, (AcquiredRange(4, 9, 1),)),
        (RELEASE_MEMBER, ()),
    ]
    nodes.sessions.disconnected(1)
    assert [(row.type, row.partition) for row in nodes.rows()] == [(RELEASE_MEMBER, 1)]
    nodes.engine.time_ms = 1
    nodes.fetch(2, 1)
    nodes.sessions.disconnected(2)
    assert [(row.type, row.partition) for row in nodes.rows()] == [(RELEASE_MEMBER, 0)]
    assert not nodes.served(new).parts


def test_a_share_partition_may_move_there_and_back(nodes: Nodes) -> None:
    nodes.fetch(1, 0, P0)
    nodes.fetch(2, 0, P0)
    nodes.fetch(1, 1)
    nodes.rows()
    nodes.sessions.disconnected(2)
    assert nodes.rows() == []
    nodes.sessions.disconnected(1)
    assert [row.type for row in nodes.rows()] == [RELEASE_MEMBER]


def test_what_a_member_has_forgotten_keeps_its_locks(nodes: Nodes) -> None:
    context = nodes.fetch(1, 0, P0)
    nodes.hand_out(context, P0, 0, 9, 3)
    nodes.rows()
    nodes.fetch(1, 1, forget=(P0,))
    assert [(row.type, row.acquired) for row in nodes.rows()] == [(UNACQUIRE, (AcquiredRange(4, 9, 1),))]
    nodes.sessions.disconnected(1)
    assert nodes.rows() == []


def test_all_sessions_end_with_the_gateway(nodes: Nodes) -> None:
    nodes.fetch(1, 0, P0)
    nodes.fetch(2, 0, P1)
    nodes.rows()
    nodes.sessions.close()
    nodes.sessions.close()
    assert [(row.type, row.partition) for row in nodes.rows()] == [(RELEASE_MEMBER, 0), (RELEASE_MEMBER, 1)]


def test_a_session_that_ended_while_its_request_waited_is_not_served_again(nodes: Nodes) -> None:
    context = nodes.fetch(1, 0, P0)
    nodes.sessions.check_open(1, context)
    nodes.fetch(1, 0, P0)
    with pytest.raises(RequestError, match="SHARE_SESSION_NOT_FOUND"):
        nodes.sessions.check_open(1, context)
    final = nodes.sessions.node(1).fetch("g", "m", FINAL_EPOCH, 1)
    nodes.sessions.check_open(1, final)


def test_what_lies_here_unused_goes_to_members_of_another_gateway_that_wait(nodes: Nodes) -> None:
    context = nodes.fetch(1, 0, P0, P1)
    nodes.engine.rows = [row for row in nodes.engine.rows if row.partition == 0]
    nodes.hand_out(context, P0, 0, 9, 3)
    nodes.rows()
    (wanted,) = nodes.engine.wanted
    wanted(SharePartitionKey("g", "orders", 1))
    assert nodes.rows() == []
    wanted(SharePartitionKey("g", "orders", 0))
    assert [(row.type, row.acquired) for row in nodes.rows()] == [(UNACQUIRE, (AcquiredRange(4, 9, 1),))]


def test_demands_are_sent_again_to_a_job_that_has_started(nodes: Nodes) -> None:
    context = nodes.fetch(1, 0, P0)
    served = nodes.served(context)
    served.ask([P0], 10, 1)
    assert [row.type for row in nodes.engine.rows].count(FETCH) == 1
    (tell,) = nodes.engine.new_leader
    tell()
    served.ask([P0], 10, 2)
    assert [row.type for row in nodes.engine.rows].count(FETCH) == 2
