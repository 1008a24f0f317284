"""Checks of ShareGroupHeartbeat requests (KIP-932, "ShareGroupHeartbeat API").

Administrators' requests are checked in `administration.admin_rules`.
"""

from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.group_coordinator.records import ShareGroupMemberRecord
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.rows.row_fields import MAX_MEMBER_ID_LENGTH
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest
from sharegroup.types import is_topic_name

JOIN_GROUP_EPOCH = 0
LEAVE_GROUP_EPOCH = -1
#: The epoch that a static member sends when it leaves for a restart (KIP-848).
LEAVE_GROUP_STATIC_MEMBER_EPOCH = -2


def check_heartbeat(request: HeartbeatRequest) -> None:
    """Raise RequestError if the request itself is invalid, whatever the state of the group is.

    The code is INVALID_REQUEST, or INVALID_TOPIC_EXCEPTION for a subscription to an illegal topic name.
    """
    is_static, is_join = request.group_instance_id is not None, request.member_epoch == JOIN_GROUP_EPOCH
    least_epoch = LEAVE_GROUP_STATIC_MEMBER_EPOCH if is_static else LEAVE_GROUP_EPOCH
    faults = (
        (not request.member_id.strip() and not (is_static and not request.member_id), "MemberId can't be empty."),
        (len(request.member_id) > MAX_MEMBER_ID_LENGTH, f"MemberId has more than {MAX_MEMBER_ID_LENGTH} characters."),
        (not request.group_id.strip(), "GroupId can't be empty."),
        (request.rack_id is not None and not request.rack_id.strip(), "RackId can't be empty."),
        (is_join and not request.subscribed_topic_names, "SubscribedTopicNames must be set in first request."),
        (request.group_instance_id is not None and not request.group_instance_id.strip(), "InstanceId can't be empty."),
        (request.incarnation_id is not None and not request.incarnation_id.strip(), "IncarnationId can't be empty."),
        (is_static and request.incarnation_id is None, "IncarnationId must be set for a static member."),
        (request.member_epoch < least_epoch, "MemberEpoch is invalid."),
    )
    for is_wrong, message in faults:
        if is_wrong:
            raise RequestError(ErrorCode.INVALID_REQUEST, message)
    for name in request.subscribed_topic_names or ():
        if not is_topic_name(name):
            message = f"The request attempted to perform an operation on an invalid topic: {name!r}."
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def check_capacity(group: GroupMetadata, max_size: int) -> None:
    """Raise RequestError (GROUP_MAX_SIZE_REACHED) if the group already has `max_size` members."""
    if len(group.members) >= max_size:
        message = f"The share group has reached its maximum capacity of {max_size} members."
        raise RequestError(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def get_member(group: GroupMetadata, member_id: str) -> ShareGroupMemberRecord:
    """Return the member of the group with this id.

    Raises RequestError: GROUP_ID_NOT_FOUND for an unknown or deleted group, UNKNOWN_MEMBER_ID for an unknown member.
    """
    if not group.exists:
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group.group_id} not found.")
    if member_id not in group.members:
        message = f"Member {member_id} is not a member of group {group.group_id}."
        raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return group.members[member_id]


def check_member_epoch(member: ShareGroupMemberRecord, member_epoch: int) -> None:
    """Raise RequestError (FENCED_MEMBER_EPOCH) unless the epoch is the member's current or previous one.

    The previous epoch is valid because the response with the current epoch may have been lost.
    """
    if member_epoch in (member.member_epoch, member.previous_member_epoch):
        return
    relation = "greater" if member_epoch > member.member_epoch else "smaller"
    raise RequestError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {relation} member epoch ({member_epoch}) than the one known by the group "
        f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin.",
    )
