"""invoke_consumer_rebalance and remove_members: who leaves now, what is released, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest

from sharegroup.core.group_coordinator import CoordinatorResult
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_group_requests import (
    DeleteGroupRequest,
    InvokeConsumerRebalanceRequest,
    MemberIdentity,
    RemoveMembersRequest,
)
from sharegroup.protocol.rows.share_group_responses import (
    InvokeConsumerRebalanceResponse,
    MemberError,
    RemoveMembersResponse,
)
from tests.unit.core.group_coordinator.driver import CONFIG, GROUP, ORDERS, Driver, request

GONE, ALIVE, QUIET = "gone", "alive", "quiet"


def join(driver: Driver, name: str, reply_to: str = "") -> str:
    """Join a static member, itself or through a requester. Its member id is its instance id."""
    row = request(name, 0, ["orders"], ORDERS, instance=name, incarnation=f"p-{name}")
    return driver.send(dataclasses.replace(row, reply_to=reply_to or name)).member_id


def beat(driver: Driver, name: str, epoch: int | None = None) -> int:
    sent = driver.group.metadata.members[name].member_epoch if epoch is None else epoch
    row = request(name, sent, instance=name, incarnation=f"p-{name}")
    return driver.send(dataclasses.replace(row, reply_to=name)).error_code


def stable(*names: str) -> Driver:
    driver = Driver(dataclasses.replace(CONFIG, assignment_interval_ms=60_000))
    for name in names:
        join(driver, name)
    driver.initialize_all()
    driver.now_ms += 60_000
    for name in names:
        beat(driver, name)
    return driver


def rebalance(driver: Driver, group_id: str = GROUP) -> InvokeConsumerRebalanceResponse:
    response = driver.administer(InvokeConsumerRebalanceRequest("r", group_id))
    assert isinstance(response, InvokeConsumerRebalanceResponse)
    return response


def remove(driver: Driver, *members: MemberIdentity) -> RemoveMembersResponse:
    response = driver.administer(RemoveMembersRequest("r", GROUP, members=members))
    assert isinstance(response, RemoveMembersResponse)
    return response


def test_rebalance_removes_absent_static_members_and_runs_the_assignor() -> None:
    driver = stable(GONE, ALIVE, QUIET)
    assert beat(driver, GONE, -2) == 0
    driver.now_ms += CONFIG.session_timeout_ms - 1
    beat(driver, ALIVE)
    driver.now_ms += 1
    response = rebalance(driver)
    assert response.removed == (MemberIdentity(GONE, GONE), MemberIdentity(QUIET, QUIET))
    assert [(release.member_id, bool(release.topics)) for release in driver.last.releases] == [
        (GONE, True),
        (QUIET, True),
    ]
    group = driver.group.metadata
    assert list(group.members) == [ALIVE]
    assert group.assignment_epoch == group.group_epoch
    assert join(driver, GONE) == GONE


def test_a_member_that_was_quiet_for_less_than_a_dynamic_session_stays() -> None:
    driver = stable(ALIVE, QUIET)
    driver.now_ms += CONFIG.session_timeout_ms - 1
    epoch = driver.group.metadata.group_epoch
    assert rebalance(driver).removed == ()
    assert (driver.last.releases, driver.group.metadata.group_epoch) == ((), epoch + 1)
    assert driver.group.metadata.assignment_epoch == epoch + 1  # though the interval is not over


def test_dynamic_members_are_left_to_their_sessions() -> None:
    driver = stable(ALIVE)
    driver.join("dynamic")
    driver.now_ms += CONFIG.session_timeout_ms
    assert rebalance(driver).removed == (MemberIdentity(ALIVE, ALIVE),)
    assert list(driver.group.metadata.members) == ["dynamic"]


def test_rebalance_is_rejected_for_unknown_and_empty_groups() -> None:
    unknown = Driver()
    assert rebalance(unknown).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    blank = Driver(group_id=" ")
    assert rebalance(blank, " ").error_code == ErrorCode.INVALID_GROUP_ID
    empty = stable(ALIVE)
    beat(empty, ALIVE, -1)
    before = empty.group.dump()
    refused = rebalance(empty)
    told = f"Group {GROUP} is Empty: it has no members to rebalance."
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, told)
    assert empty.group.dump() == before
    empty.administer(DeleteGroupRequest("d", GROUP))
    assert rebalance(empty).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_members_are_removed_by_id_or_instance_id_and_reported() -> None:
    driver = stable("a", "b")
    driver.join("c")
    response = remove(
        driver,
        MemberIdentity("c", None),
        MemberIdentity("", "a"),
        MemberIdentity("", "nobody"),
        MemberIdentity("other", "b"),
        MemberIdentity("nobody", None),
    )
    assert response.member_errors == (
        MemberError("c", None, 0, None),
        MemberError("a", "a", 0, None),
        MemberError(
            "", "nobody", ErrorCode.UNKNOWN_MEMBER_ID,
            f"A member with the group instance id nobody is not in group {GROUP}.",
        ),
        MemberError(
            "other", "b", ErrorCode.FENCED_INSTANCE_ID, "Group instance id b belongs to another member than other."
        ),
        MemberError("nobody", None, ErrorCode.UNKNOWN_MEMBER_ID, f"Member nobody is not in group {GROUP}."),
    )  # fmt: skip
    assert list(driver.group.metadata.members) == ["b"]
    assert beat(driver, "b") == 0
    row = request("a", 3, instance="a", incarnation="p-a")
    assert driver.send(row).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_removed_members_records_stay_locked_while_a_gateway_may_respond() -> None:
    driver = stable("a")
    driver.join("by-gateway")  # its requester is gateway-1
    join(driver, "moved", reply_to="gateway-1")
    beat(driver, "moved")
    remove(driver, MemberIdentity("a", None), MemberIdentity("by-gateway", None), MemberIdentity("moved", None))
    released = {release.member_id: bool(release.topics) for release in driver.last.releases}
    assert released == {"a": True, "by-gateway": False, "moved": True}  # gateways never respond for static members


@pytest.mark.parametrize("members", [(), (MemberIdentity("nobody", None),)])
def test_removal_of_no_member_changes_nothing(members: tuple[MemberIdentity, ...]) -> None:
    driver = stable("a")
    before = driver.group.dump()
    response = remove(driver, *members)
    assert response.error_code == (ErrorCode.NONE if members else ErrorCode.INVALID_REQUEST)
    assert driver.last._replace(response=None) == CoordinatorResult()
    assert driver.group.dump() == before


def test_members_of_no_group_cannot_be_removed() -> None:
    assert remove(Driver(), MemberIdentity("a", None)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
