"""Administration of members: an immediate rebalance (KIP-345) and the removal of members.

The removal follows KIP-345, "removeMembersFromConsumerGroup". Kafka has neither request for share groups.

An administrator requests a rebalance when a worker has failed and will not restart soon. The coordinator then removes
static members without a running process before their sessions end, and runs the assignor immediately. A static member
counts as not running if it has left for a restart, or has sent no heartbeat for the session timeout of dynamic members.

The records of a removed member are released immediately, with one exception for dynamic members. Until a session
deadline that a gateway has received for the member, the gateway may respond to acknowledgements before the job
processes them. If the member is removed before this deadline, its records stay locked until the locks expire. A running
process of a removed member gets UNKNOWN_MEMBER_ID, and may join again.
"""

from collections.abc import Iterable

from sharegroup.config import GroupConfig
from sharegroup.core.group_coordinator.administration.admin_rules import check_existing
from sharegroup.core.group_coordinator.change import Change
from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.group_coordinator.records import ShareGroupMemberRecord, TargetAssignmentMetadataRecord
from sharegroup.core.group_coordinator.results import CoordinatorResult, ReleaseMember, response_header
from sharegroup.core.group_coordinator.static_membership import NO_INCARNATION, session_timeout_ms
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.rows.share_group_requests import (
    InvokeConsumerRebalanceRequest,
    MemberIdentity,
    RemoveMembersRequest,
)
from sharegroup.protocol.rows.share_group_responses import (
    InvokeConsumerRebalanceResponse,
    MemberError,
    RemoveMembersResponse,
)


def invoke_consumer_rebalance(
    group: GroupMetadata, request: InvokeConsumerRebalanceRequest, append_ms: int, now_ms: int, config: GroupConfig
) -> CoordinatorResult:
    """Remove the static members without a running process, and run the assignor immediately.

    A process counts as not running in two cases: it left for a restart, or its last heartbeat is older than the session
    timeout of dynamic members. The age is computed at `append_ms`, the append time of the request, because all
    heartbeats that were appended before that time have been processed. Raises RequestError: INVALID_REQUEST for a group
    without members, or the errors of `check_existing`.
    """
    check_existing(group)
    if not group.members:
        message = f"Group {group.group_id} is {group.group_state.value}: it has no members to rebalance."
        raise RequestError(ErrorCode.INVALID_REQUEST, message)
    away = [m for _, m in sorted(group.members.items()) if m.is_static and _is_away(group, m, append_ms, config)]
    removed = tuple(MemberIdentity(member.member_id, member.group_instance_id) for member in away)
    response = InvokeConsumerRebalanceResponse(*response_header(request), removed=removed)
    return _remove(group, away, now_ms)._replace(response=response)


def remove_members(group: GroupMetadata, request: RemoveMembersRequest, now_ms: int) -> CoordinatorResult:
    """Remove the members that the request names by member id or group instance id.

    The response has a result for each named member. Raises RequestError: INVALID_REQUEST if the request names no
    member, or the errors of `check_existing`.
    """
    check_existing(group)
    if not request.members:
        raise RequestError(ErrorCode.INVALID_REQUEST, "At least one member must be named.")
    errors, leaving = [], {}
    for identity in request.members:
        member_id, error = _find(group, identity)
        errors.append(error)
        if not error.error_code:
            leaving[member_id] = group.members[member_id]
    response = RemoveMembersResponse(*response_header(request), member_errors=tuple(errors))
    if not leaving:
        return CoordinatorResult(response=response)
    return _remove(group, leaving.values(), now_ms)._replace(response=response)


def _is_away(group: GroupMetadata, member: ShareGroupMemberRecord, append_ms: int, config: GroupConfig) -> bool:
    if member.incarnation_id == NO_INCARNATION:
        return True
    heartbeat_ms = group.session_deadlines[member.member_id] - session_timeout_ms(member, config)
    return append_ms >= heartbeat_ms + config.session_timeout_ms


def _find(group: GroupMetadata, identity: MemberIdentity) -> tuple[str, MemberError]:
    """Return the id of the member that `identity` names, and the member's entry in the response.

    If there is no such member, or if `identity` has the instance id of one member and the member id of another, the id
    is "" and the entry has an error code.
    """
    given, name = identity
    member_id = group.static_members.get(name, "") if name is not None else given
    if member_id not in group.members:
        what = f"Member {given}" if name is None else f"A member with the group instance id {name}"
        message = f"{what} is not in group {group.group_id}."
        return "", MemberError(*identity, int(ErrorCode.UNKNOWN_MEMBER_ID), message)
    if given not in ("", member_id):
        message = f"Group instance id {name} belongs to another member than {given}."
        return "", MemberError(*identity, int(ErrorCode.FENCED_INSTANCE_ID), message)
    return member_id, MemberError(member_id, group.members[member_id].group_instance_id, int(ErrorCode.NONE), None)


def _remove(group: GroupMetadata, leaving: Iterable[ShareGroupMemberRecord], now_ms: int) -> CoordinatorResult:
    """Remove the members in `leaving`, and make the next run of the assignor due immediately."""
    change, assignable = Change(group), tuple(group.assignable_topics().values())
    change.add(TargetAssignmentMetadataRecord(group.assignor, None))
    for member in leaving:
        change.add(member._replace(is_tombstone=True))
    change.bump_group_epoch()
    releases = [
        ReleaseMember(
            group.group_id,
            member.member_id,
            member.member_epoch,
            () if _is_relied_on(group, member, now_ms) else assignable,
        )
        for member in leaving
    ]
    return CoordinatorResult(*change.records(), releases=tuple(releases) if assignable else ())


def _is_relied_on(group: GroupMetadata, member: ShareGroupMemberRecord, now_ms: int) -> bool:
    """Return whether a gateway may still respond to the member's acknowledgements before the job processes them.

    A gateway may do so until the session deadline that it received for the member. Gateways never do so for a static
    member.
    """
    if member.is_static:
        return False
    reply_to, others_until_ms = group.deadline_receivers[member.member_id]
    is_by_gateway = reply_to not in ("", member.member_id)
    until_ms = group.session_deadlines[member.member_id] if is_by_gateway else others_until_ms
    return until_ms > now_ms
