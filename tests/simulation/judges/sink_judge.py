"""The check of `DeltaSink`'s promise in README: exactly once into its table, as seen from outside.

- At most once: of the deliveries in one life of a share-partition, one batch appends a record. After an administrator
  has reset the share-partition, it may be appended once more (`delta_sink`).
- At least once: a member that accepts a batch has appended the records that it read to the table before. An unclean
  election may put other records at offsets of the batch after that. Nobody reads these before they are accepted, as
  `docs/compatibility.md` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sharegroup.member.ranges import AssignedPartition, HeldRange
from sharegroup.spark.share_consumer.acquired_batch import AcquiredBatch
from tests.simulation.judges.judge import Judge, Key
from tests.simulation.members.simulated_sink import SimulatedSink, SinkKey

RULE = "exactly once in the sink"


class SinkJudge:
    """The check of one group's table."""

    def __init__(self, judge: Judge, group_id: str, sink: SimulatedSink) -> None:
        self._judge, self._group_id, self._sink = judge, group_id, sink
        #: The life of its share-partition in which a record was appended, and by whom.
        self._appended: dict[SinkKey, tuple[object, str]] = {}

    def appended(self, member_id: str, batch: AcquiredBatch, rows: Iterable[SinkKey]) -> None:
        """Check a batch of a member that has appended these records to the table."""
        counts = counts_of(batch.ranges)
        told = f"batch {batch.batch_id} of {member_id} ({batch.incarnation})"
        for share_partition, offset in rows:
            key = Key(self._group_id, *share_partition)
            life = self._judge.life_with(key, offset, member_id, counts[share_partition, offset])
            if life is None:
                continue
            before, who = self._appended.get((share_partition, offset), (None, ""))
            if before is life:
                self._judge.violate(RULE, f"{offset}: appended by {who}, and again by {told}", key)
            self._appended[share_partition, offset] = life, told

    def accepts(self, member_id: str, read: Iterable[SinkKey]) -> None:
        """Check that the records that a member has read, and is about to accept, are in the table."""
        for share_partition, offset in read:
            if (share_partition, offset) not in self._sink.rows:
                key = Key(self._group_id, *share_partition)
                self._judge.violate(RULE, f"{offset}: {member_id} accepts it, and nobody has appended it", key)


def counts_of(ranges: Iterable[HeldRange]) -> Mapping[tuple[AssignedPartition, int], int]:
    """Return the delivery count of each offset."""
    return {
        (held.share_partition, offset): held.delivery_count
        for held in ranges
        for offset in range(held.first_offset, held.last_offset + 1)
    }
