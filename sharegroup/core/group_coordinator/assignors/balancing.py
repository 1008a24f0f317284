"""Balanced assignment of partitions to members with as few moves as possible. Each member may read each partition.

With M members and P partitions, each partition should have s = ceil(M / P) members, so that no member is idle. This
number is the *sharing*. The total is s * P assignments. A member's *quota* is s * P / M, rounded up for some members
and down for others.

    1. partitions that are no longer assignable are removed from their members
    2. a member above its quota loses partitions, first those with the most other members
    3. a partition with more members than the sharing loses some of them
    4. partitions are assigned in turn to the members below their quotas, until each partition has `sharing` members or
       no other member can take it; in the second case a partition has fewer members, as in Kafka

Kafka gives the larger quotas to members in the order of its hash maps. Here the members with the most partitions get
the larger quotas. While the sharing stays the same, a joining member takes no more than its quota from the others, and
a leaving member causes no moves among the remaining members. All orders are by ids and numbers, so the result is
deterministic.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

#: Topic id and partition.
TopicPartition = tuple[str, int]


def balance(
    current: Mapping[str, Iterable[TopicPartition]], partitions: Sequence[TopicPartition], loads: Mapping[str, int]
) -> dict[str, list[TopicPartition]]:
    """Assign `partitions` to the members, and return all partitions that each member has afterwards.

    `current` has the partitions that each member has now, by member id. A member's quota is the number of partitions
    that it should have. Members with more partitions get the larger quotas. Of two members with equally many
    partitions, the one with the smaller number in `loads` gets the larger quota. `loads` has, for example, each
    member's number of partitions of other topics.
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
    """The steps of `balance`. `held` has each member's partitions, in the order in which they were assigned."""

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
        """Remove partitions from members above their quotas (step 2)."""
        for member_id, quota in self._with_quotas():
            excess = len(self.held[member_id]) - quota
            if excess > 0:
                by_sharing = sorted(self.held[member_id], key=lambda p: (len(self._holders[p]), p))
                for partition in by_sharing[-excess:]:
                    self._revoke(partition, member_id)

    def revoke_overshared(self) -> None:
        """Remove members from partitions that have more members than each partition should have (step 3)."""
        for partition, holders in self._holders.items():
            if len(holders) > self._sharing:
                for member_id in sorted(holders)[self._sharing :]:
                    self._revoke(partition, member_id)

    def walk(self) -> bool:
        """Assign partitions to members below their quotas (step 4), and return whether to call this method again.

        Another call may assign more partitions, because this call can change which members have the larger quotas.
        """
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
        """Return (member, quota) pairs. Members with more partitions come first and get the larger quotas."""
        by_held = sorted(self.held, key=lambda m: (-len(self.held[m]), self._loads[m], m))
        return zip(by_held, self._quotas, strict=True)

    def _give(self, partition: TopicPartition, member_id: str) -> None:
        self._holders[partition].add(member_id)
        self.held[member_id][partition] = None

    def _revoke(self, partition: TopicPartition, member_id: str) -> None:
        self._holders[partition].remove(member_id)
        del self.held[member_id][partition]


def sharing(members: int, partitions: int) -> int:
    """Return how many members each partition should have, so that no member is idle. 0 if there are no partitions."""
    return -(-members // partitions) if partitions else 0


def quotas(members: int, partitions: int) -> list[int]:
    """Return `members` quotas, in no particular order: how many partitions each member should have.

    They differ by at most 1. Their sum is `sharing(members, partitions)` * `partitions`.
    """
    places = sharing(members, partitions) * partitions
    ends = [-(-places * number // members) for number in range(members + 1)]
    return [end - start for start, end in pairwise(ends)]
