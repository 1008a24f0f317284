"""Balanced assignment of partitions to members that may all read all of them, with as few moves as possible.

With M members and P partitions, each partition should have s = ceil(M / P) members, its *sharing*, so that no member is
idle. That makes s * P places. Each member fills s * P / M of them, its *quota*, rounded up for some members and down
for others.

    1. partitions that are no longer assignable are dropped
    2. a member above its quota gives up partitions, first those that most other members have, too
    3. a partition with more members than its sharing loses some
    4. partitions are given in turn to the members below their quotas, until each has its sharing or no other member
       can take it; the few places that may stay empty are accepted, as in Kafka

Kafka gives the larger quotas in the order of its hash maps. Here the members that have most already get them. A member
that joins takes no more than its own quota from the others, and one that leaves takes nothing from them, as long as the
sharing stays the same. Every order is by ids and numbers, so equal members give equal assignments everywhere.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

#: Topic id and partition.
TopicPartition = tuple[str, int]


def balance(
    current: Mapping[str, Iterable[TopicPartition]], partitions: Sequence[TopicPartition], loads: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Return the partitions of each member in `current`, which holds their present partitions.

    Of two members with equally many partitions, the one with the smaller load in `loads` comes first.
    """
    if not current:
        return {}
    balancing = _Balancing(current, partitions, loads)
    balancing.revoke_above_quota()
    balancing.revoke_overshared()
    while balancing.walk():
        pass  # a step may have changed which members have the larger quotas
    return {member_id: list(held) for member_id, held in balancing.held.items()}


class _Balancing:
    """The steps. `held` is each member's partitions, in the order in which they were given."""

    def __init__(
        self,
        current: Mapping[str, Iterable[TopicPartition]],
        partitions: Sequence[TopicPartition],
        loads: Mapping[str, int],
    ) -> None:
        self._loads = loads
        self._sharing = sharing(len(current), len(partitions))
        self._quotas = sorted(quotas(len(current), len(partitions)), reverse=True)
        self._holders: dict[TopicPartition, set[str]] = {partition: set() for partition in partitions}
        self.held: dict[str, dict[TopicPartition, None]] = {member_id: {} for member_id in current}
        for member_id, held in current.items():
            for partition in held:
                if partition in self._holders:
                    self._give(partition, member_id)

    def revoke_above_quota(self) -> None:
        """Take partitions from members above their quotas (step 2)."""
        for member_id, quota in self._with_quotas():
            excess = len(self.held[member_id]) - quota
            if excess > 0:
                by_sharing = sorted(self.held[member_id], key=lambda p: (len(self._holders[p]), p))
                for partition in by_sharing[-excess:]:
                    self._revoke(partition, member_id)

    def revoke_overshared(self) -> None:
        """Take partitions with too many members from some of them (step 3)."""
        for partition, holders in self._holders.items():
            if len(holders) > self._sharing:
                for member_id in sorted(holders)[self._sharing :]:
                    self._revoke(partition, member_id)

    def walk(self) -> bool:
        """Give partitions to members below their quotas (step 4); return whether another walk may give more."""
        unfilled = deque(
            (member_id, quota - len(self.held[member_id]))
            for member_id, quota in self._with_quotas()
            if quota > len(self.held[member_id])
        )
        was_given = False
        for partition, holders in self._holders.items():
            skipped = 0
            while len(holders) < self._sharing and skipped < len(unfilled):
                member_id, missing = unfilled.popleft()
                if member_id in holders:
                    unfilled.append((member_id, missing))
                    skipped += 1
                    continue
                self._give(partition, member_id)
                was_given, skipped = True, 0
                if missing > 1:
                    unfilled.append((member_id, missing - 1))
        return was_given and bool(unfilled)

    def _with_quotas(self) -> Iterator[tuple[str, int]]:
        """Return the members with their current quotas, the larger quotas first."""
        by_held = sorted(self.held, key=lambda m: (-len(self.held[m]), self._loads[m], m))
        return zip(by_held, self._quotas, strict=True)

    def _give(self, partition: TopicPartition, member_id: str) -> None:
        self._holders[partition].add(member_id)
        self.held[member_id][partition] = None

    def _revoke(self, partition: TopicPartition, member_id: str) -> None:
        self._holders[partition].remove(member_id)
        del self.held[member_id][partition]


def sharing(members: int, partitions: int) -> int:
    """Return how many members each partition should have."""
    return -(-members // partitions) if partitions else 0


def quotas(members: int, partitions: int) -> list[int]:
    """Return how many partitions each member should have; they add up to the places and differ by at most 1."""
    places = sharing(members, partitions) * partitions
    ends = [-(-places * number // members) for number in range(members + 1)]
    return [end - start for start, end in pairwise(ends)]
