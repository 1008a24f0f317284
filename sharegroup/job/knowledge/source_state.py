"""The state that the source of the share_partition query keeps in memory, as of the last offset that it has returned.

`resume` restores the part that comes from the tables. The rest (log offsets, configs, and which keys have had a tick)
is lost in a restart, so the source sends rows about it to the query again.
"""

from collections.abc import Iterable
from typing import Self

from sharegroup.job.knowledge.known_configs import KnownConfigs, Values
from sharegroup.job.knowledge.known_logs import KnownLogs
from sharegroup.job.knowledge.listing import Listing, TopicIdPartition
from sharegroup.job.knowledge.managed_shards import ManagedShards
from sharegroup.job.knowledge.source_offset import SourceOffset
from sharegroup.storage.following.share_partition_row import SharePartitionRow
from sharegroup.types import SharePartitionKey


class SourceState:
    """The state of the source at one offset.

    Attributes:
        waiting: the share-partitions that are in the table but not managed yet, with their state epochs.
        gone: maps the id of each deleted topic to its share-partitions, with their state epochs. It contains only
            share-partitions whose shards have been notified.
        ticked_all: whether every shard key has been sent a tick row since the start of the process.
    """

    def __init__(self, offset: SourceOffset, shards: int) -> None:
        self.offset = offset
        self.listing, self.logs, self.configs = Listing(), KnownLogs(), KnownConfigs()
        self.managed = ManagedShards(shards)
        self.waiting: dict[SharePartitionKey, int] = {}
        self.gone: dict[str, dict[SharePartitionKey, int]] = {}
        self.ticked_all = False
        self._committed: dict[str, bool] = {}
        self._left: set[str] = set()

    @classmethod
    def resume(cls, offset: SourceOffset, listed: Iterable[SharePartitionRow], shards: int) -> Self:
        """Restore the state at an offset. `listed` has the rows of `share_partitions` at the offset's version.

        `shards` is `operator.shards`. A checkpoint with another number is discarded before the query starts.
        """
        knowledge = cls(offset, shards)
        knowledge.gone = {topic_id: {} for topic_id in offset.gone}
        waiting = set(offset.waiting)
        for row in listed:
            knowledge.put_row(row)
            if row.deleting:
                continue
            if row.key.topic_id in knowledge.gone:
                knowledge.gone[row.key.topic_id][row.key] = row.state_epoch
            elif waiting_key(row) in waiting:
                knowledge.waiting[row.key] = row.state_epoch
            else:
                knowledge.managed.add(row)
        return knowledge

    def put_row(self, row: SharePartitionRow) -> None:
        """Add or replace a row of the table `share_partitions`."""
        self.listing.put(row)
        self._committed.pop(row.key.topic, None)
        if row.deleting:
            self._remove_unmanaged(row.key)
        elif row.key.topic_id not in self.gone:
            self.logs.add(TopicIdPartition.for_key(row.key))

    def remove_row(self, key: SharePartitionKey) -> None:
        """Remove a row that is no longer in the table `share_partitions`."""
        self.listing.remove(key)
        self._committed.pop(key.topic, None)
        self._remove_unmanaged(key)
        if not self.listing.has_name(key.topic):
            self._left.add(key.topic)

    def pop_removed_topics(self) -> set[str]:
        """Return the topic names that have lost their last row since the last call."""
        left, self._left = self._left, set()
        return {name for name in left if not self.listing.has_name(name)}

    def configure(self, values: Values) -> list[str]:
        """Replace the configs; return the groups whose config has changed."""
        changed = self.configs.replace(values, self.listing.groups)
        if changed:
            self._committed.clear()
        return changed

    def is_read_committed(self, topic: str) -> bool:
        """Return whether any group reads the topic up to its last stable offset."""
        if topic not in self._committed:
            logs = (log for topic_id in self.listing.ids_of(topic) for log in self.listing.logs_of(topic_id))
            groups = {key.group_id for log in logs for key in self.listing.keys_of(log)}
            self._committed[topic] = any(map(self.configs.reads_committed, groups))
        return self._committed[topic]

    def mark_topic_deleted(self, topic_id: str) -> None:
        """Mark a topic as deleted, and stop requesting the offsets of its logs."""
        self.gone[topic_id] = {}
        for log in self.listing.logs_of(topic_id):
            self.logs.remove(log)

    def _remove_unmanaged(self, key: SharePartitionKey) -> None:
        """Remove a share-partition from `waiting` and `gone`, because its row was removed or is now marked as deleting.

        Also remove its log from `logs` if no other share-partition reads the log.
        """
        self.waiting.pop(key, None)
        log = TopicIdPartition.for_key(key)
        if not self.listing.keys_of(log):
            self.logs.remove(log)
        of_gone = self.gone.get(key.topic_id)
        if of_gone is not None:
            of_gone.pop(key, None)
            if not self.listing.logs_of(key.topic_id):
                del self.gone[key.topic_id]


def waiting_key(row: SharePartitionRow) -> str:
    """Return a row's name in `SourceOffset.waiting`. It contains the state epoch, which each initialization changes."""
    return f"{row.key.group_id}\t{row.key.topic_id}\t{row.key.partition}\t{row.state_epoch}"
