"""Discovery of share-partitions from the metadata of heartbeats (KIP-932, "Share-partitions").

Topics are identified by id. A member with old metadata may know fewer partitions, so no share-partition is removed. It
may also name a deleted topic, which is recognised by its id once the coordinator was notified of the deletion. Until
then, two ids under one name cannot be ordered, so a topic whose name has another id in the group is ignored.
"""

from collections.abc import Iterable, Iterator, Mapping

from sharegroup.core.group_coordinator.group_metadata import GroupMetadata
from sharegroup.core.group_coordinator.records import (
    BY_AUTO_OFFSET_RESET,
    FROM_THE_BEGINNING,
    SharePartitionRecord,
    SharePartitionStatus,
)
from sharegroup.protocol.rows.share_group_requests import TopicMetadata


def discover_partitions(
    group: GroupMetadata,
    subscribed: Iterable[str],
    topics: Mapping[str, TopicMetadata],
    auto_offset_reset: str,
    now_ms: int,
) -> Iterator[SharePartitionRecord]:
    """Yield the records of new share-partitions, to be initialized under the group's next epoch.

    `auto_offset_reset` is the group's share.auto.offset.reset, which sets the start of topics that are new to the
    group.
    """
    topic_ids = group.topic_ids()
    for topic in subscribed:
        if topic not in topics:
            continue
        topic_id, partitions = topics[topic]
        if topic_ids.get(topic, topic_id) != topic_id or group.is_deleted_topic(topic_id, now_ms):
            continue
        known = group.current_partitions(topic_id)
        # If the first n partitions are known, the others were added to the topic later. If others are known, their
        # offsets were altered, and the unknown partitions have always existed.
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
