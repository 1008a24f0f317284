"""ShareFetch and ShareAcknowledge: order of acknowledgements, ends of waiting fetches, deleted topics."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from sharegroup.config import IsolationLevel
from sharegroup.errors import ErrorCode
from sharegroup.gateway.handlers.share.share_fetch import RECORD_LIMIT
from sharegroup.gateway.records import log_reader
from sharegroup.gateway.sessions.member_partition import ROUND_MS, MemberPartition
from sharegroup.gateway.sessions.member_sessions import DEMAND_WAIT_MS
from sharegroup.gateway.upstream import cluster as upstream_cluster
from sharegroup.protocol.rows.broadcasts import MemberLeftBroadcast, TopicDeletedBroadcast
from sharegroup.protocol.rows.share_partition_requests import ACKNOWLEDGE, FETCH, RELEASE_MEMBER, UNACQUIRE
from sharegroup.protocol.topic_ids import topic_id_text
from sharegroup.types import AcknowledgeType, AcquiredRange
from tests.unit.gateway import log_batches
from tests.unit.gateway.conversation import (
    BILLS,
    LONG_MS,
    NODE,
    ORDERS,
    OTHER_NODE,
    OTHER_PORT,
    SECRETS,
    Client,
    Entry,
    Job,
    ShareGateway,
    acknowledging,
    heartbeat,
    share_acknowledge,
    share_fetch,
    sliced,
)
from tests.unit.gateway.known_cluster import partition_data
from tests.unit.gateway.recording_job import LOCK_MS

RECREATED, NOT_THERE = UUID(int=9), UUID(int=99)
BATCH_OPTIMIZED = 0
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_ID


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_cluster, "REFRESH_PAUSE_S", 0.0)
    monkeypatch.setattr(log_reader, "FIRST_PAUSE_S", 0.01)


@pytest.fixture(autouse=True)
def _lease(gateway: ShareGateway) -> None:
    """Let the gateway know that the member is in its group."""
    gateway.leases.get_or_create("g", "m").extend(10 * LOCK_MS)


@pytest.fixture
def opener(client: Client, job: Job) -> Client:
    """Return a client that has opened a session for `orders`, while nothing was available."""
    client.send(share_fetch(0, ORDERS))
    client.receive()
    job.unread()
    return client


@pytest.fixture
def holder(gateway: ShareGateway, opener: Client, job: Job) -> Client:
    """Return a client that has opened a session and was sent records 0 to 9 of `orders`."""
    job.acquire(0, 9)
    part(gateway).deliver(sliced(0, 9), 0)
    return opener


def part(gateway: ShareGateway, name: str = "orders") -> MemberPartition:
    """Return the member's state in partition 0 of a topic."""
    session = gateway.apis.sessions.sessions_at(NODE).get("g", "m")
    assert session is not None
    return next(part for part in gateway.apis.sessions.get_served(session).member_partitions if part.key.topic == name)


def set_log(gateway: ShareGateway, *batches: tuple[int, int]) -> None:
    """Let the next reads of a log find these batches: (first offset, number of records)."""
    gateway.cluster.answers = [partition_data(log_batches.batch(*batch)) for batch in batches]


# -- acknowledgements --------------------------------------------------------------------------------------------------


def test_acknowledging_requires_the_right_to_read_the_topic(opener: Client, job: Job) -> None:
    opener.send(share_acknowledge(1, SECRETS, (0, 9)))
    assert opener.receive() == {SECRETS: Entry(acknowledge_error=DENIED)}
    opener.send(share_fetch(2, SECRETS, reject=(0, 9)))
    assert opener.receive() == {SECRETS: Entry(DENIED, DENIED)}
    assert [row for row in job.unread() if row.topic == "secrets"] == []


@pytest.mark.parametrize(
    "closing",
    [share_fetch(-1, ORDERS, reject=(0, 4), max_wait_ms=LONG_MS), share_acknowledge(-1, ORDERS, (0, 4))],
    ids=["fetch", "acknowledge"],
)
def test_closing_session_acknowledges_before_it_releases(holder: Client, job: Job, closing: Any) -> None:
    holder.send(closing)
    assert holder.receive() == {ORDERS: Entry()}
    assert [row.type for row in job.unread()] == [ACKNOWLEDGE, RELEASE_MEMBER]
    holder.send(share_fetch(1, ORDERS))
    assert holder.receive() == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_unused_records_are_unacquired(holder: Client, job: Job) -> None:
    """The application of the client was stopped before it got to them."""
    holder.send(share_acknowledge(1, ORDERS, (0, 4), unused=(5, 9)))
    assert holder.receive() == {ORDERS: Entry()}
    unacquired, rejected = job.unread()
    assert (unacquired.type, unacquired.acquired) == (UNACQUIRE, (AcquiredRange(5, 9, 1),))
    assert (rejected.type, rejected.batches) == (ACKNOWLEDGE, (acknowledging(0, 4, AcknowledgeType.REJECT),))
    holder.send(share_acknowledge(2, ORDERS, (5, 9)))
    assert holder.receive() == {ORDERS: Entry(acknowledge_error=ErrorCode.INVALID_RECORD_STATE)}


def test_unused_records_that_are_not_held_fail_the_request(holder: Client, job: Job) -> None:
    holder.send(share_acknowledge(1, ORDERS, (0, 4), unused=(4, 9)))
    assert holder.receive() == {ORDERS: Entry(acknowledge_error=ErrorCode.INVALID_RECORD_STATE)}
    assert [row.type for row in job.unread()] == [UNACQUIRE]
    holder.send(share_acknowledge(2, ORDERS, (0, 3), unused=(4, 9)))
    assert holder.receive() == {ORDERS: Entry(acknowledge_error=ErrorCode.INVALID_RECORD_STATE)}
    assert job.unread() == []


def test_acknowledgements_of_a_fetch_have_their_own_error_code(holder: Client, job: Job) -> None:
    holder.send(share_fetch(1, ORDERS, reject=(0, 9)))
    assert holder.receive() == {ORDERS: Entry()}
    assert job.receive(ACKNOWLEDGE).batches == (acknowledging(0, 9, AcknowledgeType.REJECT),)
    holder.send(share_fetch(2, ORDERS, reject=(0, 9)))
    assert holder.receive() == {ORDERS: Entry(acknowledge_error=ErrorCode.INVALID_RECORD_STATE)}


def test_connection_end_releases_after_acknowledgements_of_a_fetch(
    gateway: ShareGateway, holder: Client, job: Job
) -> None:
    holder.send(share_fetch(1, ORDERS, reject=(0, 9)))
    job.receive(ACKNOWLEDGE)
    gateway.apis.sessions.on_disconnect(holder.caller.connection_id)
    assert [row.type for row in job.unread() if row.type != FETCH] == [RELEASE_MEMBER]


def test_connection_end_during_an_acknowledgement_raises_nothing(
    gateway: ShareGateway, holder: Client, job: Job
) -> None:
    problems = gateway.loop.collect_problems()
    part(gateway).holdings.record_request([acknowledging(0, 9)], "another request")
    holder.send(share_fetch(1, ORDERS, reject=(0, 9), max_wait_ms=LONG_MS))
    job.receive(ACKNOWLEDGE)
    holder.responding.cancel()
    assert not holder.is_waiting()
    del holder.responding
    gc.collect()
    assert problems == []


def test_lock_timeout_of_a_response_is_the_remaining_time(gateway: ShareGateway, opener: Client, job: Job) -> None:
    """The records are ready, but the acknowledgement in the same request waits for the job."""
    job.acquire(0, 19)
    part(gateway).deliver(sliced(0, 9), 0)
    part(gateway).holdings.record_request([acknowledging(0, 9)], "another request")
    set_log(gateway, (10, 10))
    opener.send(share_fetch(1, ORDERS, reject=(0, 9)))
    row = job.receive(ACKNOWLEDGE)
    gateway.loop.until(lambda: part(gateway).holdings.find_acknowledged([acknowledging(10, 19)], 0))
    job.time_ms = 7_000
    job.answer(row)
    assert opener.receive() == {ORDERS: Entry(acquired=[(10, 19, 1)])}
    assert opener.response.acquisition_lock_timeout_ms == LOCK_MS - 7_000


def test_shutdown_ends_waiting_fetches_and_still_acknowledges(gateway: ShareGateway, holder: Client, job: Job) -> None:
    holder.send(share_fetch(1, ORDERS))
    assert holder.receive() == {}
    job.unread()
    holder.send(share_fetch(2, ORDERS, max_wait_ms=LONG_MS))
    assert holder.is_waiting()
    gateway.apis.sessions.drain()
    assert holder.receive() == {}
    holder.send(share_fetch(3, ORDERS, reject=(0, 9), max_wait_ms=LONG_MS))
    assert holder.receive() == {ORDERS: Entry()}
    assert [row.type for row in job.unread()] == [FETCH, ACKNOWLEDGE]  # the first cancels what waited at the job


# -- entries without records -------------------------------------------------------------------------------------------


def test_first_response_has_an_entry_for_each_new_partition(client: Client) -> None:
    for request, entries in (
        (share_fetch(0, ORDERS), {ORDERS: Entry()}),
        (share_fetch(1, ORDERS), {}),
        (share_fetch(2, BILLS), {BILLS: Entry()}),
        (share_fetch(3), {}),
        (share_fetch(0, BILLS, ORDERS), {BILLS: Entry(), ORDERS: Entry()}),
    ):
        client.send(request)
        assert client.receive() == entries


def test_fetch_that_opens_a_session_waits_for_records(gateway: ShareGateway, client: Client, job: Job) -> None:
    client.send(share_fetch(0, ORDERS, BILLS, max_wait_ms=LONG_MS))
    job.receive(FETCH), job.receive(FETCH)
    assert client.is_waiting()
    gateway.apis.sessions.drain()
    assert client.receive() == {ORDERS: Entry(), BILLS: Entry()}


# -- deleted topics ----------------------------------------------------------------------------------------------------


def test_rows_have_topic_ids(holder: Client, job: Job) -> None:
    holder.send(share_acknowledge(1, ORDERS, (0, 9)))
    assert holder.receive() == {ORDERS: Entry()}
    assert {(row.type, row.topic, row.topic_id) for row in job.rows} == {
        (kind, "orders", topic_id_text(ORDERS)) for kind in (RELEASE_MEMBER, FETCH, ACKNOWLEDGE)
    }


def test_id_of_a_recreated_topic_is_unknown_and_sends_no_rows(gateway: ShareGateway, holder: Client, job: Job) -> None:
    gateway.cluster.there["orders"] = RECREATED, NODE
    gateway.loop.finish(gateway.cluster.refresh())
    holder.send(share_acknowledge(1, ORDERS, (0, 9)))
    assert holder.receive() == {ORDERS: Entry(acknowledge_error=UNKNOWN)}
    holder.send(share_fetch(2, ORDERS, reject=(0, 9), max_wait_ms=LONG_MS))
    assert holder.receive() == {ORDERS: Entry(UNKNOWN, UNKNOWN)}
    assert job.unread() == []


@pytest.mark.parametrize("there", [{}, {"orders": (RECREATED, NODE)}], ids=["deleted", "recreated"])
def test_acknowledgement_for_a_deleted_topic_fails(gateway: ShareGateway, holder: Client, there: Any) -> None:
    """The gateway has not learned of the deletion; it checks before it responds."""
    gateway.cluster.there = there
    holder.send(share_acknowledge(1, ORDERS, (0, 9)))
    assert holder.receive() == {ORDERS: Entry(acknowledge_error=UNKNOWN)}
    assert gateway.cluster.asked == [["orders"]]
    holder.send(share_fetch(2, ORDERS, max_wait_ms=LONG_MS))
    assert holder.receive() == {ORDERS: Entry(UNKNOWN)}


def _deleted_as_the_job_says(gateway: ShareGateway) -> None:
    gateway.loop.call(lambda: gateway.job.tell(TopicDeletedBroadcast("g", topic_id_text(ORDERS))))


def _deleted_as_a_broker_says(gateway: ShareGateway) -> None:
    del gateway.cluster.there["orders"]
    gateway.cluster.apply_metadata(gateway.cluster._answer(None))


def _led_elsewhere(gateway: ShareGateway) -> None:
    gateway.cluster.there["orders"] = ORDERS, OTHER_NODE
    gateway.cluster.apply_metadata(gateway.cluster._answer(None))


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (_deleted_as_the_job_says, UNKNOWN),
        (_deleted_as_a_broker_says, UNKNOWN),
        (_led_elsewhere, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_waiting_fetch_ends_when_its_partition_is_no_longer_here(
    gateway: ShareGateway, client: Client, job: Job, happens: Callable[[ShareGateway], None], code: ErrorCode
) -> None:
    client.send(share_fetch(0, ORDERS, BILLS, max_wait_ms=LONG_MS))
    job.receive(FETCH), job.receive(FETCH)
    happens(gateway)
    assert client.receive() == {ORDERS: Entry(code), BILLS: Entry()}


def test_topic_deleted_while_its_log_is_read_is_an_error(gateway: ShareGateway, opener: Client, job: Job) -> None:
    job.acquire(0, 9)
    opener.send(share_fetch(1, ORDERS, max_wait_ms=LONG_MS))
    gateway.loop.until(lambda: gateway.cluster.fetches)
    _deleted_as_the_job_says(gateway)
    assert opener.receive() == {ORDERS: Entry(UNKNOWN)}


# -- waiting -----------------------------------------------------------------------------------------------------------


def test_fetch_waits_for_readable_partitions_beside_failed_ones(
    gateway: ShareGateway, client: Client, job: Job
) -> None:
    client.send(share_fetch(0, NOT_THERE, SECRETS, ORDERS, max_wait_ms=LONG_MS))
    job.receive(FETCH)
    set_log(gateway, (0, 10))
    job.acquire(0, 9)
    assert client.receive() == {
        ORDERS: Entry(acquired=[(0, 9, 1)]),
        NOT_THERE: Entry(UNKNOWN),
        SECRETS: Entry(DENIED),
    }


def test_fetch_at_a_broker_that_is_not_the_leader_returns_the_leader(gateway: ShareGateway, client: Client) -> None:
    _led_elsewhere(gateway)
    client.send(share_fetch(0, ORDERS, max_wait_ms=LONG_MS))
    assert client.receive() == {ORDERS: Entry(ErrorCode.NOT_LEADER_OR_FOLLOWER)}
    assert client.response.responses[0].partitions[0].current_leader.leader_id == OTHER_NODE
    assert [(node.node_id, node.port) for node in client.response.node_endpoints] == [(OTHER_NODE, OTHER_PORT)]


def test_response_has_records_of_several_partitions(gateway: ShareGateway, client: Client, job: Job) -> None:
    client.send(share_fetch(0, ORDERS, BILLS))
    client.receive()
    for first, demand in ((0, job.receive(FETCH)), (100, job.receive(FETCH))):
        job.answer(demand, acquired=(AcquiredRange(first, first + 4, 1),), lock_deadline_ms=LOCK_MS)
    set_log(gateway, (100, 5), (0, 5))
    client.send(share_fetch(1))
    assert client.receive() == {ORDERS: Entry(acquired=[(0, 4, 1)]), BILLS: Entry(acquired=[(100, 104, 1)])}


def test_read_ahead_delivers_each_last_attempt_in_its_own_response(
    gateway: ShareGateway, client: Client, job: Job
) -> None:
    client.send(share_fetch(0, ORDERS))
    client.receive()
    set_log(gateway, (0, 10))
    acquired = AcquiredRange(0, 3, 1), AcquiredRange(4, 5, 5), AcquiredRange(6, 9, 1)
    job.answer(job.receive(FETCH), acquired=acquired, lock_deadline_ms=LOCK_MS)
    for epoch, expected in enumerate([(0, 3, 1), (4, 4, 5), (5, 5, 5), (6, 9, 1)], 1):
        client.send(share_fetch(epoch, ORDERS, max_wait_ms=LONG_MS))
        assert client.receive() == {ORDERS: Entry(acquired=[expected])}


def test_a_fetch_with_min_bytes_zero_returns_the_records_of_the_log(
    gateway: ShareGateway, client: Client, job: Job
) -> None:
    set_log(gateway, (0, 10))
    client.send(share_fetch(0, ORDERS, max_wait_ms=LONG_MS, min_bytes=0))
    assert job.receive(FETCH).max_wait_ms == ROUND_MS
    job.acquire(0, 9)
    assert client.receive() == {ORDERS: Entry(acquired=[(0, 9, 1)])}


def test_a_fetch_with_min_bytes_zero_waits_for_one_answer_of_the_job(client: Client, job: Job) -> None:
    client.send(share_fetch(0, ORDERS, BILLS, max_wait_ms=LONG_MS, min_bytes=0))
    first, second = job.receive(FETCH), job.receive(FETCH)
    job.answer(second)
    assert client.is_waiting()  # one partition has had no answer
    job.answer(first)
    assert client.receive() == {ORDERS: Entry(), BILLS: Entry()}
    assert job.unread() == []


def test_a_fetch_with_min_bytes_zero_ends_after_max_wait(gateway: ShareGateway, client: Client, job: Job) -> None:
    client.send(share_fetch(0, ORDERS, max_wait_ms=1, min_bytes=0))
    assert client.receive() == {ORDERS: Entry()}
    job.acquire(0, 9)
    set_log(gateway, (0, 10))
    client.send(share_fetch(1, ORDERS, max_wait_ms=LONG_MS, min_bytes=0))
    assert client.receive() == {ORDERS: Entry(acquired=[(0, 9, 1)])}


def test_a_fetch_with_min_bytes_zero_replaces_a_demand_that_stands(client: Client, job: Job) -> None:
    client.send(share_fetch(0, ORDERS))
    client.receive()
    standing = job.receive(FETCH)
    client.send(share_fetch(1, ORDERS, max_wait_ms=LONG_MS, min_bytes=0))
    replacing = job.receive(FETCH)
    job.answer(standing)  # as the job does, whose place the new one takes
    assert client.is_waiting()
    job.answer(replacing)
    assert client.receive() == {}
    assert (standing.max_wait_ms, replacing.max_wait_ms) == (DEMAND_WAIT_MS, ROUND_MS)
    assert job.unread() == []


def test_fetch_without_readable_partitions_returns_immediately(client: Client) -> None:
    client.send(share_fetch(0, NOT_THERE, SECRETS, max_wait_ms=LONG_MS))
    assert client.receive() == {NOT_THERE: Entry(UNKNOWN), SECRETS: Entry(DENIED)}


def test_empty_log_read_archives_nothing_and_the_fetch_retries(gateway: ShareGateway, opener: Client, job: Job) -> None:
    job.acquire(0, 499)
    gateway.cluster.answers = [partition_data(), partition_data(), partition_data(log_batches.batch(100, 400))]
    opener.send(share_fetch(1, ORDERS, max_wait_ms=LONG_MS))
    assert opener.receive() == {ORDERS: Entry(acquired=[(100, 499, 1)])}
    assert len(gateway.cluster.fetches) == 3
    (gap,) = (row for row in job.unread() if row.type == ACKNOWLEDGE)  # a later batch was read
    assert (gap.batches, gap.acquired) == ((acknowledging(0, 99, AcknowledgeType.GAP),), (AcquiredRange(0, 99, 1),))


def test_records_that_are_never_read_are_released_before_their_lock_ends(
    gateway: ShareGateway, opener: Client, job: Job
) -> None:
    job.acquire(0, 499)
    opener.send(share_fetch(1, ORDERS))
    assert opener.receive() == {}
    job.unread()
    job.time_ms = LOCK_MS - 2_000
    gateway.apis.sessions.upkeep()
    assert [(row.type, row.acquired) for row in job.unread()] == [(UNACQUIRE, (AcquiredRange(0, 499, 1),))]


def test_records_below_the_log_start_do_not_block_a_fetch(gateway: ShareGateway, opener: Client, job: Job) -> None:
    job.acquire(0, 499)
    gateway.cluster.answers = [
        partition_data(error=int(ErrorCode.OFFSET_OUT_OF_RANGE), start=490),
        partition_data(log_batches.batch(490, 10)),
    ]
    opener.send(share_fetch(1, ORDERS, max_wait_ms=LONG_MS))
    assert opener.receive() == {ORDERS: Entry(acquired=[(490, 499, 1)])}
    assert ACKNOWLEDGE not in [row.type for row in job.unread()]  # the job finds the log start offset itself


def test_records_are_read_at_the_isolation_level_of_their_acquisition(
    gateway: ShareGateway, opener: Client, job: Job
) -> None:
    """The group's isolation level was altered while records of both levels were buffered."""
    job.acquire(0, 9, read_committed=True)
    part(gateway).read_ahead.record_demand("more", 10, 0)
    part(gateway).read_ahead.add_response("more", [AcquiredRange(10, 19, 1)], LOCK_MS, 0)
    set_log(gateway, (0, 20), (0, 20))
    opener.send(share_fetch(1, ORDERS))
    assert opener.receive() == {ORDERS: Entry(acquired=[(0, 9, 1)])}
    opener.send(share_fetch(2, ORDERS))
    assert opener.receive() == {ORDERS: Entry(acquired=[(10, 19, 1)])}
    assert [fetch.isolation_level for fetch in gateway.cluster.fetches] == [1, 0]


def test_alteration_to_read_committed_releases_earlier_acquisitions(
    gateway: ShareGateway, opener: Client, job: Job
) -> None:
    """Records that were acquired earlier may be of transactions that have since been aborted."""
    job.acquire(0, 9)
    gateway.alter_group(isolation_level=IsolationLevel.READ_COMMITTED)
    set_log(gateway, (0, 20))
    opener.send(share_fetch(1, ORDERS, max_wait_ms=1))
    assert opener.receive() == {}
    assert [row.acquired for row in job.unread() if row.type == UNACQUIRE] == [(AcquiredRange(0, 9, 1),)]
    job.acquire(0, 4, read_committed=True)
    opener.send(share_fetch(2, ORDERS))
    assert opener.receive() == {ORDERS: Entry(acquired=[(0, 4, 1)])}


@pytest.fixture
def half(gateway: ShareGateway, client: Client, job: Job) -> Client:
    """Return a client that fetches 5 records, where the log has one batch of 10 and the job has acquired 5."""
    set_log(gateway, (0, 10), (0, 10))
    client.send(share_fetch(0, ORDERS, max_records=5))
    client.receive()
    job.unread()
    job.acquire(0, 4)
    return client


def fetch_five(acquire_mode: int, max_wait_ms: int = LONG_MS) -> Any:
    return share_fetch(1, ORDERS, max_records=5, max_wait_ms=max_wait_ms, acquire_mode=acquire_mode)


def test_rest_of_a_split_record_batch_is_waited_for(half: Client, job: Job) -> None:
    half.send(fetch_five(BATCH_OPTIMIZED))
    assert job.receive(FETCH).max_records == 5
    job.acquire(5, 9)
    assert half.receive() == {ORDERS: Entry(acquired=[(0, 9, 1)])}


def test_rest_of_a_record_batch_held_by_others_is_not_waited_for(half: Client, job: Job) -> None:
    half.send(fetch_five(BATCH_OPTIMIZED))
    job.receive(FETCH)
    job.acquire(20, 24)
    assert half.receive()[ORDERS].acquired[:1] == [(0, 4, 1)]


def test_part_of_a_record_batch_is_sent_after_max_wait(half: Client) -> None:
    half.send(fetch_five(BATCH_OPTIMIZED, max_wait_ms=20))
    assert half.receive() == {ORDERS: Entry(acquired=[(0, 4, 1)])}


def test_record_limit_splits_a_record_batch(half: Client) -> None:
    half.send(fetch_five(RECORD_LIMIT), version=2)
    assert half.receive() == {ORDERS: Entry(acquired=[(0, 4, 1)])}


def test_late_notice_of_an_earlier_leave_does_not_end_a_later_membership(
    gateway: ShareGateway, client: Client, job: Job
) -> None:
    client.send(heartbeat(0, ["orders"]))  # it joins again; it had left with epoch 3
    job.answer(job.receive("heartbeat"), member_epoch=5, session_deadline_ms=10 * LOCK_MS)
    assert client.receive().member_epoch == 5
    client.send(share_fetch(0, ORDERS, max_wait_ms=LONG_MS))
    job.receive(FETCH)
    gateway.cluster.answers.append(partition_data(log_batches.batch(0, 10)))
    job.acquire(0, 9)
    assert client.receive() == {ORDERS: Entry(acquired=[(0, 9, 1)])}
    job.tell(MemberLeftBroadcast("g", "m", 3))  # read a second time
    client.send(share_acknowledge(1, ORDERS, (0, 9)))
    assert client.receive() == {ORDERS: Entry()}


def test_open_session_receives_records_with_locks_that_became_much_shorter(
    gateway: ShareGateway, client: Client, job: Job
) -> None:
    client.send(share_fetch(0, ORDERS, max_wait_ms=LONG_MS))
    job.receive(FETCH)
    gateway.cluster.answers.append(partition_data(log_batches.batch(0, 10)))
    gateway.alter_group(record_lock_duration_ms=2_000)
    gateway.loop.call(gateway.apis.upkeep)
    job.acquire(0, 9, 2_000)
    assert client.receive() == {ORDERS: Entry(acquired=[(0, 9, 1)])}
