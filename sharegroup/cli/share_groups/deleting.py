"""`share-groups --delete` and `--delete-offsets`."""

from collections.abc import Mapping

from kafka.errors import GroupIdNotFoundError, KafkaError, NonEmptyGroupError

from sharegroup.cli.options.output import Column, Output, OutputFormat, warn
from sharegroup.cli.share_groups.arguments import DEAD, EMPTY, Arguments
from sharegroup.kafka_clients.admin import ShareGroupAdmin
from sharegroup.kafka_clients.admin.errors import error_text

_STATUS = (Column("TOPIC", "topic", 30), Column("STATUS", "status"))


def delete_groups(admin: ShareGroupAdmin, arguments: Arguments, output: Output) -> int:
    """Delete the requested share groups. Return exit code 1 if any of them was not deleted, otherwise 0.

    A group that has members is not deleted. If one group cannot be deleted, the others are deleted nevertheless.
    """
    states = {group.group_id: group.group_state for group in admin.list_groups()}
    group_ids = sorted(states) if arguments.all_groups else list(dict.fromkeys(arguments.group))
    problems = {group_id: _problem(group_id, states.get(group_id)) for group_id in group_ids}
    results: dict[str, str | None] = {
        group_id: problem for group_id, problem in problems.items() if problem is not None
    }
    allowed = [group_id for group_id in group_ids if group_id not in results]
    if allowed:
        results |= {
            key: None if error is None else error_text(error) for key, error in admin.delete_groups(allowed).items()
        }
    _report_deletions({group_id: results[group_id] for group_id in group_ids}, output)
    return 1 if any(results.values()) else 0


def _problem(group_id: str, state: str | None) -> str | None:
    """Return the reason why a group in this state cannot be deleted, or None if it can.

    `state` is None if there is no share group with this id.
    """
    if state is None:
        return f"Group '{group_id}' is not a share group."
    if state == DEAD:
        return f"Share group '{group_id}' group state is DEAD."
    return None if state == EMPTY else f"Share group '{group_id}' is not EMPTY."


def _report_deletions(results: Mapping[str, str | None], output: Output) -> None:
    if output.kind is not OutputFormat.TABLE:
        output.document([{"group": group_id, "error": error} for group_id, error in results.items()])
        return
    deleted = ", ".join(f"'{group_id}'" for group_id, error in results.items() if error is None)
    failed = {group_id: error for group_id, error in results.items() if error is not None}
    if not failed:
        output.print_line(f"Deletion of requested share groups ({deleted}) was successful.")
        return
    warn("Error: Deletion of some share groups failed:")
    for group_id, error in failed.items():
        warn(f"* Group '{group_id}' could not be deleted due to: {error}")
    if deleted:
        output.print_line(f"\nThese share groups were deleted successfully: {deleted}")


def delete_offsets(admin: ShareGroupAdmin, arguments: Arguments, output: Output) -> int:
    """Delete a group's offsets of the requested topics. The group must have no members.

    Return exit code 1 if the offsets of any topic were not deleted, otherwise 0.
    """
    (group_id,) = arguments.group
    topics = sorted(set(arguments.topic))
    errors: Mapping[str, KafkaError | None]
    try:
        errors = admin.delete_group_offsets(group_id, topics)
    except (NonEmptyGroupError, GroupIdNotFoundError) as error:
        warn(f"\nError: {error_text(error)}")
        errors = dict.fromkeys(topics, error)
    rows = [{"topic": topic, "status": _status(errors[topic])} for topic in topics]
    output.tables(_STATUS, [rows])
    return 1 if any(errors.values()) else 0


def _status(error: KafkaError | None) -> str:
    return "Successful" if error is None else f"Error: {error_text(error)}"
