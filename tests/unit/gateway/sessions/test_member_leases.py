"""The times until which members are known to be in their groups, as heartbeats pass through the gateway."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.errors import ErrorCode
from sharegroup.gateway.handlers.share import heartbeat as heartbeat_handler
from sharegroup.gateway.sessions import member_leases
from sharegroup.gateway.sessions.member_leases import MemberLeases
from sharegroup.protocol.rows.share_group_requests import HEARTBEAT
from sharegroup.protocol.rows.share_partition_requests import ACKNOWLEDGE, FETCH
from tests.harness.event_loop import EventLoop
from tests.unit.gateway import log_batches
from tests.unit.gateway.conversation import (
    LONG_MS,
    ORDERS,
    Client,
    Job,
    ShareGateway,
    heartbeat,
    share_acknowledge,
    share_fetch,
)
from tests.unit.gateway.known_cluster import partition_data

FENCED_MEMBER_EPOCH = 110


def test_a_lease_lasts_until_its_deadline() -> None:
    lease = MemberLeases().get_or_create("g", "m")
    assert not lease.is_valid_at(0)
    lease.extend(100)
    assert (lease.is_valid_at(99), lease.is_valid_at(100)) == (True, False)
    lease.extend(50)
    assert not lease.is_valid_at(50)


def test_ended_lease_stays_ended_and_a_new_one_may_begin() -> None:
    leases = MemberLeases()
    old = leases.get_or_create("g", "m")
    assert leases.get_or_create("g", "m") is leases.get("g", "m") is old
    leases.end("g", "m")
    old.extend(100)
    assert not old.is_valid_at(0)
    leases.get_or_create("g", "m").extend(200)
    assert leases.get("g", "m").is_valid_at(100)
    assert not leases.get("g", "another").is_valid_at(0)


def test_number_of_leases_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_leases, "MAX_KEPT", 2)
    leases = MemberLeases()
    held = [leases.get_or_create("g", name) for name in ("a", "b", "a", "c")]
    for lease in held:
        lease.extend(100)
    assert [lease.is_valid_at(0) for lease in held] == [True, False, True, True]
    assert not leases.get("g", "b").is_valid_at(0)


@pytest.fixture
def member(client: Client, job: Job) -> Client:
    """Return a client that has joined; its session does not expire before 100."""
    client.send(heartbeat(0))
    job.answer(job.receive(HEARTBEAT), member_epoch=1, session_deadline_ms=100)
    client.receive()
    return client


def has_lease(gateway: ShareGateway, at_ms: int = 0) -> bool:
    return gateway.leases.get("g", "m").is_valid_at(at_ms)


def test_each_heartbeat_response_extends_the_lease(gateway: ShareGateway, member: Client, job: Job) -> None:
    assert (has_lease(gateway, 99), has_lease(gateway, 100)) == (True, False)
    member.send(heartbeat(1))
    job.answer(job.receive(HEARTBEAT), member_epoch=1, session_deadline_ms=200)
    member.receive()
    assert has_lease(gateway, 199)
    member.send(heartbeat(1))
    job.answer(job.receive(HEARTBEAT), member_epoch=1)  # a job that sends no deadline
    member.receive()
    assert not has_lease(gateway)


def test_leave_ends_the_lease_permanently_before_its_row_is_sent(
    gateway: ShareGateway, member: Client, job: Job
) -> None:
    member.send(heartbeat(1))
    late = job.receive(HEARTBEAT)
    leaving = gateway.connect()
    leaving.send(heartbeat(-1))
    leave = job.receive(HEARTBEAT)
    assert not has_lease(gateway)
    job.answer(late, member_epoch=1, session_deadline_ms=200)
    member.receive()
    assert not has_lease(gateway)
    leaving.receive()
    job.answer(leave, member_epoch=-1)
    member.send(heartbeat(0))
    job.answer(job.receive(HEARTBEAT), member_epoch=2, session_deadline_ms=300)
    member.receive()
    assert has_lease(gateway, 299)


def test_certain_leave_is_answered_before_the_job_and_descriptions_wait(
    gateway: ShareGateway, member: Client, job: Job, loop: EventLoop
) -> None:
    member.send(heartbeat(-1))
    left = member.receive()
    assert (left.error_code, left.member_id, left.member_epoch) == (0, "m", -1)
    descriptions = [loop.start(gateway.open_leaves.wait(names)) for names in (["g"], None)]
    loop.finish(gateway.open_leaves.wait(["another"]))
    assert not any(description.done() for description in descriptions)
    job.answer(job.receive(HEARTBEAT), member_epoch=-1)
    loop.finish(asyncio.gather(*descriptions))
    loop.finish(gateway.open_leaves.wait())


def test_leave_that_cannot_be_appended_is_rejected(
    gateway: ShareGateway, member: Client, job: Job, loop: EventLoop
) -> None:
    job.fail_next = True
    member.send(heartbeat(-1))
    assert member.receive().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    loop.finish(gateway.open_leaves.wait())


def test_leave_of_a_possibly_removed_member_is_answered_by_the_job(member: Client, job: Job) -> None:
    job.time_ms = 100
    member.send(heartbeat(-1))
    assert member.is_waiting()
    job.answer(job.receive(HEARTBEAT), error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert member.receive().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_descriptions_wait_for_a_leave_only_for_a_while(
    monkeypatch: pytest.MonkeyPatch, gateway: ShareGateway, member: Client, loop: EventLoop
) -> None:
    monkeypatch.setattr(heartbeat_handler, "LEAVE_PATIENCE_S", 0.01)
    member.send(heartbeat(-1))
    member.receive()
    loop.finish(gateway.open_leaves.wait())


def test_rejected_heartbeat_ends_the_lease(gateway: ShareGateway, member: Client, job: Job) -> None:
    member.send(heartbeat(1))
    job.answer(job.receive(HEARTBEAT), error_code=FENCED_MEMBER_EPOCH)
    member.receive()
    assert not has_lease(gateway)


def test_leave_waits_for_acknowledgements_that_were_sent_before(
    gateway: ShareGateway, member: Client, job: Job
) -> None:
    gateway.cluster.answers = [partition_data(log_batches.batch(0, 10))]
    member.send(share_fetch(0, ORDERS, max_wait_ms=LONG_MS))
    job.receive(FETCH)
    job.acquire(0, 9)
    member.receive()
    member.send(share_acknowledge(1, ORDERS, (0, 9)))
    acknowledgement = job.receive(ACKNOWLEDGE)
    leaving = gateway.connect()
    leaving.send(heartbeat(-1))
    assert leaving.is_waiting()
    assert has_lease(gateway, 99)
    assert job.unread() == []
    job.answer(acknowledgement)
    job.receive(HEARTBEAT)
    assert not has_lease(gateway)
