"""The ranges that a member holds, and their encodings: in the offer file, and in the source's offsets and rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sharegroup.types import AcquiredRange


class AssignedPartition(NamedTuple):
    """A topic-partition that is assigned to a member. `topic_id` distinguishes topics of the same name."""

    topic: str
    topic_id: str
    partition: int


class HeldRange(NamedTuple):
    """The records from `first_offset` to `last_offset`, which one fetch acquired.

    They are locked until `lock_deadline_ms` (ms since 1970, a time of the brokers' clocks). `read_committed` is whether
    the group's isolation level was read_committed when they were acquired. The records must be read with that level.
    """

    topic: str
    topic_id: str
    partition: int
    first_offset: int
    last_offset: int
    delivery_count: int
    lock_deadline_ms: int
    read_committed: bool = False

    @property
    def share_partition(self) -> AssignedPartition:
        return AssignedPartition(self.topic, self.topic_id, self.partition)

    @property
    def acquired_range(self) -> AcquiredRange:
        """These records as an acquired range. An acknowledgement of the records contains this range."""
        return AcquiredRange(self.first_offset, self.last_offset, self.delivery_count)

    @property
    def size(self) -> int:
        return self.last_offset - self.first_offset + 1

    def split(self, size: int) -> tuple[HeldRange, HeldRange]:
        """Return (range with the first `size` offsets, range with the rest). 0 < `size` < `self.size` is required."""
        middle = self.first_offset + size
        return self._replace(last_offset=middle - 1), self._replace(first_offset=middle)

    def overlaps(self, other: HeldRange) -> bool:
        """Return whether the ranges have an offset in common."""
        return (
            self.share_partition == other.share_partition
            and self.first_offset <= other.last_offset
            and other.first_offset <= self.last_offset
        )

    def intersect(self, ascending: Sequence[AcquiredRange], lock_deadline_ms: int) -> Iterator[HeldRange]:
        """Yield the parts of this range that lie in one of the ranges `ascending`.

        These ranges must be sorted and must not overlap. Each part has the delivery count of its range in `ascending`,
        and the lock deadline `lock_deadline_ms`.
        """
        index = bisect_left(ascending, self.first_offset, key=lambda acquired: acquired.last_offset)
        while index < len(ascending) and ascending[index].first_offset <= self.last_offset:
            first, last, count = ascending[index]
            first, last = max(first, self.first_offset), min(last, self.last_offset)
            yield self._replace(
                first_offset=first, last_offset=last, delivery_count=count, lock_deadline_ms=lock_deadline_ms
            )
            index += 1


class OfferedBatch(NamedTuple):
    """A batch that a member has offered to its source.

    `seq` is its number in the process that offered it. `incarnation` identifies that process, which may be an earlier
    process of the member.
    """

    seq: int
    incarnation: str
    ranges: tuple[HeldRange, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON for the offer file and the source's offset."""
        return {"seq": self.seq, "incarnation": self.incarnation, "ranges": [list(r) for r in self.ranges]}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> OfferedBatch:
        """Return the batch that `to_json` has encoded."""
        return cls(row["seq"], row["incarnation"], tuple(HeldRange(*r) for r in row["ranges"]))

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the source's rows with the schema `ROW_SCHEMA`, one for each range."""
        return [(self.seq, self.incarnation, *r) for r in self.ranges]

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[Any, ...]]) -> OfferedBatch:
        """Return the batch that the source's rows describe. If there are no rows, return `NOTHING`."""
        listed = sorted(tuple(row) for row in rows)
        seq, incarnation = listed[-1][:2] if listed else (0, "")
        return cls(seq, incarnation, tuple(HeldRange(*row[2:]) for row in listed))


def count_records(ranges: Iterable[HeldRange]) -> int:
    return sum(held.size for held in ranges)


#: The schema of the source's rows.
ROW_SCHEMA = (
    "seq LONG, incarnation STRING, topic STRING, topic_id STRING, partition INT, first_offset LONG, last_offset LONG, "
    "delivery_count INT, lock_deadline_ms LONG, read_committed BOOLEAN"
)
#: The batch before the first one, without ranges.
NOTHING = OfferedBatch(0, "", ())
