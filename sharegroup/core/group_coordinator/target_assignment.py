"""The times at which the assignor runs, and the records of a run (KIP-848, "Assignment"; KIP-1263).

A run is pending while the group epoch is above the assignment epoch. The first run is immediate. After that, there is
at most one run per share.assignment.interval.ms, so that 50 members that join together cause one run (KIP-1263,
"Assignment batching"). A run without share-partitions or without members does not start an interval, so the run for the
first share-partition or member is immediate.

If a heartbeat discovers share-partitions and changes nothing else, the run waits until all of them are initialized, but
at most DISCOVERY_MS. A new topic therefore raises the group epoch only once, as in Kafka, and members receive all its
partitions in one step. A run for any other change does not wait for initializations.

A run is also immediate if a member has left since the last run and joined again. The member must get a higher epoch
than before, because requests with its old epoch are rejected (`core.operators.share_partition.departed_members`).
"""

from collections.abc import Mapping

from sharegroup.config import GroupConfig
from sharegroup.core.group_coordinator.assignors import GroupSpec, MemberSpec, SubscribedTopicDescriber, get_assignor
from sharegroup.core.group_coordinator.change import Change
from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.group_coordinator.records import (
    Assignment,
    ShareGroupRecord,
    TargetAssignmentMetadataRecord,
    TargetAssignmentRecord,
    TopicPartitions,
)

#: Maximum time in ms for which the assignor waits for the other share-partitions of a topic, after the first ones are
#: initialized.
INITIALIZING_MS = 1_000
#: Maximum time in ms for which the assignor waits for share-partitions that a heartbeat discovered.
DISCOVERY_MS = 2_000


def is_run_pending(group: GroupMetadata) -> bool:
    """Return whether the group epoch has risen since the assignor ran, so that it must run again."""
    return group.exists and group.assignment_epoch < group.group_epoch


def next_run_ms(group: GroupMetadata, config: GroupConfig) -> int | None:
    """Return the time before which the pending run of the assignor must not start, or None if it is due now."""
    if not group.members or not group.departed.isdisjoint(group.members):
        return None
    since_ms, ran_ms = group.initializing_since_ms, group.assignment_timestamp_ms
    discovery_ms = None if since_ms is None else since_ms + DISCOVERY_MS
    interval_ms = None if ran_ms is None else ran_ms + config.assignment_interval_ms
    return max((due_ms for due_ms in (discovery_ms, interval_ms) if due_ms is not None), default=None)


def update_target_assignment(change: Change, now_ms: int, config: GroupConfig) -> None:
    """Run the assignor if a run is pending and due. Members receive the result with their next heartbeats.

    A change of the configured assignor also makes a run pending.
    """
    group = change.after
    if not is_run_pending(group):
        if not group.members or group.assignor == config.assignor:
            return
        change.bump_group_epoch()
        group = change.after
    due_ms = next_run_ms(group, config)
    if due_ms is None or now_ms >= due_ms:
        _run(change, group, now_ms, config)


def _run(change: Change, group: GroupMetadata, now_ms: int, config: GroupConfig) -> None:
    targets = compute_targets(group, config, group.targets)
    for member_id, assignment in targets.items():
        if assignment != group.targets.get(member_id):
            change.add(TargetAssignmentRecord(member_id, assignment))
    change.add(TargetAssignmentMetadataRecord(config.assignor, now_ms if any(targets.values()) else None))
    change.add(ShareGroupRecord(group.group_id, group.group_epoch, group.group_epoch, group.group_state))


def compute_targets(
    group: GroupMetadata, config: GroupConfig, current: Mapping[str, Assignment]
) -> dict[str, Assignment]:
    """Run the assignor, and return the target assignment of each member.

    `current` has the assignments that the assignor tries to keep, by member id. A target lists topics in ascending
    order of their names, and leaves out topics without an initialized share-partition.
    """
    assignable = group.assignable_topics()
    topic_ids = {
        names: tuple(assignable[name].topic_id for name in names if name in assignable)
        for names in {member.subscribed_topic_names for member in group.members.values()}
    }
    members = {
        member_id: MemberSpec(
            topic_ids[member.subscribed_topic_names],
            {topic_id: partitions for _, topic_id, partitions in current.get(member_id, ())},
            member.rack_id,
            member.group_instance_id,
        )
        for member_id, member in group.members.items()
    }
    topics = SubscribedTopicDescriber({item.topic_id: item.partitions for item in assignable.values()})
    targets = get_assignor(config.assignor).assign(GroupSpec(members), topics)
    return {
        member_id: tuple(
            TopicPartitions(name, item.topic_id, of_member[item.topic_id])
            for name, item in assignable.items()
            if item.topic_id in of_member
        )
        for member_id, of_member in targets.items()
    }
