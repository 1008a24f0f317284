"""Conversion of a group's state to compact JSON. The operator's state store writes the JSON with every heartbeat.

To save space, partitions are stored as ranges. Share-partitions with equal fields are stored as one entry. Each
distinct assignment is stored once.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.group_coordinator.records import (
    Assignment,
    GroupState,
    ShareGroupMemberRecord,
    SharePartitionRecord,
    SharePartitionStatus,
    TopicPartitions,
)
from sharegroup.protocol.range_map import RangeMap

FORMAT_VERSION = 1


def dump_group(group: GroupMetadata) -> dict[str, Any]:
    """Return the group as a JSON-able dict. `restore_group` returns an equal group from the dict."""
    assignments: dict[Assignment, int] = {}

    def index(assignment: Assignment) -> int:
        return assignments.setdefault(assignment, len(assignments))

    members = [
        [
            member_id,
            member.member_epoch,
            member.previous_member_epoch,
            member.rack_id,
            member.client_id,
            member.client_host,
            list(member.subscribed_topic_names),
            index(member.assignment),
            index(group.targets[member_id]),
            group.session_deadlines[member_id],
            *group.deadline_receivers[member_id],
            member.group_instance_id,
            member.incarnation_id,
            member.joined_ms,
        ]
        for member_id, member in sorted(group.members.items())
    ]
    return {
        "version": FORMAT_VERSION,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "group_state": group.group_state.value,
        "members": members,
        "assignments": [
            [[topic, topic_id, _ranges(partitions)] for topic, topic_id, partitions in item] for item in assignments
        ],
        "share_partitions": {
            topic_id: [next(iter(records.values())).topic, _runs(records.values())]
            for topic_id, records in sorted(group.share_partitions.items())
        },
        "configs": group.configs,
        "deleted_topics": group.deleted_topics,
        "assignor": [group.assignor, group.assignment_timestamp_ms, sorted(group.departed)],
        "initialized_since_ms": group.initializing_since_ms,
    }


def restore_group(group_id: str, content: dict[str, Any]) -> GroupMetadata:
    """Return the group that `dump_group` wrote. Raises ValueError if `content` has another format version."""
    if content["version"] != FORMAT_VERSION:  # the supervisor recognises this message
        raise ValueError(
            f"group {group_id}: the checkpoint of the query group_coordinator has state of format "
            f"{content['version']}, but this job reads format {FORMAT_VERSION}: remove that checkpoint, and the job "
            "recovers from the tables"
        )
    group = GroupMetadata(
        group_id, content["group_epoch"], content["assignment_epoch"], GroupState(content["group_state"])
    )
    group.configs.update(content["configs"])
    group.deleted_topics.update(content["deleted_topics"])
    group.assignor, group.assignment_timestamp_ms, departed = content["assignor"]
    group.departed.update(departed)
    group.initializing_since_ms = content["initialized_since_ms"]  # the key of format 1
    assignments = [
        tuple(TopicPartitions(topic, topic_id, tuple(_partitions(ranges))) for topic, topic_id, ranges in item)
        for item in content["assignments"]
    ]
    for (
        member_id, epoch, previous, rack, client_id, host, topics, assignment, target, deadline_ms,
        reply_to, others_until_ms, instance_id, incarnation_id, joined_ms,
    ) in content["members"]:  # fmt: skip
        group.replay(
            ShareGroupMemberRecord(
                group_id, member_id, epoch, rack, client_id, host, tuple(topics), assignments[assignment], previous,
                group_instance_id=instance_id, incarnation_id=incarnation_id, joined_ms=joined_ms,
            )
        )  # fmt: skip
        group.targets[member_id] = assignments[target]
        group.session_deadlines[member_id] = deadline_ms
        group.deadline_receivers[member_id] = reply_to, others_until_ms
    for topic_id, (topic, runs) in content["share_partitions"].items():
        group.share_partitions[topic_id] = {
            partition: SharePartitionRecord(
                group_id, topic, topic_id, partition, SharePartitionStatus(status), epoch, offset, reset
            )
            for first, last, status, epoch, offset, reset in runs
            for partition in range(first, last + 1)
        }
    return group


def _ranges(partitions: Iterable[int]) -> list[list[int]]:
    """Return ascending partitions as [first, last] pairs."""
    return [[first, last] for first, last, _ in RangeMap((partition, partition, None) for partition in partitions)]


def _partitions(ranges: Iterable[tuple[int, int]]) -> Iterator[int]:
    return (partition for first, last in ranges for partition in range(first, last + 1))


def _runs(records: Iterable[SharePartitionRecord]) -> list[list[Any]]:
    """Return [first partition, last partition, *fields] for each run of share-partitions with equal fields."""
    runs: RangeMap[tuple[Any, ...]] = RangeMap()
    for record in sorted(records, key=lambda record: record.partition):
        rest = (record.status.value, record.state_epoch, record.start_offset, record.auto_offset_reset)
        runs.assign(record.partition, record.partition, rest)
    return [[first, last, *rest] for first, last, rest in runs]
