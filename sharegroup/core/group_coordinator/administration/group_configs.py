"""IncrementalAlterConfigs on a GROUP resource: changes of a group's configs. The group need not exist yet.

A new value applies to every request that is sent after the response. Besides writing the config rows, this requires two
steps:

- Send the effective config to each share-partition as a request (`ConfigureGroup`), before the response is sent.
- If share.auto.offset.reset changes, restart the initializations that still use the old value. The rows of their
  share-partitions get the next epoch and the new value.
"""

from collections.abc import Iterator, Mapping

from sharegroup.config import Config, GroupConfig, GroupOverrides, check_group_overrides
from sharegroup.core.group_coordinator.change import Change
from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.group_coordinator.records import (
    BY_AUTO_OFFSET_RESET,
    ShareGroupConfigRecord,
    SharePartitionRecord,
    SharePartitionStatus,
)
from sharegroup.core.group_coordinator.results import ConfigureGroup, CoordinatorResult, response_header
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.rows.share_group_requests import AlterConfigsRequest
from sharegroup.protocol.rows.share_group_responses import AlterConfigsResponse


def alter_configs(group: GroupMetadata, request: AlterConfigsRequest, job: Config) -> CoordinatorResult:
    """Set the configs in the request, or remove a config if its value is None. Apply all changes or none.

    If the request has `validate_only`, check the values and change nothing. `job` is the job's configuration, which has
    the values of configs that no request has set. Raises RequestError: INVALID_REQUEST for a blank group id,
    INVALID_CONFIG for invalid values, with all problems in its message.
    """
    if not group.group_id.strip():
        raise RequestError(
            ErrorCode.INVALID_REQUEST, "The group id is empty or blank. Specify the group whose configs to alter."
        )
    if any(value is not None for value in request.configs.values()):
        _check(group, request.configs, job)
    change = Change(group)
    if not request.validate_only:
        for name, value in sorted(request.configs.items()):
            if group.configs.get(name) != value:
                change.add(ShareGroupConfigRecord(group.group_id, name, value))
    response = AlterConfigsResponse(*response_header(request))
    if change.after is group:
        return CoordinatorResult(response=response)
    config = job.effective_group_config(group.group_id, change.after.configs).config
    _reinitialize(change, config)
    configure = _configure(change.after, request, config)
    return CoordinatorResult(*change.records(), response=response, configure=configure)


def _reinitialize(change: Change, config: GroupConfig) -> None:
    """Restart the initializations that use an outdated share.auto.offset.reset.

    The restarted initializations have the next group epoch and the value in `config`.
    """
    reset = str(config.auto_offset_reset)
    outdated = [record for record in _initializing(change.after) if record.auto_offset_reset != reset]
    if outdated:
        change.bump_group_epoch()
        for record in outdated:
            change.add(record._replace(state_epoch=change.after.group_epoch, auto_offset_reset=reset))


def _initializing(group: GroupMetadata) -> Iterator[SharePartitionRecord]:
    for records in group.share_partitions.values():
        for record in records.values():
            if record.status is SharePartitionStatus.INITIALIZING and record.start_offset == BY_AUTO_OFFSET_RESET:
                yield record


def _configure(group: GroupMetadata, request: AlterConfigsRequest, config: GroupConfig) -> ConfigureGroup | None:
    topics = group.partitions_by_topic(SharePartitionStatus.INITIALIZING, SharePartitionStatus.INITIALIZED)
    return ConfigureGroup(group.group_id, request.id, config, tuple(topics.values())) if topics else None


def _check(group: GroupMetadata, changes: Mapping[str, str | None], job: Config) -> None:
    """Raise RequestError (INVALID_CONFIG) if the group's values would be invalid after `changes`.

    The changes override the values of earlier requests. Values of requests override the job's configuration file.
    """
    stored = {name: value for name, value in {**group.configs, **changes}.items() if value is not None}
    of_file = job.groups.get(group.group_id, GroupOverrides()).set_values()
    _, problems = check_group_overrides({**of_file, **stored}, job.group, group_id=group.group_id)
    if problems:
        raise RequestError(ErrorCode.INVALID_CONFIG, "; ".join(problems))
