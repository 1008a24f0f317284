"""Demands: fetches that wait at a share-partition for a record (KIP-932, ShareFetch MaxWaitMs)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

#: The requester of a fetch has given up this long after the fetch's deadline (Kafka's request.timeout.ms).
REQUEST_TIMEOUT_MS = 30_000


class Demand(NamedTuple):
    """A waiting fetch, which gets an empty response at `deadline_ms`.

    `incarnation_id` is the process that sent it, None if not given. `is_first`: it is served before all others.
    `reserves`: its gateway reserves offsets, so it need not wait for records that are reserved for others.
    """

    id: str
    reply_to: str
    member_id: str
    max_records: int
    deadline_ms: int
    requested_ms: int = 0
    is_static: bool = False
    incarnation_id: str | None = None
    is_first: bool = False
    reserves: bool = False
    member_epoch: int = -1

    def is_abandoned(self, now_ms: int) -> bool:
        """Return whether the requester has given up; acquired records would only wait for their locks to end."""
        return self.deadline_ms + REQUEST_TIMEOUT_MS < now_ms


class Demands:
    """The demands of some share-partitions, by partition and in the order of their arrival."""

    def __init__(self, dumped: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        self._demands = {int(p): [Demand(*demand) for demand in demands] for p, demands in dumped.items()}

    def dump(self) -> dict[str, list[Demand]]:
        """Return the demands for JSON; the constructor reads them."""
        return {str(partition): demands for partition, demands in self._demands.items() if demands}

    def __iter__(self) -> Iterator[Demand]:
        return (demand for demands in self._demands.values() for demand in demands)

    def partitions(self) -> list[int]:
        """Return the partitions that have demands, ascending."""
        return sorted(partition for partition, demands in self._demands.items() if demands)

    def get(self, partition: int) -> tuple[Demand, ...]:
        """Return the demands of a share-partition."""
        return tuple(self._demands.get(partition, ()))

    def replace(self, partition: int, demands: Sequence[Demand]) -> None:
        """Replace the demands of a share-partition."""
        self._demands[partition] = list(demands)

    def add(self, partition: int, demand: Demand) -> tuple[Demand, ...]:
        """Add a demand and return the member's previous one, which it replaces.

        Adding the same demand again (a row that was produced twice) changes nothing.
        """
        if any(old[:3] == demand[:3] for old in self.get(partition)):
            return ()
        replaced = self.remove_member(partition, demand.member_id)
        standing = self.get(partition)
        self.replace(partition, [demand, *standing] if demand.is_first else [*standing, demand])
        return replaced

    def remove_member(self, partition: int, member_id: str) -> tuple[Demand, ...]:
        """Remove and return the demands of a member."""
        standing = self.get(partition)
        self.replace(partition, [demand for demand in standing if demand.member_id != member_id])
        return tuple(demand for demand in standing if demand.member_id == member_id)

    def remove_fenced(self, partition: int, member_id: str, incarnation_id: str) -> tuple[Demand, ...]:
        """Remove and return the demands of other processes of a member."""
        fenced = tuple(
            demand
            for demand in self.get(partition)
            if demand.member_id == member_id and demand.incarnation_id not in (None, incarnation_id)
        )
        self.replace(partition, [demand for demand in self.get(partition) if demand not in fenced])
        return fenced

    def remove_partition(self, partition: int) -> tuple[Demand, ...]:
        """Remove and return all demands of a share-partition."""
        return tuple(self._demands.pop(partition, ()))
