"""What an administrator's request about a group's offsets, or the group, is refused for (KIP-932, admin APIs).

Kafka has other codes and words for it than for a heartbeat (`heartbeat_rules`), also where the fault is the same.
"""

from __future__ import annotations

from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.errors import ErrorCode, RequestError


def check_alterable(group: GroupMetadata) -> None:
    """Raise RequestError: INVALID_GROUP_ID for a blank id, NON_EMPTY_GROUP for members, who would lose what they hold.

    The group need not exist.
    """
    _check_group_id(group)
    _check_empty(group)


def check_deletable(group: GroupMetadata) -> None:
    """The same of a group that has to exist. Raise RequestError: GROUP_ID_NOT_FOUND, also when it was deleted."""
    check_existing(group)
    _check_empty(group)


def check_existing(group: GroupMetadata) -> None:
    """Raise RequestError: INVALID_GROUP_ID for a blank id, GROUP_ID_NOT_FOUND, also when it was deleted."""
    _check_group_id(group)
    if not group.exists:
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} not found.")


def _check_group_id(group: GroupMetadata) -> None:
    if not group.group_id.strip():
        raise RequestError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")


def _check_empty(group: GroupMetadata) -> None:
    if group.members:
        raise RequestError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
