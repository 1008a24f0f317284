"""Plans the next batch: which queued ranges it contains, and the Kafka reads that cover them. No I/O.

A Kafka read covers one contiguous range (an *envelope*) of each partition. Even a small read costs about 0.1 s: 4 reads
took 0.6 s, and 64 reads took 6.3 s. Reading many unneeded records is slow too. Ranges of a partition are therefore
joined to one envelope while the gaps have at most twice as many offsets as the ranges. A batch has at most four
envelopes for each partition, so it needs at most four reads. All other ranges wait for the next batch. A range also
waits if its isolation level differs from that of the oldest range, because all reads of a batch use one level. If two
topics have the same name, a batch contains ranges of only one of them, because Spark reads topics by name.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sharegroup.member.ranges import AssignedPartition, HeldRange
from sharegroup.protocol.last_attempts import attempts_together
from sharegroup.types import OffsetRange

MAX_READS = 4
MAX_GAP_FACTOR = 2
#: The maximum number of ranges in a batch. More would make the filter of the records slow and the offset log large.
MAX_RANGES = 1_000


class Plan(NamedTuple):
    """The ranges of the next batch and the ranges that remain queued, both in the queue's order."""

    batch: tuple[HeldRange, ...]
    rest: tuple[HeldRange, ...]


def plan_batch(queued: Sequence[HeldRange], max_records: int, delivery_count_limit: int = 0) -> Plan:
    """Plan a batch of the oldest ranges that MAX_READS reads can cover, up to `max_records` records.

    `queued` starts with the oldest range. The last range is split if necessary. A record at its last delivery attempt
    is a batch of its own, so that it cannot make other records fail. This rule does not apply if
    `delivery_count_limit` is at most 2, or unknown (0).
    """
    together = attempts_together(queued, delivery_count_limit)
    if together == 0:
        return _first_record(queued)
    candidates: list[HeldRange] = []
    rest: list[HeldRange] = []
    room = max_records
    topic_ids: dict[str, str] = {}
    for held in queued[:together]:
        is_alike = held.read_committed == queued[0].read_committed
        is_alike = is_alike and topic_ids.setdefault(held.topic, held.topic_id) == held.topic_id
        if not is_alike or room <= 0 or len(candidates) >= MAX_RANGES:
            rest.append(held)
        elif held.size > room:
            taken, left = held.split(room)
            candidates.append(taken)
            rest.append(left)
            room = 0
        else:
            candidates.append(held)
            room -= held.size
    far = _too_far(candidates)
    batch = tuple(held for held in candidates if held not in far)
    return Plan(batch, (*(held for held in candidates if held in far), *rest, *queued[together:]))


def plan_reads(ranges: Iterable[HeldRange]) -> list[dict[AssignedPartition, OffsetRange]]:
    """Return the Kafka reads that cover the ranges. Each read is {share-partition: contiguous range of offsets}.

    A contiguous range also covers the gaps between held ranges.
    """
    reads: list[dict[AssignedPartition, OffsetRange]] = []
    for share_partition, held in _by_share_partition(ranges).items():
        for index, cluster in enumerate(_clusters(held)):
            if index == len(reads):
                reads.append({})
            reads[index][share_partition] = OffsetRange(cluster[0].first_offset, cluster[-1].last_offset)
    return reads


def _first_record(queued: Sequence[HeldRange]) -> Plan:
    if not queued or queued[0].size == 1:
        return Plan(tuple(queued[:1]), tuple(queued[1:]))
    alone, left = queued[0].split(1)
    return Plan((alone,), (left, *queued[1:]))


def _too_far(candidates: Sequence[HeldRange]) -> set[HeldRange]:
    """Return the ranges to leave out of the batch, so that MAX_READS reads can cover the others.

    Of each partition, the MAX_READS groups (see `_clusters`) with the oldest ranges stay in the batch.
    """
    age = {held: index for index, held in enumerate(candidates)}
    far: set[HeldRange] = set()
    for held in _by_share_partition(candidates).values():
        clusters = sorted(_clusters(held), key=lambda cluster: min(age[member] for member in cluster))
        far.update(member for cluster in clusters[MAX_READS:] for member in cluster)
    return far


def _by_share_partition(ranges: Iterable[HeldRange]) -> Mapping[AssignedPartition, list[HeldRange]]:
    grouped: dict[AssignedPartition, list[HeldRange]] = {}
    for held in sorted(ranges):
        grouped.setdefault(held.share_partition, []).append(held)
    return grouped


def _clusters(ascending: Sequence[HeldRange]) -> list[list[HeldRange]]:
    """Return the ranges of one partition, in groups. One read covers a group and its gaps (an envelope).

    A range joins the group before it if all gaps of that group then have at most MAX_GAP_FACTOR times as many offsets
    as all its ranges. An example with the factor 2:

        ranges     ###   ##            #        #
        envelopes  ========            =        =

        gap of 3:   3 <= 2 x (3 + 2), so the range joins
        gap of 12:  3 + 12 > 2 x (3 + 2 + 1), so a new group begins
        gap of 8:   8 > 2 x (1 + 1), so a new group begins
    """
    clusters: list[list[HeldRange]] = []
    wanted = gaps = 0
    for held in ascending:
        gap = held.first_offset - clusters[-1][-1].last_offset - 1 if clusters else 0
        if clusters and gaps + gap <= MAX_GAP_FACTOR * (wanted + held.size):
            clusters[-1].append(held)
            wanted, gaps = wanted + held.size, gaps + gap
        else:
            clusters.append([held])
            wanted, gaps = held.size, 0
    return clusters
