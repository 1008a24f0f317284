"""Every rejection of a heartbeat, with its message. A rejection changes nothing."""

import pytest

from sharegroup.core.group_coordinator import CoordinatorResult, GroupState, ShareGroupRecord
from sharegroup.errors import ErrorCode
from sharegroup.protocol.rows.share_group_requests import ShareGroupRequest
from tests.unit.core.group_coordinator.driver import GROUP, ORDERS, Driver, request


def refusal(driver: Driver, heartbeat: ShareGroupRequest) -> tuple[ErrorCode, str | None]:
    before, deadline = driver.group.dump(), driver.group.next_deadline_ms
    response = driver.send(heartbeat)
    assert (driver.group.dump(), driver.group.next_deadline_ms) == (before, deadline)
    assert driver.last._replace(response=None) == CoordinatorResult()
    assert (response.id, response.reply_to, response.member_id) == (
        heartbeat.id,
        heartbeat.reply_to,
        heartbeat.member_id,
    )
    return ErrorCode(response.error_code), response.error_message


@pytest.mark.parametrize(
    ("heartbeat", "message"),
    [
        (request("", 0, ["orders"]), "MemberId can't be empty."),
        (request("  ", 1), "MemberId can't be empty."),
        (request("m" * 37, 0, ["orders"]), "MemberId has more than 36 characters."),
        (request("m", 0, ["orders"], group_id=""), "GroupId can't be empty."),
        (request("m", 0, ["orders"], rack_id=""), "RackId can't be empty."),
        (request("m", 0, None), "SubscribedTopicNames must be set in first request."),
        (request("m", 0, []), "SubscribedTopicNames must be set in first request."),
        (request("m", -2), "MemberEpoch is invalid."),
    ],
)
def test_an_invalid_request(heartbeat: ShareGroupRequest, message: str) -> None:
    assert refusal(Driver(), heartbeat) == (ErrorCode.INVALID_REQUEST, message)


@pytest.mark.parametrize("name", ["two words", "..", "größe", "x" * 250])
@pytest.mark.parametrize("epoch", [0, 2])
def test_illegal_topic_name_is_rejected(name: str, epoch: int) -> None:
    driver = Driver()
    driver.join("a")
    told = f"The request attempted to perform an operation on an invalid topic: {name!r}."
    assert refusal(driver, request("a", epoch, ["orders", name])) == (ErrorCode.INVALID_TOPIC_EXCEPTION, told)


def test_a_member_id_may_have_36_characters() -> None:
    assert Driver().join("m" * 36).error_code == ErrorCode.NONE


@pytest.mark.parametrize("epoch", [1, -1])
def test_only_a_join_makes_a_group(epoch: int) -> None:
    told = (ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {GROUP} not found.")
    assert refusal(Driver(), request("m", epoch)) == told


def test_a_dead_group_is_not_found_until_it_is_joined_again() -> None:
    driver = Driver()
    driver.join("m")
    driver.group.replay(ShareGroupRecord(GROUP, 5, 5, GroupState.DEAD))
    assert refusal(driver, request("m", 2))[0] is ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.join("m").member_epoch == 6
    assert driver.group.metadata.group_state is GroupState.STABLE
    made_anew = driver.group.metadata.share_partitions["id-orders"].values()
    assert {(record.state_epoch, record.start_offset) for record in made_anew} == {(6, -1)}


@pytest.mark.parametrize("epoch", [2, -1])
@pytest.mark.parametrize("is_empty", [True, False])
def test_only_a_join_makes_a_member(epoch: int, is_empty: bool) -> None:
    driver = Driver()
    driver.join("a")
    if is_empty:
        driver.leave("a")
    told = (ErrorCode.UNKNOWN_MEMBER_ID, f"Member b is not a member of group {GROUP}.")
    assert refusal(driver, request("b", epoch)) == told


def test_full_group_rejects_new_members_and_keeps_present_ones() -> None:
    driver = Driver()
    for member in "abc":
        driver.join(member)
    told = (ErrorCode.GROUP_MAX_SIZE_REACHED, "The share group has reached its maximum capacity of 3 members.")
    assert refusal(driver, request("d", 0, ["orders"], ORDERS)) == told
    assert driver.beat("a").error_code == ErrorCode.NONE
    assert driver.join("a").error_code == ErrorCode.NONE
    driver.leave("b")
    assert driver.join("d").error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("epoch", "message"),
    [
        (
            5,
            "The share group member has a greater member epoch (5) than the one known by the group coordinator (4). "
            "The member must abandon all its partitions and rejoin.",
        ),
        (
            2,
            "The share group member has a smaller member epoch (2) than the one known by the group coordinator (4). "
            "The member must abandon all its partitions and rejoin.",
        ),
    ],
)
def test_other_epochs_than_current_and_previous_are_fenced(epoch: int, message: str) -> None:
    driver = Driver()
    driver.join("a")
    driver.initialize_all()
    driver.beat("a")
    driver.join("b")
    driver.beat("a")
    assert driver.epochs() == (4, 4, {"a": 4, "b": 4})
    assert refusal(driver, request("a", epoch)) == (ErrorCode.FENCED_MEMBER_EPOCH, message)


def test_previous_epoch_gets_the_assignment_again() -> None:
    driver = Driver()
    driver.join("a")
    driver.initialize_all()
    told = driver.beat("a")
    assert told.assignment is not None
    again = driver.send(request("a", 2))
    assert (again.error_code, again.member_epoch, again.assignment) == (ErrorCode.NONE, 3, told.assignment)


def test_leaving_needs_no_valid_epoch() -> None:
    driver = Driver()
    driver.join("a")
    response = driver.leave("a")
    assert (response.error_code, response.member_epoch, response.assignment) == (ErrorCode.NONE, -1, None)
