"""The topics in the newest metadata of the upstream cluster: ids, leaders, and changes."""

import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from kafka.protocol.metadata import MetadataResponse

from sharegroup.errors import ErrorCode
from sharegroup.protocol.topic_ids import NO_TOPIC_ID, derive_topic_id

#: Maximum number of stored ids of deleted topics. While an id is stored, a topic with this id in metadata is ignored.
MAX_DELETED = 10_000


class Leader(NamedTuple):
    """The leader of a topic partition. The node id is -1 if the partition has no leader."""

    node_id: int
    epoch: int


class Topic(NamedTuple):
    """A topic in the metadata.

    Attributes:
        name: its name.
        topic_id: its id.
        leaders: {partition index: leader}.
        has_made_id: whether the gateway computed the id from the name, because the brokers do not support topic ids.
    """

    name: str
    topic_id: uuid.UUID
    leaders: Mapping[int, Leader]
    has_made_id: bool = False


class KnownTopics:
    """The known topics, which can be looked up by name or id.

    When metadata is stored, callbacks are called for topic partitions whose log may have changed.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}
        self._names: dict[uuid.UUID, str] = {}
        self._deleted: OrderedDict[uuid.UUID, None] = OrderedDict()
        self._watchers: list[Callable[[uuid.UUID, int], None]] = []
        self._cluster_id: str | None = None

    @property
    def by_name(self) -> Mapping[str, Topic]:
        return self._by_name

    def by_id(self, topic_id: uuid.UUID) -> Topic | None:
        name = self._names.get(topic_id)
        return None if name is None else self._by_name.get(name)

    def get_id(self, name: str, from_broker: uuid.UUID | None) -> uuid.UUID:
        """Return the id of topic `name`. `from_broker` is the id in a broker's response.

        If the broker does not support topic ids, `from_broker` is None or zero. The result is then an id that is
        computed from the name.
        """
        if from_broker is not None and from_broker != NO_TOPIC_ID:
            return from_broker
        return derive_topic_id(self._cluster_id, name)

    def on_log_change(self, changed: Callable[[uuid.UUID, int], None]) -> None:
        """Register `changed`, which is called with (topic id, partition index) if the partition's log may have changed.

        This is the case if the partition has another leader or leader epoch than before, or was deleted.
        """
        self._watchers.append(changed)

    def apply_metadata(self, metadata: MetadataResponse) -> None:
        """Store the metadata of a response that contains all topics."""
        self._cluster_id = metadata.cluster_id or self._cluster_id
        self._replace(self._by_name, self._topics_of(metadata))

    def apply_metadata_of(self, names: Collection[str], metadata: MetadataResponse) -> None:
        """Store the metadata of a response to a request for only the topics in `names`.

        A topic that the response reports as unknown is removed. A topic with any other error keeps its known metadata.
        """
        found = self._topics_of(metadata)
        absent = {t.name for t in metadata.topics if t.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        reported = found.keys() | absent
        before = {name: self._by_name[name] for name in names if name in self._by_name and name in reported}
        self._replace(before, {name: topic for name, topic in found.items() if name in names})

    def mark_deleted(self, topic_id: uuid.UUID) -> bool:
        """Remove a topic and mark it as deleted, so that it is ignored even if brokers still return it.

        Return False if it was already marked. A new topic of the same name has another id, so it is not ignored.
        """
        topic, is_new = self.by_id(topic_id), topic_id not in self._deleted
        self._deleted[topic_id] = None
        if len(self._deleted) > MAX_DELETED:
            self._deleted.popitem(last=False)
        if topic is not None:
            self._replace({topic.name: topic}, {})
        return is_new

    def discard_deleted(self, topic_id: uuid.UUID) -> None:
        """Remove the mark that a topic is deleted. If brokers still return the topic, it counts again."""
        self._deleted.pop(topic_id, None)

    def _topics_of(self, metadata: MetadataResponse) -> dict[str, Topic]:
        topics: dict[str, Topic] = {}
        for found in metadata.topics:
            if found.error_code or not found.name:
                continue
            topic_id = self.get_id(found.name, found.topic_id)
            has_made_id = topic_id != found.topic_id
            # A new topic of the same name gets the same computed id, so such an id is never treated as deleted.
            if topic_id in self._deleted and not has_made_id:
                continue
            leaders = {
                partition.partition_index: Leader(partition.leader_id, partition.leader_epoch)
                for partition in found.partitions
            }
            topics[found.name] = Topic(found.name, topic_id, leaders, has_made_id)
        return topics

    def _replace(self, before: Mapping[str, Topic], after: Mapping[str, Topic]) -> None:
        """Replace the topics in `before` with those in `after`. Call the callbacks for logs that may have changed."""
        self._by_name = {name: topic for name, topic in self._by_name.items() if name not in before} | dict(after)
        for topic in before.values():
            self._names.pop(topic.topic_id, None)
        self._names |= {topic.topic_id: name for name, topic in after.items()}
        for topic_id, partition in list(_changed_logs(before, after)):
            for changed in self._watchers:
                changed(topic_id, partition)


def _changed_logs(before: Mapping[str, Topic], after: Mapping[str, Topic]) -> Iterator[tuple[uuid.UUID, int]]:
    for name, topic in before.items():
        now = after.get(name)
        is_same = now is not None and now.topic_id == topic.topic_id
        for partition, leader in topic.leaders.items():
            if not is_same or now is None or now.leaders.get(partition) != leader:
                yield topic.topic_id, partition
