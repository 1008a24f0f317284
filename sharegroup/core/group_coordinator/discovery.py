"""Discovery of share-partitions from the topic metadata in heartbeats (KIP-932, "Share-partitions").

Topics are identified by id. The metadata of a member may be old:
- It may have fewer partitions than the topic, so discovery never removes share-partitions.
- It may contain a deleted topic. Such a topic is ignored if the coordinator was notified of its deletion. Before the
  notice, the coordinator cannot decide which of two ids with the same name is newer. It therefore ignores a topic if
  the group already has another topic id for the same name.
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
    """Yield a record for each share-partition of the `subscribed` topics that the group does not have yet.

    The new share-partitions are initialized under the group's next epoch. `topics` is the metadata by topic name.
    `auto_offset_reset` is the group's share.auto.offset.reset. It determines the start offsets, except in partitions
    that were added to a known topic. These are read from offset 0.
    """
    topic_ids = group.topic_ids()
    for topic in subscribed:
        if topic not in topics:
            continue
        topic_id, partitions = topics[topic]
        if topic_ids.get(topic, topic_id) != topic_id or group.is_deleted_topic(topic_id, now_ms):
            continue
        known = group.current_partitions(topic_id)
        # If the known partitions are 0..n-1, the others were added to the topic later. Otherwise the known ones were
        # added by a request that altered their offsets, and the unknown partitions already existed then.
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
