"""Records that a member releases while members wait at the same gateway: the rows that are sent, and who gets them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from sharegroup.config import IsolationLevel
from sharegroup.errors import ErrorCode
from sharegroup.gateway.records.slicing import Slice
from sharegroup.gateway.reservations import reassignments
from sharegroup.gateway.reservations.reassignments import WANTED_ELSEWHERE_MS
from sharegroup.gateway.sessions.member_partition import MemberPartition
from sharegroup.protocol.rows.reservation_requests import ReassignRequest
from sharegroup.protocol.rows.share_partition_requests import AcknowledgeRequest, UnacquireRequest
from sharegroup.types import AcknowledgementBatch, AcquiredRange
from tests.harness.event_loop import until
from tests.unit.gateway.recording_job import KEY
from tests.unit.gateway.reservations.reserving_gateway import LOCK_MS, SESSION_MS, Gateway, held, run

ACCEPT, RELEASE, REJECT = 1, 2, 3
SUCCESS = (0, None)


def holder(gateway: Gateway, member_id: str = "m1", last: int = 3, count: int = 1) -> MemberPartition:
    """Return a member that was sent the records 0 to `last` and works on them."""
    part = gateway.member(member_id)
    gateway.job.acquire(0, last, LOCK_MS, count)
    acquired = [AcquiredRange(0, last, count)]
    part.deliver(Slice(acquired, records=[], gaps=[], left=[], record_count=last + 1, byte_count=0, rest_of_batch=0), 0)
    part.read_ahead.end_wait()
    gateway.job.rows.clear()
    return part


def acknowledge(
    gateway: Gateway, part: MemberPartition, *batches: tuple[int, int, int]
) -> Awaitable[tuple[int, str | None]]:
    acknowledged = [AcknowledgementBatch(first, last, (kind,)) for first, last, kind in batches]
    lease = gateway.leases.get("group", part.client_member_id)
    return part.acknowledge(acknowledged, False, lease, gateway.job.time_ms, 100)


def passed_on(gateway: Gateway) -> list[tuple[str, str, list[tuple[int, int, int]]]]:
    """Return (from, to, ranges) of each row that passes records on."""
    rows = gateway.rows(ReassignRequest)
    return [(row.member_id, row.to_member_id, [tuple(each) for each in row.acquired]) for row in rows]


def acknowledged(gateway: Gateway) -> list[Sequence[Any]]:
    return [[tuple(batch) for batch in row.batches] for row in gateway.rows(AcknowledgeRequest)]


def test_released_records_go_to_a_waiting_member_when_their_row_is_durable() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = holder(gateway)
        other = gateway.member("m2")
        gateway.job.append_ms = 40
        outcome = acknowledge(gateway, part, (0, 0, ACCEPT), (1, 2, RELEASE), (3, 3, REJECT))
        (row,) = gateway.rows(ReassignRequest)
        assert (row.requester, row.lock_duration_ms, row.valid_until_ms) == ("gateway", LOCK_MS, LOCK_MS)
        assert passed_on(gateway) == [("m1", "m2", [(1, 2, 1)])]
        assert acknowledged(gateway) == [[(0, 0, (ACCEPT,)), (3, 3, (REJECT,))]]
        assert held(other) == []
        assert await outcome == SUCCESS
        assert held(other) == [(1, 2, 2)]
        assert other.read_ahead.locked_ranges([(1, 2)])[0].lock_deadline_ms == 40 + LOCK_MS
        assert len(part.holdings) == 0

    run(scenario)


def test_released_records_return_to_their_member_if_only_it_waits() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = holder(gateway)
        part.read_ahead.begin_wait(0)  # the fetch that carries the acknowledgement
        assert await acknowledge(gateway, part, (0, 3, RELEASE)) == SUCCESS
        assert passed_on(gateway) == [("m1", "m1", [(0, 3, 1)])]
        assert held(part) == [(0, 3, 2)]

    run(scenario)


def test_released_records_are_divided_among_the_waiting_members() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = holder(gateway)
        gateway.member("m2")
        gateway.member("m3", wanted=1)
        assert await acknowledge(gateway, part, (0, 3, RELEASE)) == SUCCESS
        assert passed_on(gateway) == [("m1", "m2", [(0, 1, 1)]), ("m1", "m3", [(2, 2, 1)])]
        assert acknowledged(gateway) == [[(3, 3, (RELEASE,))]]

    run(scenario)


def test_records_are_released_as_usual_if_nobody_waits() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = holder(gateway)
        assert await acknowledge(gateway, part, (0, 3, RELEASE)) == SUCCESS
        assert (passed_on(gateway), acknowledged(gateway)) == ([], [[(0, 3, (RELEASE,))]])

    run(scenario)


def test_records_are_released_as_usual_while_the_gateway_shuts_down() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = holder(gateway)
        gateway.member("m2")
        gateway.delivery.close()
        assert await acknowledge(gateway, part, (0, 3, RELEASE)) == SUCCESS
        assert (passed_on(gateway), acknowledged(gateway)) == ([], [[(0, 3, (RELEASE,))]])

    run(scenario)


def test_row_has_no_more_ranges_than_a_message_can_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reassignments, "MAX_RANGES_PER_ROW", 1)

    async def scenario(gateway: Gateway) -> None:
        part = holder(gateway)
        gateway.member("m2")
        assert await acknowledge(gateway, part, (0, 0, RELEASE), (1, 2, ACCEPT), (3, 3, RELEASE)) == SUCCESS
        assert passed_on(gateway) == [("m1", "m2", [(0, 0, 1)])]
        assert acknowledged(gateway) == [[(1, 2, (ACCEPT,)), (3, 3, (RELEASE,))]]

    run(scenario)


def test_records_at_the_delivery_count_limit_are_released_as_usual() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = holder(gateway, count=gateway.group_config.delivery_count_limit)
        gateway.member("m2")
        assert await acknowledge(gateway, part, (0, 3, RELEASE)) == SUCCESS
        assert (passed_on(gateway), acknowledged(gateway)) == ([], [[(0, 3, (RELEASE,))]])

    run(scenario)


def test_records_are_released_as_usual_while_members_wait_elsewhere() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = holder(gateway)
        gateway.member("m2")
        for wanted in gateway.job.wanted:
            wanted(KEY)
        await acknowledge(gateway, part, (0, 0, RELEASE))
        assert passed_on(gateway) == []
        gateway.job.time_ms = WANTED_ELSEWHERE_MS
        await acknowledge(gateway, part, (1, 1, RELEASE))
        assert passed_on(gateway) == [("m1", "m2", [(1, 1, 1)])]

    run(scenario)


@pytest.mark.parametrize("session_ms", [SESSION_MS, 20_000])
def test_late_row_delivers_nothing_and_the_release_is_sent_again(session_ms: int) -> None:
    """The job ignores the row, because the locks or the session of the other member may have ended before it."""

    async def scenario(gateway: Gateway) -> None:
        part = holder(gateway)
        other = gateway.member("m2", session_ms=session_ms)
        gateway.job.append_ms = min(LOCK_MS, session_ms - 1) + 1
        outcome = asyncio.ensure_future(acknowledge(gateway, part, (0, 3, RELEASE)))
        await until(lambda: bool(gateway.rows(AcknowledgeRequest)))
        (row,) = gateway.rows(AcknowledgeRequest)
        assert (row.reply_to, acknowledged(gateway)) == ("gateway", [[(0, 3, (RELEASE,))]])
        gateway.job.answer(row)
        assert await outcome == SUCCESS
        assert held(other) == []

    run(scenario)


@pytest.mark.parametrize("is_unknown", [True, False])
def test_unknown_outcome_delivers_nothing_and_is_reported(is_unknown: bool) -> None:
    """The append may have failed, or the member may have left before the row was durable."""

    async def scenario(gateway: Gateway) -> None:
        part = holder(gateway)
        other = gateway.member("m2")
        gateway.job.fail_next = is_unknown
        outcome = acknowledge(gateway, part, (0, 3, RELEASE))
        if not is_unknown:
            gateway.leases.end("group", "m1")
        code, _ = await outcome
        assert (code, held(other)) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, [])

    run(scenario)


def test_records_for_a_member_that_left_meanwhile_are_returned() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = holder(gateway)
        other = gateway.member("m2")
        outcome = acknowledge(gateway, part, (0, 3, RELEASE))
        gateway.leases.end("group", "m2")
        assert (await outcome, held(other)) == (SUCCESS, [])
        assert [row.acquired for row in gateway.rows(UnacquireRequest)] == [(AcquiredRange(0, 3, 2),)]

    run(scenario)


def test_records_for_a_member_that_left_and_joined_again_are_returned() -> None:
    async def scenario(gateway: Gateway) -> None:
        part = holder(gateway)
        other = gateway.member("m2")
        appended = gateway.job.delay_next(ReassignRequest)
        outcome = acknowledge(gateway, part, (0, 3, RELEASE))
        gateway.leases.end("group", "m2")
        gateway.leases.get_or_create("group", "m2").extend(SESSION_MS)
        appended.set_result(40)
        assert await outcome == SUCCESS
        assert held(other) == []
        assert [row.member_id for row in gateway.rows(UnacquireRequest)] == ["m2"]

    run(scenario)


@pytest.mark.parametrize("level", list(IsolationLevel))
def test_records_are_read_with_the_isolation_level_of_the_group(level: IsolationLevel) -> None:
    async def scenario(gateway: Gateway) -> None:
        part = holder(gateway)
        other = gateway.member("m2")
        gateway.group_config = replace(gateway.group_config, isolation_level=level)
        await acknowledge(gateway, part, (0, 3, RELEASE))
        assert other.read_ahead.readable_ranges().read_committed == (level is IsolationLevel.READ_COMMITTED)

    run(scenario)
