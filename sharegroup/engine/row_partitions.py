"""Which partition of the request topic the rows of each share-partition come from.

One Kafka partition keeps the order of a share-partition's rows, so a row there shows that all earlier ones have been
read. That no longer holds once rows come from a second partition: the topic was given more partitions, and not every
writer knows it yet, or somebody writes with another partitioner. Until all writers are sure to use one partition again,
only ticks end locks: the time of a tick is safe for all partitions of the topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: How long a writer may go on with the previous number of partitions, in ms: twice Kafka's default of
#: `metadata.max.age.ms`.
MIXED_MS = 600_000


class RowPartitions:
    """By share-partition: the Kafka partition of its latest row, and until when rows may come from others as well."""

    def __init__(self, dumped: Mapping[str, Sequence[int]]) -> None:
        self._known = {int(partition): (entry[0], entry[1]) for partition, entry in dumped.items()}

    def dump(self) -> dict[str, tuple[int, int]]:
        """JSON-able; the constructor reads it back."""
        return {str(partition): entry for partition, entry in self._known.items()}

    def arrived(self, partition: int, kafka_partition: int, append_ms: int) -> int | None:
        """Take in a row of a share-partition; the previous Kafka partition if this is the first row from another."""
        before, mixed_until_ms = self._known.get(partition, (kafka_partition, 0))
        if before == kafka_partition:
            self._known[partition] = before, mixed_until_ms
            return None
        self._known[partition] = kafka_partition, append_ms + MIXED_MS
        return None if append_ms < mixed_until_ms else before

    def is_mixed(self, partition: int, append_ms: int) -> bool:
        """Whether earlier rows of the share-partition may be unread in another partition."""
        return append_ms < self._known.get(partition, (0, 0))[1]

    def drop(self, partition: int) -> None:
        """The share-partition is no longer led."""
        self._known.pop(partition, None)
