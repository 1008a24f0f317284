"""Demands: fetch requests that wait at a share-partition until there are records (KIP-932, ShareFetch MaxWaitMs)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

#: How long a requester waits for a fetch's response after the fetch's deadline, in ms (Kafka's request.timeout.ms).
REQUEST_TIMEOUT_MS = 30_000


class Demand(NamedTuple):
    """A waiting fetch.

    Attributes:
        id: The id of the request.
        reply_to: The requester that reads the response.
        member_id: The member that fetches.
        max_records: Maximum number of records to acquire.
        deadline_ms: The time at which the fetch gets an empty response.
        requested_ms: The append time of the request, or the time at which its session was opened, if that is later.
        is_static: Whether the member is static, so that its locks last longer.
        incarnation_id: The process that sent the request, or None if the request did not contain it.
        is_first: Whether the fetch is served before all others, because it opened a session of a member that held
            records. It acquires these records again.
        reserves: Whether the request came from a gateway that reserves offsets. While a fetch of any other kind waits,
            no reservations are granted.
        member_epoch: The epoch of the member, or -1 if unknown.
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
        """Return whether the requester no longer waits, so that records acquired for it would stay locked unread."""
        return self.deadline_ms + REQUEST_TIMEOUT_MS < now_ms


class Demands:
    """The waiting fetches of a shard, by partition and in the order in which they are served.

    This is the order of their arrival, but a fetch with `is_first` precedes all others.
    """

    def __init__(self, dumped: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        self._demands = {int(p): [Demand(*demand) for demand in demands] for p, demands in dumped.items()}

    def dump(self) -> dict[str, list[Demand]]:
        """Return the waiting fetches as JSON-able values for the constructor."""
        return {str(partition): demands for partition, demands in self._demands.items() if demands}

    def __iter__(self) -> Iterator[Demand]:
        return (demand for demands in self._demands.values() for demand in demands)

    def partitions(self) -> list[int]:
        """Return the partitions at which fetches wait, ascending."""
        return sorted(partition for partition, demands in self._demands.items() if demands)

    def get(self, partition: int) -> tuple[Demand, ...]:
        """Return the fetches that wait at a share-partition."""
        return tuple(self._demands.get(partition, ()))

    def replace(self, partition: int, demands: Sequence[Demand]) -> None:
        """Replace the fetches that wait at a share-partition."""
        self._demands[partition] = list(demands)

    def add(self, partition: int, demand: Demand) -> tuple[Demand, ...]:
        """Add a waiting fetch. It replaces the waiting fetches of its member, which are returned.

        If the fetch already waits because its row was produced twice, nothing changes.
        """
        if any(old[:3] == demand[:3] for old in self.get(partition)):
            return ()
        replaced = self.remove_member(partition, demand.member_id)
        standing = self.get(partition)
        self.replace(partition, [demand, *standing] if demand.is_first else [*standing, demand])
        return replaced

    def remove_member(self, partition: int, member_id: str) -> tuple[Demand, ...]:
        """Remove and return the waiting fetches of a member."""
        standing = self.get(partition)
        self.replace(partition, [demand for demand in standing if demand.member_id != member_id])
        return tuple(demand for demand in standing if demand.member_id == member_id)

    def remove_requesters(
        self, partition: int, requesters: Collection[str], member_id: str | None = None
    ) -> tuple[Demand, ...]:
        """Remove and return the waiting fetches that these requesters have sent for `member_id` (None: any member)."""
        standing = self.get(partition)
        removed = tuple(
            demand for demand in standing if demand.reply_to in requesters and member_id in (None, demand.member_id)
        )
        self.replace(partition, [demand for demand in standing if demand not in removed])
        return removed

    def remove_fenced(self, partition: int, member_id: str, incarnation_id: str) -> tuple[Demand, ...]:
        """Remove and return the member's waiting fetches whose sender is not the process `incarnation_id`.

        Fetches without an incarnation id are not removed.
        """
        fenced = tuple(
            demand
            for demand in self.get(partition)
            if demand.member_id == member_id and demand.incarnation_id not in (None, incarnation_id)
        )
        self.replace(partition, [demand for demand in self.get(partition) if demand not in fenced])
        return fenced

    def remove_partition(self, partition: int) -> tuple[Demand, ...]:
        """Remove and return all fetches that wait at a share-partition."""
        return tuple(self._demands.pop(partition, ()))
