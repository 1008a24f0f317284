"""Share-partitions that a heartbeat's metadata shows and the group does not know yet (KIP-932, "Share-partitions").

A topic is known by its id. A requester with old metadata may know fewer partitions: nothing is taken away. It may also
name a topic that is no more, which its id tells once the group has been told of the deletion. Until then, where the
group knows the name under another id, it cannot be said which of the two is newer, so the named one is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.group_coordinator.records import (
    BY_AUTO_OFFSET_RESET,
    FROM_THE_BEGINNING,
    SharePartitionRecord,
    SharePartitionStatus,
)
from sharegroup.protocol.rows.share_group_requests import TopicMetadata


def discovered_partitions(
    group: GroupMetadata,
    subscribed: Iterable[str],
    topics: Mapping[str, TopicMetadata],
    auto_offset_reset: str,
    now_ms: int,
) -> Iterator[SharePartitionRecord]:
    """The records of those to be initialized under the group's next epoch.

    `auto_offset_reset` is the group's share.auto.offset.reset, by which a topic that is new to the group starts.
    """
    topic_ids = group.topic_ids()
    for topic in subscribed:
        if topic not in topics:
            continue
        topic_id, partitions = topics[topic]
        if topic_ids.get(topic, topic_id) != topic_id or group.is_deleted_topic(topic_id, now_ms):
            continue
        known = group.known(topic_id)
        # Known up to some partition: what comes after it was added to the topic. Known here and there, because
        # someone altered the offsets of these: the rest has always been there.
        are_the_first = bool(known) and max(known) == len(known) - 1
        start_offset = FROM_THE_BEGINNING if are_the_first else BY_AUTO_OFFSET_RESET
        for partition in range(partitions):
            if partition not in known:
                yield SharePartitionRecord(
                    group.group_id,
                    topic,
                    topic_id,
                    partition,
                    SharePartitionStatus.INITIALIZING,
                    group.next_epoch,
                    start_offset,
                    auto_offset_reset if start_offset == BY_AUTO_OFFSET_RESET else None,
                )
