"""What the source of the share_partition query knows, in its own memory, when its newest offset is `offset`.

The tables' part of it can be told again from the offset alone (`resumed`). All else - log offsets, configs, who was
ticked - a process that starts anew does not know, and says once more.
"""

from __future__ import annotations

from collections.abc import Iterable

from sharegroup.job.knowledge.known_configs import KnownConfigs, Values
from sharegroup.job.knowledge.known_logs import KnownLogs
from sharegroup.job.knowledge.led_shards import LedShards
from sharegroup.job.knowledge.listing import Listing, TopicIdPartition
from sharegroup.job.knowledge.source_offset import SourceOffset
from sharegroup.storage.following.share_partition_row import SharePartitionRow
from sharegroup.types import SharePartitionKey


class SourceKnowledge:
    """`waiting`: listed share-partitions that are not led yet, with their state epochs. `gone`: the topics that are no
    more, by id, with the share-partitions (and their state epochs) whose shards were told so."""

    def __init__(self, offset: SourceOffset, shards: int) -> None:
        self.offset = offset
        self.listing, self.logs, self.configs = Listing(), KnownLogs(), KnownConfigs()
        self.led = LedShards(shards)
        self.waiting: dict[SharePartitionKey, int] = {}
        self.gone: dict[str, dict[SharePartitionKey, int]] = {}
        self.ticked_all = False
        self._committed: dict[str, bool] = {}
        self._left: set[str] = set()

    @classmethod
    def resumed(cls, offset: SourceOffset, listed: Iterable[SharePartitionRow]) -> SourceKnowledge:
        """After a start: what the operator leads; `listed` are the share-partitions at the offset's version."""
        knowledge = cls(offset, offset.shards)
        knowledge.gone = {topic_id: {} for topic_id in offset.gone}
        waiting = set(offset.waiting)
        for row in listed:
            knowledge.put(row)
            if row.deleting:
                continue
            if row.key.topic_id in knowledge.gone:
                knowledge.gone[row.key.topic_id][row.key] = row.state_epoch
            elif waiting_key(row) in waiting:
                knowledge.waiting[row.key] = row.state_epoch
            else:
                knowledge.led.lead(row)
        return knowledge

    def put(self, row: SharePartitionRow) -> None:
        """A row that is in the table now."""
        self.listing.put(row)
        self._committed.pop(row.key.topic, None)
        if row.deleting:
            self._forget_unread(row.key)
        elif row.key.topic_id not in self.gone:
            self.logs.want(TopicIdPartition.of(row.key))

    def drop(self, key: SharePartitionKey) -> None:
        """A row that is in the table no more."""
        self.listing.drop(key)
        self._committed.pop(key.topic, None)
        self._forget_unread(key)
        if not self.listing.has_name(key.topic):
            self._left.add(key.topic)

    def take_left(self) -> set[str]:
        """The names of topics that the table has no row of any more, since this was asked last."""
        left, self._left = self._left, set()
        return {name for name in left if not self.listing.has_name(name)}

    def configure(self, values: Values) -> list[str]:
        """From now on these configs are in force; the groups whose config is another than was said."""
        changed = self.configs.take(values, self.listing.groups)
        if changed:
            self._committed.clear()
        return changed

    def is_read_committed(self, topic: str) -> bool:
        """Whether a group reads the topic up to its last stable offset."""
        if topic not in self._committed:
            logs = (log for topic_id in self.listing.ids_of(topic) for log in self.listing.logs_of(topic_id))
            groups = {key.group_id for log in logs for key in self.listing.keys_of(log)}
            self._committed[topic] = any(map(self.configs.reads_committed, groups))
        return self._committed[topic]

    def lose(self, topic_id: str) -> None:
        """The topic is no more: nobody asks for its logs."""
        self.gone[topic_id] = {}
        for log in self.listing.logs_of(topic_id):
            self.logs.forget(log)

    def _forget_unread(self, key: SharePartitionKey) -> None:
        """It is not to be led any more: what was known for it alone goes."""
        self.waiting.pop(key, None)
        log = TopicIdPartition.of(key)
        if not self.listing.keys_of(log):
            self.logs.forget(log)
        of_gone = self.gone.get(key.topic_id)
        if of_gone is not None:
            of_gone.pop(key, None)
            if not self.listing.logs_of(key.topic_id):
                del self.gone[key.topic_id]


def waiting_key(row: SharePartitionRow) -> str:
    """A row as `SourceOffset.waiting` names it: initialized again, under a higher state epoch, it is another."""
    return f"{row.key.group_id}\t{row.key.topic_id}\t{row.key.partition}\t{row.state_epoch}"
