"""Partitions among members that may all read all of them: evenly, and with as little moved as that allows.

M members, P partitions. Each partition is to have s = ceil(M / P) members, its *sharing*, so that nobody is idle. That
makes s * P places, which members fill by their *quotas*: s * P / M, rounded up for some and down for others.

    1. what is no target any more is dropped
    2. who has more than its quota gives some back, those partitions first that most others have, too
    3. a partition with more members than its sharing loses some
    4. the partitions go round the members below their quotas, until each has its sharing, or nobody is left who lacks
       it; the little that may be missing then is accepted, as in Kafka

Kafka gives the larger quotas to members as its hash maps have them. Here those get them who have most already: a member
that joins takes no more than its own quota from the others, and one that leaves takes nothing from them, as long as the
sharing stays the same. All orders are of ids and of numbers: the same members give the same assignment anywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

#: Topic id and partition.
TopicPartition = tuple[str, int]


def balanced(
    current: Mapping[str, Iterable[TopicPartition]], partitions: Sequence[TopicPartition], loads: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """The partitions of each member in `current`, which has what each holds now.

    `loads` tells who goes first among those that hold the same number: who has the least.
    """
    if not current:
        return {}
    balancing = _Balancing(current, partitions, loads)
    balancing.revoke_above_quota()
    balancing.revoke_overshared()
    while balancing.walk():
        pass  # what was given may have changed whose the larger quotas are
    return {member_id: list(held) for member_id, held in balancing.held.items()}


class _Balancing:
    """`held` is who has what, in the order of when it was given; it changes with each step."""

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
        """Step 2."""
        for member_id, quota in self._with_quotas():
            excess = len(self.held[member_id]) - quota
            if excess > 0:
                by_sharing = sorted(self.held[member_id], key=lambda p: (len(self._holders[p]), p))
                for partition in by_sharing[-excess:]:
                    self._revoke(partition, member_id)

    def revoke_overshared(self) -> None:
        """Step 3."""
        for partition, holders in self._holders.items():
            if len(holders) > self._sharing:
                for member_id in sorted(holders)[self._sharing :]:
                    self._revoke(partition, member_id)

    def walk(self) -> bool:
        """Step 4. Whether something was given while something else was left over."""
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
        """Members with their quotas of now, the larger ones first."""
        by_held = sorted(self.held, key=lambda m: (-len(self.held[m]), self._loads[m], m))
        return zip(by_held, self._quotas, strict=True)

    def _give(self, partition: TopicPartition, member_id: str) -> None:
        self._holders[partition].add(member_id)
        self.held[member_id][partition] = None

    def _revoke(self, partition: TopicPartition, member_id: str) -> None:
        self._holders[partition].remove(member_id)
        del self.held[member_id][partition]


def sharing(members: int, partitions: int) -> int:
    """How many members each of the partitions is to have."""
    return -(-members // partitions) if partitions else 0


def quotas(members: int, partitions: int) -> list[int]:
    """How many partitions each of the members is to have: they add up to the places, and differ by one at most."""
    places = sharing(members, partitions) * partitions
    ends = [-(-places * number // members) for number in range(members + 1)]
    return [end - start for start, end in pairwise(ends)]
