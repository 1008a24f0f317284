"""The source's copy of the table `share_partitions`, with indexes for the look-ups of a poll."""

from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import NamedTuple, Self, TypeVar

from kafka import TopicPartition

from sharegroup.storage.following.share_partition_row import SharePartitionRow
from sharegroup.types import SharePartitionKey

_Index = TypeVar("_Index", bound=Hashable)
_Found = TypeVar("_Found", bound=Hashable)


class TopicIdPartition(NamedTuple):
    """A log, identified by its topic's id (Kafka's TopicIdPartition)."""

    topic: str
    topic_id: str
    partition: int

    @classmethod
    def for_key(cls, key: SharePartitionKey) -> Self:
        """Return the log that a share-partition reads."""
        return cls(*key[1:])

    @property
    def topic_partition(self) -> TopicPartition:
        """The log's topic name and partition, by which its offsets are requested."""
        return TopicPartition(self.topic, self.partition)


class Listing:
    """The rows of the table `share_partitions`, with indexes by log, topic id, topic name and group.

    All look-ups except `get` and `has_name` ignore the rows of share-partitions that are being deleted, because the
    source polls no log offsets for these.
    """

    def __init__(self) -> None:
        self._rows: dict[SharePartitionKey, SharePartitionRow] = {}
        self._names: dict[str, int] = {}
        self._keys: dict[TopicIdPartition, set[SharePartitionKey]] = {}
        self._logs_of_topic: dict[str, set[TopicIdPartition]] = {}
        self._ids_of_name: dict[str, set[str]] = {}
        self._keys_of_topic: dict[tuple[str, str], set[SharePartitionKey]] = {}
        self._keys_of_group: dict[str, set[SharePartitionKey]] = {}

    def get(self, key: SharePartitionKey) -> SharePartitionRow | None:
        return self._rows.get(key)

    def has_name(self, name: str) -> bool:
        """Return whether any row, even one that is being deleted, has this topic name."""
        return name in self._names

    def put(self, row: SharePartitionRow) -> None:
        """Add or replace a row."""
        self.remove(row.key)
        self._rows[row.key] = row
        self._names[row.key.topic] = self._names.get(row.key.topic, 0) + 1
        if row.deleting:
            return
        group_id, name, topic_id, _ = row.key
        log = TopicIdPartition.for_key(row.key)
        self._keys.setdefault(log, set()).add(row.key)
        self._logs_of_topic.setdefault(topic_id, set()).add(log)
        self._ids_of_name.setdefault(name, set()).add(topic_id)
        self._keys_of_topic.setdefault((group_id, topic_id), set()).add(row.key)
        self._keys_of_group.setdefault(group_id, set()).add(row.key)

    def remove(self, key: SharePartitionKey) -> None:
        """Remove a row, if there is one."""
        row = self._rows.pop(key, None)
        if row is None:
            return
        self._names[key.topic] -= 1
        if not self._names[key.topic]:
            del self._names[key.topic]
        if row.deleting:
            return
        group_id, name, topic_id, _ = key
        log = TopicIdPartition.for_key(key)
        _discard(self._keys_of_group, group_id, key)
        _discard(self._keys_of_topic, (group_id, topic_id), key)
        _discard(self._keys, log, key)
        if log not in self._keys:
            _discard(self._logs_of_topic, topic_id, log)
        if topic_id not in self._logs_of_topic:
            _discard(self._ids_of_name, name, topic_id)

    @property
    def logs(self) -> Collection[TopicIdPartition]:
        return self._keys.keys()

    @property
    def topics(self) -> Iterator[tuple[str, str]]:
        """All topics, as (name, id)."""
        return ((name, topic_id) for name, ids in self._ids_of_name.items() for topic_id in ids)

    def keys_of(self, log: TopicIdPartition) -> Collection[SharePartitionKey]:
        """Return the share-partitions that read a log."""
        return self._keys.get(log, ())

    def logs_of(self, topic_id: str) -> Collection[TopicIdPartition]:
        return self._logs_of_topic.get(topic_id, ())

    def ids_of(self, name: str) -> Collection[str]:
        """Return the ids that topics of this name have in the table.

        There are several ids if the topic was deleted and created again.
        """
        return self._ids_of_name.get(name, ())

    def logs_of_group(self, group_id: str, topic_id: str | None = None) -> Iterator[TopicIdPartition]:
        """Yield the logs that a group reads, of all topics or of one."""
        of_topic = self._keys_of_topic.get((group_id, topic_id or ""), ())
        keys = self._keys_of_group.get(group_id, ()) if topic_id is None else of_topic
        return map(TopicIdPartition.for_key, keys)

    @property
    def groups(self) -> Collection[str]:
        """The groups that have a share-partition."""
        return self._keys_of_group.keys()

    def manageable_rows(self, keys: Iterable[SharePartitionKey]) -> Iterator[SharePartitionRow]:
        """Yield the rows of the given share-partitions, except those that are being deleted, ordered by key."""
        for key in sorted(keys):
            row = self._rows.get(key)
            if row is not None and not row.deleting:
                yield row


def _discard(index: dict[_Index, set[_Found]], at: _Index, found: _Found) -> None:
    index[at].discard(found)
    if not index[at]:
        del index[at]
