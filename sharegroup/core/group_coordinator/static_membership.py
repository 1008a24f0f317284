"""Static members: their identity outlives their processes (KIP-345). Kafka's share groups have no static members.

    join with a new instance id           a new member, with the member id it sends or a generated one
    join with a known instance id         the stored member with its epoch, assignment and locks. If there was
                                          a previous process, the process whose join was appended first is fenced.
    other request, known instance id      rejected if the member id differs or the process is fenced
    leave with epoch -1, or time out      the member is removed, and its records are released
    leave with epoch -2 (KIP-848)         the member stays until its session ends, for its next process

`incarnation_id` identifies the process. A dynamic member may also send an incarnation id. If two processes use one
member id and send incarnation ids, the requests of the process that joined first are rejected. Without incarnation ids,
the two processes cannot be distinguished, as in Kafka.

The first version of KIP-345 defines two error codes whose numbers have other meanings today. Both are therefore sent as
FENCED_INSTANCE_ID, with the name of the original code in the message. MEMBER_ID_MISMATCH means that the member id does
not belong to the instance id. DUPLICATE_STATIC_MEMBER means here that a request has a new instance id, but the member
id of another member. This can happen because members generate their own ids today (KIP-1082).
"""

import hashlib

from sharegroup.config import GroupConfig
from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.group_coordinator.records import ShareGroupMemberRecord
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest

#: The incarnation id of a member that has left for a restart.
NO_INCARNATION = ""


def resolve_member_id(group: GroupMetadata, request: HeartbeatRequest, is_join: bool) -> str:
    """Return the member id of a heartbeat's sender.

    For a known group instance id, this is the stored member id. Otherwise it is the member id in the request. If a new
    static member sends no member id, the id is derived from the request, so that a repeated micro-batch derives the
    same id.

    Raises RequestError (FENCED_INSTANCE_ID) if the request has a known instance id with another member id, or joins
    with a new instance id and the member id of an existing member.
    """
    name = request.group_instance_id
    if name is None:
        return request.member_id
    stored = group.static_members.get(name)
    if stored is not None and request.member_id not in ("", stored):
        message = f"MEMBER_ID_MISMATCH: {request.member_id} is not the member id of group instance id {name}."
        raise RequestError(ErrorCode.FENCED_INSTANCE_ID, message)
    if stored is not None:
        return stored
    if is_join and request.member_id in group.members:
        message = f"DUPLICATE_STATIC_MEMBER: {name} is new, but member id {request.member_id} is already in use."
        raise RequestError(ErrorCode.FENCED_INSTANCE_ID, message)
    if is_join and not request.member_id:
        return hashlib.sha256("\n".join((group.group_id, name, request.id)).encode()).hexdigest()[:32]
    return request.member_id


def check_identity(member: ShareGroupMemberRecord, request: HeartbeatRequest) -> None:
    """Raise RequestError (FENCED_INSTANCE_ID) if the request has another instance id than the member."""
    if member.group_instance_id != request.group_instance_id:
        message = f"Member {member.member_id} does not belong to group instance id {request.group_instance_id}."
        raise RequestError(ErrorCode.FENCED_INSTANCE_ID, message)


def check_incarnation(member: ShareGroupMemberRecord, request: HeartbeatRequest) -> None:
    """Raise RequestError (FENCED_INSTANCE_ID) if the sender was replaced as the member or has left for a restart."""
    if request.incarnation_id in (None, member.incarnation_id) or member.incarnation_id is None:
        return
    reason = (
        "it has left for a restart"
        if member.incarnation_id == NO_INCARNATION
        else "another process has joined as this member"
    )
    message = f"This process is no longer member {member.member_id}: {reason}."
    raise RequestError(ErrorCode.FENCED_INSTANCE_ID, message)


def check_join_order(member: ShareGroupMemberRecord, request: HeartbeatRequest, append_ms: int, now_ms: int) -> None:
    """Raise RequestError (FENCED_INSTANCE_ID) if another process joined as the member after this join was appended.

    The later join may be read first, because the two joins may be in different partitions of the request topic. A
    `joined_ms` in the future comes from a broker whose clock was ahead and has been corrected, so it is ignored.
    """
    is_other = request.incarnation_id not in (None, member.incarnation_id)
    if is_other and member.joined_ms is not None and append_ms < member.joined_ms <= now_ms:
        message = f"This process is no longer member {member.member_id}: another process has joined as this member."
        raise RequestError(ErrorCode.FENCED_INSTANCE_ID, message)


def session_timeout_ms(member: ShareGroupMemberRecord, config: GroupConfig) -> int:
    """Return the session timeout of the member in ms. Static members have a timeout of their own."""
    return config.static_session_timeout_ms if member.is_static else config.session_timeout_ms
