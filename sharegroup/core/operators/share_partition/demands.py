"""Demands: fetches that stand at a share-partition until a record is there for them (KIP-932, ShareFetch MaxWaitMs)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

#: A fetch this much older than it wanted to wait belongs to a requester that gave up (Kafka's request.timeout.ms).
REQUEST_TIMEOUT_MS = 30_000


class Demand(NamedTuple):
    """A standing fetch: `deadline_ms` is when it is answered with nothing. `incarnation_id` is the process that asked,
    None if it did not say; `is_first`: it is met before all others."""

    id: str
    reply_to: str
    member_id: str
    max_records: int
    deadline_ms: int
    asked_ms: int = 0
    is_static: bool = False
    incarnation_id: str | None = None
    is_first: bool = False

    def is_abandoned(self, now_ms: int) -> bool:
        """Whether nobody waits for the answer any more: what it acquired would only wait for its locks to run out."""
        return self.deadline_ms + REQUEST_TIMEOUT_MS < now_ms


class Demands:
    """The standing demands of some share-partitions, by partition, in the order in which they came."""

    def __init__(self, dumped: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        self._demands = {int(p): [Demand(*demand) for demand in demands] for p, demands in dumped.items()}

    def dump(self) -> dict[str, list[Demand]]:
        """JSON-able; the constructor reads it back."""
        return {str(partition): demands for partition, demands in self._demands.items() if demands}

    def __iter__(self) -> Iterator[Demand]:
        return (demand for demands in self._demands.values() for demand in demands)

    def partitions(self) -> list[int]:
        """Where demands stand, ascending."""
        return sorted(partition for partition, demands in self._demands.items() if demands)

    def at(self, partition: int) -> tuple[Demand, ...]:
        """Those of a share-partition."""
        return tuple(self._demands.get(partition, ()))

    def replace(self, partition: int, demands: Sequence[Demand]) -> None:
        """Put `demands` in place of those of a share-partition."""
        self._demands[partition] = list(demands)

    def add(self, partition: int, demand: Demand) -> tuple[Demand, ...]:
        """Let a demand stand; one stands for each member, so return those whose place it takes.

        The same demand once more (a row that was produced twice) changes nothing.
        """
        if any(old[:3] == demand[:3] for old in self.at(partition)):
            return ()
        replaced = self.drop_member(partition, demand.member_id)
        standing = self.at(partition)
        self.replace(partition, [demand, *standing] if demand.is_first else [*standing, demand])
        return replaced

    def drop_member(self, partition: int, member_id: str) -> tuple[Demand, ...]:
        """Forget what a member demands of a share-partition, and return it."""
        standing = self.at(partition)
        self.replace(partition, [demand for demand in standing if demand.member_id != member_id])
        return tuple(demand for demand in standing if demand.member_id == member_id)

    def drop_fenced(self, partition: int, member_id: str, incarnation_id: str) -> tuple[Demand, ...]:
        """Forget what other processes of a member demand, and return it."""
        fenced = tuple(
            demand
            for demand in self.at(partition)
            if demand.member_id == member_id and demand.incarnation_id not in (None, incarnation_id)
        )
        self.replace(partition, [demand for demand in self.at(partition) if demand not in fenced])
        return fenced

    def drop(self, partition: int) -> tuple[Demand, ...]:
        """Forget a share-partition, and return the demands that stood there."""
        return tuple(self._demands.pop(partition, ()))
