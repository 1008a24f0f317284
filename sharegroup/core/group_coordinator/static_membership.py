"""Static members: a name that outlives processes (KIP-345, for share groups; ours, as Kafka's refuse it).

    join by a new name                    a new member, whose id it may bring; else the coordinator makes one
    join by a known name                  its stored id, with its epoch, assignment and locks: the process is the
                                          member's from now on, and the one before is fenced
    any other request by a known name     refused where its id is another, or its process was fenced
    leave with epoch -1, or time out      the member is gone, and what it holds goes to others
    leave with epoch -2 (KIP-848)         the member stays until its session is over: a process of it will be back

Which process speaks is told by `incarnation_id`. A dynamic member may have one, too: then of two processes with one
member id the latest to join is served. Without it nobody can tell them apart, as in Kafka.

The KIP's first text has errors of its own, whose numbers mean other things today: MEMBER_ID_MISMATCH is answered as
FENCED_INSTANCE_ID with that name in the message, and so is DUPLICATE_STATIC_MEMBER, which here is about an id that is
somebody else's: members make their own ids by now (KIP-1082).
"""

from __future__ import annotations

import hashlib

from sharegroup.config import GroupConfig
from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.group_coordinator.records import ShareGroupMemberRecord
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.rows.share_group_requests import HeartbeatRequest

#: The incarnation of a member that has left for a restart: no process's.
GONE = ""


def member_id_of(group: GroupMetadata, request: HeartbeatRequest, is_join: bool) -> str:
    """Whose heartbeat it is: the id that it names, or the one that is stored for its name.

    The id of a new static member is made from the request, so that a batch that is run again makes the same one. Raises
    RequestError: FENCED_INSTANCE_ID.
    """
    name = request.group_instance_id
    if name is None:
        return request.member_id
    stored = group.static_members.get(name)
    if stored is not None and request.member_id not in ("", stored):
        message = f"MEMBER_ID_MISMATCH: static member {name} has another member id than {request.member_id}."
        raise RequestError(ErrorCode.FENCED_INSTANCE_ID, message)
    if stored is not None:
        return stored
    if is_join and request.member_id in group.members:
        message = f"DUPLICATE_STATIC_MEMBER: {name} is new, and {request.member_id} is another member's id."
        raise RequestError(ErrorCode.FENCED_INSTANCE_ID, message)
    if is_join and not request.member_id:
        return hashlib.sha256("\n".join((group.group_id, name, request.id)).encode()).hexdigest()[:32]
    return request.member_id


def check_identity(member: ShareGroupMemberRecord, request: HeartbeatRequest) -> None:
    """Raise RequestError (FENCED_INSTANCE_ID) when the request is by another name than the member's."""
    if member.group_instance_id != request.group_instance_id:
        message = f"Member {member.member_id} is not the member of group instance id {request.group_instance_id}."
        raise RequestError(ErrorCode.FENCED_INSTANCE_ID, message)


def check_incarnation(member: ShareGroupMemberRecord, request: HeartbeatRequest) -> None:
    """Raise RequestError (FENCED_INSTANCE_ID) when another process has joined as the member since, or none is to."""
    if request.incarnation_id in (None, member.incarnation_id) or member.incarnation_id is None:
        return
    by_whom = "it has left for a restart" if member.incarnation_id == GONE else "another process has joined as it"
    message = f"This process is member {member.member_id} no more: {by_whom}."
    raise RequestError(ErrorCode.FENCED_INSTANCE_ID, message)


def session_timeout_ms(member: ShareGroupMemberRecord, config: GroupConfig) -> int:
    """How long the member stays without a heartbeat."""
    return config.static_session_timeout_ms if member.is_static else config.session_timeout_ms
