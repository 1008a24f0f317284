"""LeaveGroup of a share group removes members or rebalances the group; that of other groups is forwarded."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from kafka.protocol.consumer import LeaveGroupRequest, LeaveGroupResponse

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.handlers.groups.leave_group import LeaveGroup
from sharegroup.gateway.handlers.passthrough_requests import PassthroughRequests
from sharegroup.kafka_clients.connections.headers import MalformedRequestError, read_header
from sharegroup.protocol.rows.share_group_fields import ALL_AWAY
from sharegroup.protocol.rows.share_group_requests import (
    InvokeConsumerRebalanceRequest,
    MemberIdentity,
    RemoveMembersRequest,
)
from sharegroup.protocol.rows.share_group_responses import MemberError
from sharegroup.security.authorization import Authorization
from tests.unit.gateway.known_cluster import KnownCluster
from tests.unit.gateway.passthrough_cases import ALICE, alice_may
from tests.unit.gateway.scripted_upstream import EVERYTHING_ALLOWED, RecordedRequests, answer
from tests.unit.gateway.wire_bytes import request_frame

NAMED, DYNAMIC = MemberIdentity("", "worker-1"), MemberIdentity("m2", None)
UNKNOWN = int(ErrorCode.UNKNOWN_MEMBER_ID)
#: The coordinator also returns the id of the first member.
ERRORS = (MemberError("m1", "worker-1", 0, None), MemberError("m2", None, UNKNOWN, "not there"))
VERSIONS_WITH_MEMBERS = range(3, 6)


def leave(*members: MemberIdentity, group_id: str = "g", member_id: str = "") -> LeaveGroupRequest:
    named = [LeaveGroupRequest.MemberIdentity(member_id=m, group_instance_id=name) for m, name in members]
    return LeaveGroupRequest(group_id=group_id, member_id=member_id, members=named)


def left(
    requests: RecordedRequests, message: LeaveGroupRequest, version: int, security: Authorization = EVERYTHING_ALLOWED
) -> tuple[int, list[tuple[str, str | None, int]]]:
    """Return the error of the response, and its members with theirs."""
    found = answer(LeaveGroup(requests, security), message, LeaveGroupResponse, version, ALICE)
    members = [(each.member_id, each.group_instance_id, each.error_code) for each in found.members or ()]
    return found.error_code, members


@pytest.mark.parametrize("version", VERSIONS_WITH_MEMBERS)
def test_removed_members_are_identified_as_in_the_request(version: int) -> None:
    """Java's admin client finds the error of a member by the identity that it sent."""
    requests = RecordedRequests({"g": {"member_errors": ERRORS}})
    assert left(requests, leave(NAMED, DYNAMIC), version) == (0, [("", "worker-1", 0), ("m2", None, UNKNOWN)])
    assert requests.rows == [RemoveMembersRequest("1", "g", "gateway", members=(NAMED, DYNAMIC))]


@pytest.mark.parametrize("version", range(3))
def test_old_request_has_one_member(version: int) -> None:
    requests = RecordedRequests({"g": {"member_errors": ERRORS[1:]}})
    assert left(requests, leave(member_id="m2"), version) == (UNKNOWN, [])
    assert requests.rows == [RemoveMembersRequest("1", "g", "gateway", members=(DYNAMIC,))]


@pytest.mark.parametrize("version", VERSIONS_WITH_MEMBERS)
def test_member_without_id_and_name_means_members_that_are_away(version: int) -> None:
    requests = RecordedRequests({"g": {"removed": (MemberIdentity("m1", "worker-1"),)}})
    assert left(requests, leave(ALL_AWAY), version) == (0, [("m1", "worker-1", 0)])
    assert requests.rows == [InvokeConsumerRebalanceRequest("1", "g", "gateway")]


def test_old_request_for_members_that_are_away_lists_none() -> None:
    requests = RecordedRequests({"g": {"removed": (MemberIdentity("m1", "worker-1"),)}})
    assert left(requests, leave(), 2) == (0, [])
    assert requests.rows == [InvokeConsumerRebalanceRequest("1", "g", "gateway")]


def test_coordinators_error_is_the_error_of_the_response() -> None:
    requests = RecordedRequests({"g": RequestError(ErrorCode.GROUP_ID_NOT_FOUND, "not found")})
    assert left(requests, leave(NAMED), 5) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    assert left(requests, leave(ALL_AWAY), 5) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def test_leave_group_requires_read_on_the_group(caplog: pytest.LogCaptureFixture) -> None:
    requests = RecordedRequests()
    assert left(requests, leave(ALL_AWAY), 5, alice_may("Read group g")) == (0, [])
    caplog.set_level(logging.INFO, "sharegroup.audit")
    refused = left(requests, leave(ALL_AWAY), 5, alice_may("Describe group g", "Read topic *"))
    assert refused == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
    assert len(requests.rows) == 1
    assert "operation=READ resource=group:g" in caplog.text


def test_each_removed_member_is_audited(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sharegroup.audit")
    left(RecordedRequests({"g": {"member_errors": ERRORS}}), leave(NAMED, DYNAMIC), 5)
    assert [line.partition("resource=")[2] for line in caplog.messages] == [
        "group:g detail=worker-1",
        "group:g error=UNKNOWN_MEMBER_ID detail=m2",
    ]


class ShareGroups:
    """Share groups: only `share`."""

    async def is_share_group(self, node_id: int, group_id: str) -> bool:
        assert node_id == ALICE.node_id
        return group_id == "share"


def is_ours(message: LeaveGroupRequest, version: int, length: int | None = None) -> bool:
    frame = request_frame(message, version)
    groups: Any = ShareGroups()

    async def found() -> bool:
        passing = PassthroughRequests(KnownCluster(), {}, EVERYTHING_ALLOWED, groups)
        return await passing.is_for_share_group(ALICE.node_id, read_header(frame), frame[:length])

    return asyncio.run(found())


@pytest.mark.parametrize("version", range(6))
def test_only_requests_of_share_groups_are_handled_here(version: int) -> None:
    assert is_ours(leave(NAMED, group_id="share", member_id="m"), version)
    assert not is_ours(leave(NAMED, group_id="classic", member_id="m"), version)


def test_request_without_a_group_id_is_malformed() -> None:
    with pytest.raises(MalformedRequestError, match="malformed LeaveGroupRequest of version 5"):
        is_ours(leave(NAMED, group_id="share"), 5, length=20)
