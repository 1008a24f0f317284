"""IncrementalAlterConfigs on a GROUP resource: values that a group has for itself, before it exists and after."""

from __future__ import annotations

from collections.abc import Mapping

from sharegroup.config import GroupOverrides, JobConfig, check_group_overrides
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.group_coordinator.change import Change
from sharegroup.group_coordinator.group_metadata import GroupMetadata
from sharegroup.group_coordinator.records import ShareGroupConfigRecord
from sharegroup.group_coordinator.results import CoordinatorResult, response_to
from sharegroup.protocol.request_rows import ShareGroupRequest

__all__ = ["alter_configs"]


def alter_configs(group: GroupMetadata, request: ShareGroupRequest, job: JobConfig) -> CoordinatorResult:
    """Set the named values, or take them away where they are None; all or nothing.

    Raises RequestError: INVALID_REQUEST for a blank group id, INVALID_CONFIG with every problem of the values.
    """
    if not group.group_id.strip():
        raise RequestError(ErrorCode.INVALID_REQUEST, "A config needs a group id.")
    given = {name: value for name, value in request.configs.items() if value is not None}
    if given:
        _check(group, request.configs, job)
    change = Change(group)
    if not request.validate_only:
        for name, value in sorted(request.configs.items()):
            if group.configs.get(name) != value:
                change.add(ShareGroupConfigRecord(group.group_id, name, value))
    return CoordinatorResult(*change.records(), response=response_to(request))


def _check(group: GroupMetadata, changes: Mapping[str, str | None], job: JobConfig) -> None:
    """Check what the group would have: the values of the file, those set before, and the new ones over them."""
    stored = {name: value for name, value in {**group.configs, **changes}.items() if value is not None}
    of_file = job.groups.get(group.group_id, GroupOverrides()).set_values()
    _, problems = check_group_overrides({**of_file, **stored}, job.group)
    if problems:
        raise RequestError(ErrorCode.INVALID_CONFIG, "; ".join(problems))
