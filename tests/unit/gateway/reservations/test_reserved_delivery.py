"""Delivery from reserved offsets: the rows that are sent, and which records members get."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharegroup.config import IsolationLevel
from sharegroup.gateway.records import tail_reader
from sharegroup.gateway.reservations.gateway_lease import LEASE_MS
from sharegroup.gateway.reservations.reserved_delivery import EMPTY_IDLE_MS, IDLE_MS
from sharegroup.gateway.sessions.member_session import FetchLimits
from sharegroup.monitoring.metrics import gateway_catalogue as catalogue
from sharegroup.monitoring.metrics.metric import Observations
from sharegroup.protocol.rows.broadcasts import MemberLeftBroadcast, NewLeaderBroadcast, TopicDeletedBroadcast
from sharegroup.protocol.rows.lease_requests import RenewLeasesRequest
from sharegroup.protocol.rows.reservation_requests import AssignRequest, ReserveRequest, UnreserveRequest
from sharegroup.protocol.rows.share_partition_requests import AcknowledgeRequest, FetchRequest, UnacquireRequest
from sharegroup.types import AcquiredRange, OffsetRange
from tests.harness.event_loop import until
from tests.unit.gateway.recording_job import KEY, TOPIC_ID
from tests.unit.gateway.reservations.reserving_gateway import LOCK_MS, PLACE, SESSION_MS, Gateway, held, run


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_reader, "PACE_S", 0.0)


def test_waiting_member_gets_new_records_when_their_assignment_is_durable() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        (fetch,), (reserve,) = gateway.rows(FetchRequest), gateway.rows(ReserveRequest)
        assert (fetch.reserves, reserve.records, reserve.reservation_epoch) == (True, 32, 1)
        gateway.respond((0, 31))
        gateway.job.append_ms = 40
        await gateway.deliver(0, 3)
        (row,) = gateway.rows(AssignRequest)
        assert row.ranges == (OffsetRange(0, 2),)
        assert (row.requester, row.reservation_epoch, row.lock_duration_ms) == ("gateway", 1, LOCK_MS)
        assert held(part) == [(0, 2, 1)]
        assert part.read_ahead.locked_ranges([(0, 2)])[0].lock_deadline_ms == 40 + LOCK_MS
        assert gateway.sessions.cache.last_offset(next(iter(gateway.delivery._by_log))) == 2

    run(scenario)


def test_reserved_and_assigned_records_are_counted() -> None:
    async def scenario(gateway: Gateway) -> None:
        gateway.member("m1")
        gateway.respond((0, 31))
        await gateway.deliver(0, 3)
        families = {family.metric: dict(family.series) for family in gateway.sessions.delivery_counts.families()}
        assert families[catalogue.RECORDS_GIVEN] == {("batch",): 0, ("reserved",): 3}
        (appends,) = families[catalogue.ASSIGNMENT_SECONDS].values()
        assert isinstance(appends, Observations)
        assert appends.cumulative[-1] == 1
        assert gateway.delivery.reserved_records == 29

    run(scenario)


def test_slice_is_for_the_records_that_came_by_the_job_as_well() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        gateway.respond()
        gateway.job.acquire(0, 99, LOCK_MS)
        part.read_ahead.remove_all()
        gateway.wait(part)
        assert [row.records for row in gateway.rows(ReserveRequest)] == [32, 300]

    run(scenario)


@pytest.mark.parametrize(("first", "delivery_count", "returned"), [(64, 1, 1), (64, 2, 0), (0, 1, 0)])
def test_reservation_behind_offsets_of_a_stopped_gateway_is_returned(
    first: int, delivery_count: int, returned: int
) -> None:
    """New records in front of it came by a micro-batch. Redelivered records may be from before the reservation."""

    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        gateway.respond((first, first + 31))
        await gateway.deliver(0, 9)
        gateway.wait(part)
        gateway.job.acquire(0, 8, LOCK_MS, count=delivery_count)
        assert len(gateway.rows(UnreserveRequest)) == returned

    run(scenario)


def test_records_go_to_the_member_that_was_served_least_recently() -> None:
    async def scenario(gateway: Gateway) -> None:
        first, second = gateway.member("m1"), gateway.member("m2")
        gateway.respond((0, 31))
        await gateway.deliver(0, 1)
        part = first if held(first) else second
        part.read_ahead.remove_all()
        gateway.wait(part)
        await gateway.deliver(1, 1)
        assert {member for member, _ in gateway.assigned()} == {"m1", "m2"}

    run(scenario)


def test_records_wait_for_a_member_and_are_assigned_when_one_waits() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1", wanted=2)
        gateway.respond((0, 31))
        await gateway.deliver(0, 5)
        assert held(part) == [(0, 1, 1)]
        part.read_ahead.remove_all()
        gateway.wait(part, 100)
        await until(lambda: not gateway.delivery._deliveries)
        assert gateway.assigned() == [("m1", [(0, 1)]), ("m1", [(2, 4)])]

    run(scenario)


@pytest.mark.parametrize(("append_ms", "session_ms"), [(LEASE_MS + 1, SESSION_MS), (40, 40), (-1, SESSION_MS)])
def test_late_or_undated_assignment_is_not_sent_and_ends_the_epoch(append_ms: int, session_ms: int) -> None:
    """It was appended after the lease of the records, or of the member, or the broker did not say when."""

    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1", session_ms=session_ms)
        gateway.respond((0, 31))
        gateway.job.append_ms = append_ms
        await gateway.deliver_nothing(0, 3)
        (row,) = gateway.rows(AssignRequest)
        assert row.valid_until_ms == min(LEASE_MS, session_ms - 1)
        assert (held(part), gateway.rows(UnacquireRequest)) == ([], [])
        assert [row.reservation_epoch for row in gateway.rows(UnreserveRequest)] == [1]

    run(scenario)


def test_records_of_a_member_that_left_before_the_row_was_durable_are_returned() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        gateway.member("m2")
        gateway.respond((0, 31))
        gateway.broker.append(TOPIC_ID, 0, 1)
        await until(lambda: bool(gateway.rows(AssignRequest)))
        gateway.leases.end("group", gateway.rows(AssignRequest)[0].member_id)
        await until(lambda: not gateway.delivery._deliveries)
        assert held(part) == []
        assert [row.acquired for row in gateway.rows(UnacquireRequest)] == [(AcquiredRange(0, 0, 1),)]

    run(scenario)


def test_unknown_outcome_of_an_append_ends_the_epoch() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        gateway.respond((0, 31))
        gateway.job.fail_next = True
        gateway.broker.append(TOPIC_ID, 0, 3)
        await until(lambda: bool(gateway.rows(UnreserveRequest)))
        assert (held(part), gateway.rows(UnacquireRequest)) == ([], [])
        gateway.wait(part)
        assert gateway.rows(ReserveRequest)[-1].reservation_epoch == 2

    run(scenario)


def test_member_that_left_gets_nothing_and_ends_the_reservation_of_its_group() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        gateway.respond((0, 31))
        gateway.leases.end("group", "m1")
        assert [row.reservation_epoch for row in gateway.rows(UnreserveRequest)] == [1]
        gateway.broker.append(TOPIC_ID, 0, 3)
        gateway.wait(part)
        assert (gateway.assigned(), len(gateway.rows(ReserveRequest))) == ([], 1)

    run(scenario)


def test_reservation_survives_a_member_that_left_while_another_one_stays() -> None:
    async def scenario(gateway: Gateway) -> None:
        gateway.member("m1")
        gateway.respond((0, 31))
        gateway.member("m2")
        gateway.leases.end("group", "m1")
        await gateway.deliver(0, 3)
        assert gateway.assigned() == [("m2", [(0, 2)])]

    run(scenario)


def test_reservation_of_a_group_without_members_for_a_moment_is_not_used() -> None:
    """Its offsets may have been reset meanwhile."""

    async def scenario(gateway: Gateway) -> None:
        gateway.member("m1", session_ms=1_000)
        gateway.respond((0, 31))
        gateway.job.time_ms = 2_000
        gateway.member("m2")
        gateway.delivery.upkeep()
        assert [row.reservation_epoch for row in gateway.rows(UnreserveRequest)] == [1]
        assert gateway.assigned() == []

    run(scenario)


def test_reservation_without_records_is_kept_for_a_member_that_fetches_late() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        gateway.respond((0, 31))
        part.read_ahead.end_wait()
        gateway.job.time_ms = EMPTY_IDLE_MS - 1
        gateway.delivery.upkeep()
        assert gateway.rows(UnreserveRequest) == []
        gateway.job.time_ms = EMPTY_IDLE_MS
        gateway.delivery.upkeep()
        assert len(gateway.rows(UnreserveRequest)) == 1

    run(scenario)


@pytest.mark.parametrize("arrives_ms", [0, IDLE_MS])
def test_reservation_with_records_is_given_back_when_nobody_has_waited(arrives_ms: int) -> None:
    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        gateway.respond((0, 31))
        part.read_ahead.end_wait()
        gateway.job.time_ms = arrives_ms
        gateway.broker.append(TOPIC_ID, 0, 1)
        if arrives_ms < IDLE_MS:
            await until(lambda: gateway.delivery._tails.offset(next(iter(gateway.delivery._by_log))) == 1)
            gateway.job.time_ms = IDLE_MS - 1
            gateway.delivery.upkeep()
            assert gateway.rows(UnreserveRequest) == []
            gateway.job.time_ms = IDLE_MS
            gateway.delivery.upkeep()
        await until(lambda: gateway.rows(UnreserveRequest))
        (row,) = gateway.rows(UnreserveRequest)
        assert (row.ranges, row.requester, row.reservation_epoch) == (None, "gateway", 1)

    run(scenario)


def test_one_row_renews_the_lease_for_all_share_partitions() -> None:
    async def scenario(gateway: Gateway) -> None:
        gateway.member("m1")
        gateway.respond((0, 31))
        partitions = gateway.delivery._partitions
        partitions[KEY._replace(partition=1)] = partitions[KEY]
        gateway.job.time_ms = LEASE_MS // 2
        await gateway.renew_lease(LEASE_MS // 2)
        assert [row.lease_ms for row in gateway.rows(RenewLeasesRequest)] == [LEASE_MS]
        assert (len(gateway.rows(ReserveRequest)), gateway.rows(UnreserveRequest)) == (1, [])
        del partitions[KEY._replace(partition=1)]
        gateway.job.time_ms = LEASE_MS
        await gateway.deliver(0, 3)
        assert [row.valid_until_ms for row in gateway.rows(AssignRequest)] == [LEASE_MS // 2 + LEASE_MS]

    run(scenario)


def test_reservation_ends_with_the_lease_and_the_next_lease_has_another_one() -> None:
    async def scenario(gateway: Gateway) -> None:
        gateway.member("m1")
        gateway.respond((0, 31))
        gateway.job.time_ms = LEASE_MS
        gateway.broker.append(TOPIC_ID, 0, 3)
        await gateway.renew_lease(LEASE_MS + 1)
        assert [row.reservation_epoch for row in gateway.rows(UnreserveRequest)] == [1]
        assert [row.reservation_epoch for row in gateway.rows(ReserveRequest)] == [1, 2]
        assert gateway.assigned() == []

    run(scenario)


def test_nothing_is_reserved_without_a_lease() -> None:
    async def scenario(gateway: Gateway) -> None:
        gateway.job.time_ms = LEASE_MS
        gateway.job.append_ms = None
        gateway.member("m1")
        assert gateway.rows(ReserveRequest) == []
        await gateway.renew_lease(LEASE_MS + 1)
        assert len(gateway.rows(ReserveRequest)) == 1

    run(scenario)


def test_a_row_that_gives_back_is_appended_again_after_a_failure() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        gateway.respond((0, 31))
        part.read_ahead.end_wait()
        gateway.job.time_ms = EMPTY_IDLE_MS
        gateway.delivery.upkeep()
        gateway.job.fail_last()
        assert gateway.delivery.needs_upkeep
        gateway.delivery.upkeep()
        first, second = gateway.rows(UnreserveRequest)
        assert first == second
        assert not gateway.delivery.needs_upkeep

    run(scenario)


def test_reservation_is_given_back_when_members_wait_that_cannot_reserve() -> None:
    async def scenario(gateway: Gateway) -> None:
        gateway.member("m1")
        gateway.respond((0, 31))
        for callback in gateway.job.wanted:
            callback(KEY)
        assert len(gateway.rows(UnreserveRequest)) == 1

    run(scenario)


def test_restarted_job_is_asked_again_and_a_deleted_topic_is_not_read() -> None:
    async def scenario(gateway: Gateway) -> None:
        gateway.member("m1")
        gateway.job.tell(NewLeaderBroadcast())
        gateway.delivery.upkeep()
        assert len(gateway.rows(ReserveRequest)) == 2
        gateway.respond((0, 31))
        gateway.job.tell(TopicDeletedBroadcast("group", KEY.topic_id))
        assert gateway.delivery._by_log == {}

    run(scenario)


def test_request_before_a_restart_of_the_job_is_given_back_without_a_response() -> None:
    """The new process of the job reads the request, and would keep the offsets reserved while this gateway runs."""

    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        gateway.job.tell(NewLeaderBroadcast())
        part.read_ahead.end_wait()
        gateway.job.time_ms = EMPTY_IDLE_MS
        gateway.delivery.upkeep()
        assert [row.reservation_epoch for row in gateway.rows(UnreserveRequest)] == [1]

    run(scenario)


def test_uncommitted_records_are_not_assigned_after_the_group_was_altered() -> None:
    async def scenario(gateway: Gateway) -> None:
        gateway.member("m1")
        gateway.respond((0, 31))
        gateway.group_config = replace(gateway.group_config, isolation_level=IsolationLevel.READ_COMMITTED)
        gateway.broker.append(TOPIC_ID, 0, 3)
        await until(lambda: bool(gateway.rows(UnreserveRequest)))
        assert gateway.assigned() == []

    run(scenario)


def test_assignment_of_a_session_that_ended_meanwhile_is_left_to_its_release() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        gateway.respond((0, 31))
        gateway.broker.append(TOPIC_ID, 0, 3)
        await until(lambda: bool(gateway.rows(AssignRequest)))
        part.close()
        await until(lambda: not gateway.delivery._deliveries)
        assert (held(part), gateway.rows(UnacquireRequest)) == ([], [])

    run(scenario)


def test_next_reservation_has_another_epoch_and_a_stopping_gateway_reserves_nothing() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        part.read_ahead.end_wait()
        gateway.job.time_ms = EMPTY_IDLE_MS
        gateway.delivery.upkeep()
        gateway.wait(part)
        first, second = gateway.rows(ReserveRequest)
        assert first.reservation_epoch < second.reservation_epoch
        gateway.delivery.close()
        gateway.member("m2")
        assert len(gateway.rows(ReserveRequest)) == 2

    run(scenario)


def test_request_without_a_response_is_given_back_as_well() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        part.read_ahead.end_wait()
        gateway.job.time_ms = EMPTY_IDLE_MS
        gateway.delivery.upkeep()
        assert [row.reservation_epoch for row in gateway.rows(UnreserveRequest)] == [1]

    run(scenario)


def test_reservation_that_was_granted_after_it_was_given_back_is_returned() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        part.read_ahead.end_wait()
        gateway.job.time_ms = EMPTY_IDLE_MS
        gateway.delivery.upkeep()
        gateway.respond((0, 31))
        assert [(row.reservation_epoch, row.ranges) for row in gateway.rows(UnreserveRequest)] == [(1, None), (1, None)]
        assert not gateway.delivery.needs_upkeep

    run(scenario)


def test_nothing_stays_reserved_for_a_member_without_heartbeats_here() -> None:
    """It has moved here from another gateway, and its heartbeats have not come yet."""

    async def scenario(gateway: Gateway) -> None:
        gateway.member("m1").read_ahead.end_wait()
        gateway.respond((0, 31))
        moved = gateway.member("m2", session_ms=-1)
        gateway.job.time_ms = EMPTY_IDLE_MS
        gateway.delivery.upkeep()
        assert [row.reservation_epoch for row in gateway.rows(UnreserveRequest)] == [1]
        gateway.wait(moved)
        assert len(gateway.rows(ReserveRequest)) == 1
        gateway.leases.get_or_create("group", "m2").extend(gateway.job.time_ms + SESSION_MS)
        gateway.wait(moved)
        assert len(gateway.rows(ReserveRequest)) == 2

    run(scenario)


def test_records_that_are_read_again_from_an_earlier_offset_are_no_gaps() -> None:
    """The job's response may have an older end of the log than this gateway has read, if the leader is slow."""

    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        gateway.respond((0, 31), end=0)
        await gateway.deliver(0, 5)
        part.unacquire_read_ahead()
        await until(lambda: gateway.broker.requests[-1].topics[0].partitions[0].fetch_offset == 5)  # it waits there
        for on_wanted in gateway.job.wanted:
            on_wanted(KEY)  # the reservation is returned ...
        gateway.wait(part)  # ... and another one begins
        gateway.respond((5, 36), end=0)
        gateway.broker.append(TOPIC_ID, 5, 1)  # answers the read at 5
        await until(lambda: len(gateway.rows(AssignRequest)) == 2 and not gateway.delivery._deliveries)
        part.unacquire_read_ahead()
        gateway.wait(part)
        gateway.job.acquire(0, 4)
        context = gateway.sessions.sessions_at(1).get("group", "m1")
        topic = gateway.cluster.topic_by_id(TOPIC_ID)
        assert context is not None
        assert topic is not None
        served = gateway.sessions.get_served(context)
        found = await served.take_records(PLACE, topic, FetchLimits(500, 10**6, 500, False), True, lambda: 0)
        assert gateway.rows(AcknowledgeRequest) == []
        assert found is not None
        assert [tuple(each) for each in found.slice.acquired] == [(0, 4, 1)]

    run(scenario)


def test_used_up_reservation_is_returned_if_its_assignment_may_be_lost() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        gateway.respond((0, 31))
        gateway.job.fail_next = True
        gateway.broker.append(TOPIC_ID, 0, 32)  # as many as are reserved
        await until(lambda: bool(gateway.rows(AssignRequest)) and not gateway.delivery._deliveries)
        part.read_ahead.end_wait()
        gateway.job.time_ms = EMPTY_IDLE_MS
        gateway.delivery.upkeep()
        assert gateway.delivery._partitions == {}
        assert [row.reservation_epoch for row in gateway.rows(UnreserveRequest)] == [1]

    run(scenario)


def test_locks_have_the_duration_that_the_group_was_altered_to() -> None:
    async def scenario(gateway: Gateway) -> None:
        gateway.member("m1")
        gateway.respond((0, 31))
        gateway.group_config = replace(gateway.group_config, record_lock_duration_ms=60_000)
        await gateway.deliver(0, 3)
        assert [row.lock_duration_ms for row in gateway.rows(AssignRequest)] == [60_000]

    run(scenario)


def test_assignment_from_before_a_rejoin_is_not_delivered() -> None:
    """The job has released the records when the member left, and another member may have them."""

    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        gateway.respond((0, 31))
        appended = gateway.job.delay_next(AssignRequest)
        gateway.broker.append(TOPIC_ID, 0, 3)
        await until(lambda: bool(gateway.rows(AssignRequest)))
        gateway.leases.end("group", "m1")
        gateway.job.tell(MemberLeftBroadcast("group", "m1", 1))
        gateway.leases.get_or_create("group", "m1").extend(SESSION_MS)
        gateway.wait(part)
        appended.set_result(40)
        await until(lambda: not gateway.delivery._deliveries)
        assert held(part) == []

    run(scenario)


def test_leases_of_a_group_without_share_partitions_here_are_forgotten() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = gateway.member("m1")
        part.read_ahead.end_wait()
        gateway.job.time_ms = EMPTY_IDLE_MS
        gateway.delivery.upkeep()
        assert gateway.delivery._partitions == {}
        assert gateway.delivery._leases_of == {}

    run(scenario)
