"""Checks of administrators' requests for a group or its offsets (KIP-932, admin APIs).

Heartbeats have their own checks (`heartbeat_rules`). As in Kafka, the same fault may have another error code or message
in a heartbeat.
"""

from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.errors import ErrorCode, RequestError


def check_alterable(group: GroupMetadata) -> None:
    """Check that the group has no members, so that its offsets may be altered. The group need not exist.

    Raises RequestError: INVALID_GROUP_ID for a blank id, NON_EMPTY_GROUP if the group has members.
    """
    _check_group_id(group)
    _check_empty(group)


def check_deletable(group: GroupMetadata) -> None:
    """Check that the group exists and has no members, so that the group or its offsets may be deleted.

    Raises RequestError: INVALID_GROUP_ID for a blank id, GROUP_ID_NOT_FOUND for an unknown or deleted group,
    NON_EMPTY_GROUP if the group has members.
    """
    check_existing(group)
    _check_empty(group)


def check_existing(group: GroupMetadata) -> None:
    """Check that the group exists.

    Raises RequestError: INVALID_GROUP_ID for a blank id, GROUP_ID_NOT_FOUND for an unknown or deleted group.
    """
    _check_group_id(group)
    if not group.exists:
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} not found.")


def _check_group_id(group: GroupMetadata) -> None:
    if not group.group_id.strip():
        raise RequestError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")


def _check_empty(group: GroupMetadata) -> None:
    if group.members:
        raise RequestError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
