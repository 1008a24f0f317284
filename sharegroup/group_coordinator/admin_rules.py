"""What every administrator's request is refused for (KIP-932, admin APIs)."""

from __future__ import annotations

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.group_coordinator.group_metadata import GroupMetadata

__all__ = ["check_empty", "check_exists", "check_group_id"]


def check_group_id(group_id: str) -> None:
    """Raise RequestError (INVALID_GROUP_ID) for a blank id."""
    if not group_id.strip():
        raise RequestError(ErrorCode.INVALID_GROUP_ID, "The group id is invalid.")


def check_exists(group: GroupMetadata) -> None:
    """Raise RequestError (GROUP_ID_NOT_FOUND) when there is no such group, or it was deleted."""
    if not group.exists:
        raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} not found.")


def check_empty(group: GroupMetadata) -> None:
    """Raise RequestError (NON_EMPTY_GROUP) while the group has members: they would lose what they hold."""
    if group.members:
        raise RequestError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
