"""Checks of administrators' requests for a group or its offsets (KIP-932, admin APIs).

Kafka uses other codes and messages for them than for heartbeats (`heartbeat_rules`), even for the same fault.
"""

from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.errors import ErrorCode, RequestError


def check_alterable(group: GroupMetadata) -> None:
    """Check a group whose offsets are altered. It need not exist, but must have no members, who could hold records.

    Raises RequestError: INVALID_GROUP_ID for a blank id, NON_EMPTY_GROUP.
    """
    _check_group_id(group)
    _check_empty(group)


def check_deletable(group: GroupMetadata) -> None:
    """Check a group that must exist and have no members.

    Raises RequestError: INVALID_GROUP_ID for a blank id, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
    """
    check_existing(group)
    _check_empty(group)


def check_existing(group: GroupMetadata) -> None:
    """Raise RequestError: INVALID_GROUP_ID for a blank id, GROUP_ID_NOT_FOUND for an unknown or deleted group."""
    _check_group_id(group)
    if not group.exists:
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} not found.")


def _check_group_id(group: GroupMetadata) -> None:
    if not group.group_id.strip():
        raise RequestError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")


def _check_empty(group: GroupMetadata) -> None:
    if group.members:
        raise RequestError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
