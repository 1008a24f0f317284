"""One member's sessions at several nodes: the session that owns a share-partition, and what is released at its end."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from sharegroup.config import Config
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.sessions.member_identities import MemberIdentities
from sharegroup.gateway.sessions.member_leases import MemberLeases
from sharegroup.gateway.sessions.member_partition import RETRY_MS
from sharegroup.gateway.sessions.member_session import MemberSession
from sharegroup.gateway.sessions.member_sessions import SHARE_INTERVAL_MS, MemberSessions
from sharegroup.protocol.rows.broadcasts import MemberLeftBroadcast, NewLeaderBroadcast, TopicDeletedBroadcast
from sharegroup.protocol.rows.share_partition_requests import (
    ACKNOWLEDGE,
    FETCH,
    RELEASE_MEMBER,
    UNACQUIRE,
    FetchRequest,
    SharePartitionRequest,
    UnacquireRequest,
    decode_share_partition_request,
)
from sharegroup.protocol.share_session import FINAL_EPOCH, FetchContext, SessionKey, TopicIdPartition
from sharegroup.protocol.topic_ids import topic_id_text
from sharegroup.types import AcquiredRange, OffsetRange, SharePartitionKey
from tests.unit.gateway.conversation import ORDERS, acknowledging, sliced
from tests.unit.gateway.recording_job import LOCK_MS, RecordingJob

P0, P1 = TopicIdPartition(ORDERS, 0), TopicIdPartition(ORDERS, 1)


class Nodes:
    """The sessions of member m of group g at one gateway; a connection has the number of its node."""

    def __init__(self) -> None:
        config = Config()
        self.job = RecordingJob()
        topic = SimpleNamespace(name="orders")
        self.deleted: list[UUID] = []
        cluster: Any = SimpleNamespace(
            topic_by_id=lambda _: topic, on_log_change=lambda _: None, mark_deleted=self.deleted.append
        )
        groups: Any = SimpleNamespace(group_config=config.group_config)
        self.leases = MemberLeases()
        self.identities = MemberIdentities(groups)
        self.sessions = MemberSessions(config, groups, cast(Any, self.job), cluster, self.leases, self.identities)

    def fetch(
        self,
        node: int,
        epoch: int,
        *add: TopicIdPartition,
        forget: tuple[TopicIdPartition, ...] = (),
        member: str = "m",
        now_ms: int = 0,
    ) -> FetchContext:
        """Process a ShareFetch as `ShareApis` does, up to the point where records are needed."""
        context = self.sessions.sessions_at(node).fetch_context("g", member, epoch, node, add, forget)
        if context.dropped is not None:
            self.sessions.end_session(context.dropped)
        served = self.sessions.get_served(context.session)
        moved = self.sessions.move_partitions(context.session, context.partitions)
        if epoch == 0:
            served.open([key for key in context.partitions if key not in moved])
        served.forget(forget)
        for key in context.partitions:
            served.get_partition(key)
            served.begin_wait(key, now_ms)
        served.request_records(context.partitions, 10, now_ms)
        return context

    def served(self, context: FetchContext) -> MemberSession:
        return self.sessions.get_served(context.session)

    def hand_out(self, context: FetchContext, key: TopicIdPartition, first: int, last: int, sent: int) -> None:
        """Let the last demand acquire first..last, of which the member is sent first..sent."""
        self.job.acquire(first, last, LOCK_MS)
        part = self.served(context).get_partition(key)
        part.deliver(sliced(first, sent), 0)

    def acknowledge(self, context: FetchContext, key: TopicIdPartition, first: int, last: int) -> int:
        """Acknowledge through this session; return the error code of the gateway's own answer."""
        lease = self.leases.get_or_create("g", "m")
        lease.extend(LOCK_MS)
        part = self.sessions.get_member_partition(context.session, key)

        async def settle() -> int:
            return (await part.acknowledge([acknowledging(first, last)], False, lease, 0, 0))[0]

        return asyncio.run(settle())

    def rows(self) -> list[SharePartitionRequest]:
        """Return the rows sent since the last call, without fetch requests."""
        rows, self.job.rows = self.job.rows, []
        return [row for row in rows if row.type != FETCH]


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


def test_the_end_of_a_session_releases_its_own_share_partitions(nodes: Nodes) -> None:
    context = nodes.fetch(1, 0, P0)
    nodes.hand_out(context, P0, 0, 9, 3)
    nodes.rows()
    nodes.sessions.on_disconnect(1)
    (row,) = nodes.rows()
    assert (row.type, row.partition, row.delivered) == (RELEASE_MEMBER, 0, (OffsetRange(0, 3),))


def test_moved_share_partition_stays_with_the_session_at_the_new_node(nodes: Nodes) -> None:
    """The leader of partition 0 moves from node 1 to node 2; then the connection to node 1 breaks."""
    old = nodes.fetch(1, 0, P0, P1)
    nodes.job.rows = [row for row in nodes.job.rows if row.partition == 0]
    nodes.hand_out(old, P0, 0, 9, 3)
    nodes.rows()
    new = nodes.fetch(2, 0, P0)
    assert nodes.rows() == []
    nodes.sessions.on_disconnect(1)
    assert [(row.type, row.partition) for row in nodes.rows()] == [(RELEASE_MEMBER, 1)]
    nodes.job.time_ms = 1
    nodes.fetch(2, 1)
    nodes.sessions.on_disconnect(2)
    assert [(row.type, row.partition, row.delivered) for row in nodes.rows()] == [
        (RELEASE_MEMBER, 0, (OffsetRange(0, 3),))
    ]
    assert not nodes.served(new).member_partitions


def test_after_a_leader_change_either_session_accepts_acknowledgements(nodes: Nodes) -> None:
    old = nodes.fetch(1, 0, P0)
    nodes.hand_out(old, P0, 0, 9, 5)
    new = nodes.fetch(2, 0, P0)
    nodes.rows()
    assert nodes.acknowledge(new, P0, 0, 1) == nodes.acknowledge(old, P0, 2, 3) == ErrorCode.NONE
    assert [(row.type, row.acquired) for row in nodes.rows()] == [
        (ACKNOWLEDGE, (AcquiredRange(0, 1, 1),)),
        (ACKNOWLEDGE, (AcquiredRange(2, 3, 1),)),
    ]
    nodes.sessions.on_disconnect(1)
    assert nodes.acknowledge(new, P0, 4, 5) == ErrorCode.NONE


def test_share_partition_may_move_back_to_its_first_node(nodes: Nodes) -> None:
    nodes.fetch(1, 0, P0)
    nodes.fetch(2, 0, P0)
    nodes.fetch(1, 1)
    nodes.rows()
    nodes.sessions.on_disconnect(2)
    assert nodes.rows() == []
    nodes.sessions.on_disconnect(1)
    assert [row.type for row in nodes.rows()] == [RELEASE_MEMBER]


def test_forgotten_partition_keeps_its_locks(nodes: Nodes) -> None:
    context = nodes.fetch(1, 0, P0)
    nodes.hand_out(context, P0, 0, 9, 3)
    nodes.rows()
    nodes.fetch(1, 1, forget=(P0,))
    assert [(row.type, row.acquired) for row in nodes.rows()] == [(UNACQUIRE, (AcquiredRange(4, 9, 1),))]
    nodes.sessions.on_disconnect(1)
    assert nodes.rows() == []


def test_all_sessions_end_when_the_gateway_stops(nodes: Nodes) -> None:
    nodes.fetch(1, 0, P0)
    nodes.fetch(2, 0, P1)
    nodes.rows()
    nodes.sessions.close()
    nodes.sessions.close()
    assert [(row.type, row.partition) for row in nodes.rows()] == [(RELEASE_MEMBER, 0), (RELEASE_MEMBER, 1)]


def test_drain_unacquires_read_ahead_and_waits_for_held_records(nodes: Nodes) -> None:
    context = nodes.fetch(1, 0, P0)
    nodes.hand_out(context, P0, 0, 9, 3)
    nodes.fetch(2, 0, P1)
    nodes.sessions.drain()
    assert nodes.sessions.is_draining
    nodes.job.acquire(20, 29, LOCK_MS)  # requested before
    given_back = [row.acquired for row in nodes.rows() if row.type == UNACQUIRE]
    assert given_back == [(AcquiredRange(4, 9, 1),), (AcquiredRange(20, 29, 1),)]
    assert nodes.sessions.connection_holds_records(1)
    assert not nodes.sessions.connection_holds_records(2)
    assert nodes.sessions.member_holds_records(SessionKey("g", "m"))
    assert not nodes.sessions.member_holds_records(SessionKey("g", "another"))
    assert nodes.acknowledge(context, P0, 0, 3) == ErrorCode.NONE
    assert not nodes.sessions.connection_holds_records(1)
    assert not nodes.sessions.member_holds_records(SessionKey("g", "m"))


def test_drain_does_not_wait_for_expired_locks(nodes: Nodes) -> None:
    context = nodes.fetch(1, 0, P0)
    nodes.hand_out(context, P0, 0, 9, 9)
    assert nodes.sessions.connection_holds_records(1)
    nodes.job.time_ms = LOCK_MS
    assert not nodes.sessions.connection_holds_records(1)


def test_session_that_ended_during_its_request_is_not_served_again(nodes: Nodes) -> None:
    context = nodes.fetch(1, 0, P0)
    nodes.sessions.check_open(1, context)
    nodes.fetch(1, 0, P0)
    with pytest.raises(RequestError, match="SHARE_SESSION_NOT_FOUND"):
        nodes.sessions.check_open(1, context)
    final = nodes.sessions.sessions_at(1).fetch_context("g", "m", FINAL_EPOCH, 1)
    nodes.sessions.check_open(1, final)


def test_unused_read_ahead_goes_to_waiting_members_of_other_gateways(nodes: Nodes) -> None:
    context = nodes.fetch(1, 0, P0, P1)
    nodes.job.rows = [row for row in nodes.job.rows if row.partition == 0]
    nodes.hand_out(context, P0, 0, 9, 3)
    nodes.rows()
    (wanted,) = nodes.job.wanted
    wanted(SharePartitionKey("g", "orders", topic_id_text(ORDERS), 1))
    assert nodes.rows() == []
    wanted(SharePartitionKey("g", "orders", topic_id_text(ORDERS), 0))
    assert [(row.type, row.acquired) for row in nodes.rows()] == [(UNACQUIRE, (AcquiredRange(4, 9, 1),))]


def test_demands_are_sent_again_to_a_job_that_has_started(nodes: Nodes) -> None:
    context = nodes.fetch(1, 0, P0)
    served = nodes.served(context)
    served.request_records([P0], 10, 1)
    assert [row.type for row in nodes.job.rows].count(FETCH) == 1
    nodes.job.tell(NewLeaderBroadcast())
    served.request_records([P0], 10, 2)
    assert [row.type for row in nodes.job.rows].count(FETCH) == 2


def test_member_that_left_holds_nothing_and_has_no_lease(nodes: Nodes) -> None:
    context = nodes.fetch(1, 0, P0)
    nodes.hand_out(context, P0, 0, 9, 3)
    lease = nodes.leases.get_or_create("g", "m")
    lease.extend(LOCK_MS)
    nodes.rows()
    nodes.job.tell(MemberLeftBroadcast("g", "another", 3))
    nodes.job.tell(MemberLeftBroadcast("another", "m", 3))
    assert (nodes.rows(), lease.is_valid_at(0)) == ([], True)
    nodes.job.tell(MemberLeftBroadcast("g", "m", 3))
    assert not lease.is_valid_at(0)
    assert [(row.type, row.acquired) for row in nodes.rows()] == [(UNACQUIRE, (AcquiredRange(4, 9, 1),))]
    assert nodes.acknowledge(context, P0, 0, 3) == ErrorCode.INVALID_RECORD_STATE


def test_state_of_a_deleted_topic_is_discarded_without_rows(nodes: Nodes) -> None:
    context = nodes.fetch(1, 0, P0)
    nodes.hand_out(context, P0, 0, 9, 3)
    nodes.rows()
    nodes.job.tell(TopicDeletedBroadcast("g", topic_id_text(UUID(int=9))))
    assert [part.key.partition for part in nodes.served(context).member_partitions] == [0]
    nodes.job.tell(TopicDeletedBroadcast("g", "no id"))
    nodes.job.tell(TopicDeletedBroadcast("g", topic_id_text(ORDERS)))
    assert nodes.deleted == [UUID(int=9), ORDERS]
    assert not nodes.served(context).member_partitions
    nodes.sessions.on_disconnect(1)
    assert nodes.rows() == []


def test_records_for_a_forgotten_partition_are_unacquired_by_upkeep(nodes: Nodes) -> None:
    nodes.fetch(1, 0, P0)
    nodes.fetch(1, 1, forget=(P0,))
    nodes.rows()
    nodes.job.rows = [FetchRequest("1", "g", "orders", topic_id_text(ORDERS), 0, "m", max_records=1)]
    nodes.job.acquire(0, 9, LOCK_MS)
    nodes.sessions.upkeep()
    assert [(row.type, row.acquired) for row in nodes.rows()] == [(UNACQUIRE, (AcquiredRange(0, 9, 1),))]


class Worker:
    """A member that polls 50 records, with 100 records of read-ahead."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes, self.context = nodes, nodes.fetch(1, 0, P0)
        self.served = nodes.served(self.context)
        nodes.rows()
        self._offset = 0

    def poll(self, now_ms: int) -> None:
        """Let the member fetch, get records immediately and process them."""
        self.served.rhythm.begin_fetch(now_ms)
        part = self.served.get_partition(P0)
        part.read_ahead.remove_all()
        part.read_ahead.record_demand("demand", 150, now_ms)
        ranges = [AcquiredRange(self._offset, self._offset + 149, 1)]
        part.read_ahead.add_response("demand", ranges, now_ms + LOCK_MS, now_ms)
        part.on_change()
        part.deliver(sliced(self._offset, self._offset + 49), now_ms)
        self._offset += 150
        self.served.rhythm.end_fetch(50, now_ms)

    def loses_it_at(self, now_ms: int, until_ms: int) -> int | None:
        """Return when the read-ahead is unacquired if the member does not fetch again."""
        for at_ms in range(now_ms, until_ms, 100):
            self.nodes.job.time_ms = at_ms
            self.nodes.sessions.upkeep()
            if self.nodes.rows():
                return at_ms - now_ms
        return None


@pytest.mark.parametrize(
    "pause_ms", [1, 100, 1_000, 5_000, 10_000], ids=["no work", "2 ms", "20 ms", "100 ms", "200 ms"]
)
def test_member_processing_50_records_keeps_its_read_ahead(nodes: Nodes, pause_ms: int) -> None:
    """20 ms per record are 1 s per poll."""
    worker = Worker(nodes)
    for now_ms in range(0, 8 * pause_ms, pause_ms):
        worker.poll(now_ms)
        assert worker.loses_it_at(now_ms, now_ms + pause_ms) is None


@pytest.mark.parametrize(("pause_ms", "idle_ms"), [(1, 500), (100, 500), (1_000, 4_000), (5_000, 12_000)])
def test_member_is_idle_after_several_intervals_or_two_fifths_of_the_lock(
    nodes: Nodes, pause_ms: int, idle_ms: int
) -> None:
    worker = Worker(nodes)
    for now_ms in range(0, 4 * pause_ms, pause_ms):
        worker.poll(now_ms)
    assert worker.loses_it_at(now_ms, 60_000) == idle_ms


def test_new_member_is_idle_after_two_fifths_of_the_lock(nodes: Nodes) -> None:
    worker = Worker(nodes)
    worker.poll(0)
    assert worker.loses_it_at(0, 60_000) == 2 * LOCK_MS // 5


def test_read_ahead_of_a_slow_member_goes_to_waiting_gateways(nodes: Nodes) -> None:
    worker = Worker(nodes)
    for now_ms in range(0, 8_000, 1_000):
        worker.poll(now_ms)
    nodes.job.time_ms = 7_000
    (wanted,) = nodes.job.wanted
    wanted(SharePartitionKey("g", "orders", topic_id_text(ORDERS), 0))
    (row,) = nodes.rows()
    assert (row.type, row.acquired) == (UNACQUIRE, (AcquiredRange(1_125, 1_199, 1),))  # it consumes 25 within 500 ms


def test_read_ahead_of_a_slow_member_goes_to_waiting_members_here(nodes: Nodes) -> None:
    worker = Worker(nodes)
    for now_ms in range(0, 8_000, 1_000):
        worker.poll(now_ms)
    nodes.fetch(1, 0, P0, member="other", now_ms=7_000)
    nodes.rows()
    for now_ms, expected in ((7_499, []), (7_500, [UNACQUIRE])):
        nodes.job.time_ms = now_ms
        nodes.sessions.upkeep()
        assert [row.type for row in nodes.rows()] == expected


def test_members_share_locks_half_delivered_and_half_read_ahead(nodes: Nodes) -> None:
    contexts = [nodes.fetch(1, 0, P0, member=f"m{number}") for number in range(8)]
    parts = [nodes.served(context).get_partition(P0).read_ahead for context in contexts]
    for part in parts:
        part.credit.record_delivery(1, 0)
    nodes.sessions.upkeep()
    assert [part.credit.max_records_now(500, 0) for part in parts] == [500] * 8
    for part in parts[1:]:
        part.end_wait()  # they hold nothing and do not wait
    nodes.job.time_ms += SHARE_INTERVAL_MS
    nodes.sessions.upkeep()
    assert parts[0].credit.max_records_now(500, 0) == 500


# -- static members ----------------------------------------------------------------------------------------------------


@pytest.fixture
def named(nodes: Nodes) -> Nodes:
    """Return nodes where the incarnation m is a static member whose id is stored."""
    nodes.identities.add(SessionKey("g", "m"), "stored")
    return nodes


def test_rows_of_a_static_member_name_it_and_its_incarnation(named: Nodes) -> None:
    named.job.time_ms = 5
    context = named.fetch(1, 0, P0)
    (fetch,) = named.job.rows
    assert isinstance(fetch, FetchRequest)
    assert (fetch.member_id, fetch.incarnation_id, fetch.is_static, fetch.opened_ms) == ("stored", "m", True, 5)
    named.hand_out(context, P0, 0, 9, 9)
    named.fetch(1, 1)
    later = named.job.rows[-1]
    assert isinstance(later, FetchRequest)
    assert (later.id != fetch.id, later.is_static, later.opened_ms) == (True, True, -1)


def test_static_member_keeps_its_records_when_its_connection_closes(named: Nodes) -> None:
    context = named.fetch(1, 0, P0)
    named.hand_out(context, P0, 0, 9, 3)
    named.rows()
    named.sessions.on_disconnect(1)
    (row,) = named.rows()  # records that were not sent do not count as delivered
    assert isinstance(row, UnacquireRequest)
    assert (row.acquired, row.member_id, row.incarnation_id) == ((AcquiredRange(4, 9, 1),), "stored", "m")


def test_static_member_releases_its_records_when_it_ends_its_session(named: Nodes) -> None:
    context = named.fetch(1, 0, P0)
    named.hand_out(context, P0, 0, 9, 3)
    named.rows()
    final = named.sessions.sessions_at(1).fetch_context("g", "m", FINAL_EPOCH, 1)
    named.sessions.end_session(final.session, is_final=True)
    (row,) = named.rows()
    assert (row.type, row.member_id, row.incarnation_id) == (RELEASE_MEMBER, "stored", "m")
    assert row.delivered == (OffsetRange(0, 3),)


def test_static_member_may_hold_what_an_earlier_process_was_sent(named: Nodes) -> None:
    context = named.fetch(1, 0, P0)
    named.rows()
    named.sessions.end_session(context.session, is_final=True)
    (row,) = named.rows()
    assert (row.type, row.delivered, row.requester) == (RELEASE_MEMBER, None, "gateway")
    assert decode_share_partition_request(row.encode().decode()) == row


def test_static_member_requests_its_records_in_a_new_session(named: Nodes) -> None:
    context = named.fetch(1, 0, P0)
    named.hand_out(context, P0, 0, 3, 3)
    named.rows()
    named.job.time_ms = 7
    named.fetch(1, 0, P0)
    assert named.job.rows
    assert {(row.type, getattr(row, "opened_ms", None)) for row in named.job.rows} == {(FETCH, 7)}


def opened_ms_of_fetches(nodes: Nodes) -> list[int]:
    return [row.opened_ms for row in nodes.job.rows if isinstance(row, FetchRequest)]


def test_repeated_fetch_request_does_not_report_the_session_again(named: Nodes) -> None:
    """A job that restarts from the tables does not know that the first fetch request got records."""
    named.fetch(1, 0, P0)
    named.job.tell(NewLeaderBroadcast())
    named.fetch(1, 1)
    assert opened_ms_of_fetches(named) == [0, -1]


def test_failed_first_fetch_request_is_repeated_as_the_first_one(named: Nodes) -> None:
    named.fetch(1, 0, P0)
    named.job.fail_last()
    named.fetch(1, 1, now_ms=RETRY_MS)
    assert opened_ms_of_fetches(named) == [0, 0]


def test_static_member_that_left_is_identified_by_its_own_id(named: Nodes) -> None:
    context = named.fetch(1, 0, P0)
    named.hand_out(context, P0, 0, 9, 3)
    named.rows()
    named.job.tell(MemberLeftBroadcast("g", "m", 3))
    assert named.rows() == []
    named.job.tell(MemberLeftBroadcast("g", "stored", 3))
    assert [row.type for row in named.rows()] == [UNACQUIRE]
    assert named.acknowledge(context, P0, 0, 3) == ErrorCode.INVALID_RECORD_STATE
