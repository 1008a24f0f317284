"""The offsets of the logs that share-partitions read, as their leaders have reported them."""

from collections.abc import Collection, Mapping

from sharegroup.core.operators.log_offsets import PartitionLog
from sharegroup.job.knowledge.listing import TopicIdPartition


class KnownLogs:
    """The offsets of each log, and the *unknown* logs.

    A log is unknown until a response arrives after the log was added or marked as stale.
    """

    def __init__(self) -> None:
        self._offsets: dict[TopicIdPartition, PartitionLog] = {}
        self._unknown: set[TopicIdPartition] = set()

    @property
    def offsets(self) -> Mapping[TopicIdPartition, PartitionLog]:
        return self._offsets

    @property
    def unknown(self) -> Collection[TopicIdPartition]:
        """The logs whose offsets were never received, or are stale."""
        return self._unknown

    def current(self, log: TopicIdPartition) -> PartitionLog | None:
        """Return a log's offsets; None if they are unknown or stale."""
        return None if log in self._unknown else self._offsets.get(log)

    def add(self, log: TopicIdPartition) -> None:
        """Add a log that a share-partition reads."""
        if log not in self._offsets:
            self._unknown.add(log)

    def mark_stale(self, logs: Collection[TopicIdPartition]) -> None:
        """Mark logs as stale, so that a new share-partition starts at the offsets of the next response.

        Offsets that were fetched before for other share-partitions may be old.
        """
        self._unknown.update(logs)

    def remove(self, log: TopicIdPartition) -> None:
        """Remove a log that no share-partition reads any longer."""
        self._offsets.pop(log, None)
        self._unknown.discard(log)

    def update(self, responses: Mapping[TopicIdPartition, PartitionLog]) -> list[TopicIdPartition]:
        """Store responses; return the logs whose offsets have changed."""
        moved = [log for log, offsets in responses.items() if self._offsets.get(log) != offsets]
        self._offsets.update(responses)
        self._unknown.difference_update(responses)
        return moved
