"""The state of a shard between two micro-batches: its share-partitions, and the requests that wait at them.

The state is one text. Its first line is JSON. It is followed by one line for each large piece of an in-flight window,
in the order of the pieces in the JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sharegroup.core.operators.share_partition.demands import Demand, Demands
from sharegroup.core.operators.share_partition.departed_members import DepartedMembers
from sharegroup.core.operators.share_partition.incarnations import Incarnations
from sharegroup.core.operators.share_partition.managed_partition import DumpedPartition, ManagedPartition
from sharegroup.core.operators.share_partition.partition_configs import PartitionConfigs, SnapshotRules
from sharegroup.core.operators.share_partition.requesters import PendingRequests, Requesters
from sharegroup.core.share_partition.reservation import requester_of
from sharegroup.core.share_partition.share_partition_config import SharePartitionConfig
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.json_text import from_json, to_json
from sharegroup.protocol.rows.reservation_requests import ReserveRequest
from sharegroup.protocol.rows.share_partition_responses import FetchResponse
from sharegroup.types import AcquiredRange, SharePartitionKey

FORMAT_VERSION = 1
#: How long a shard without share-partitions is kept after its topic was deleted, in ms, to reject late requests.
DELETED_MS = 600_000


class ShardState:
    """The state of a shard, that is, of several share-partitions of one topic in one group.

    The constructor restores the state from the text that `dump` returned, or creates an empty state if the text is
    None. It raises ValueError if the text has another format version. `topic` is the name of the topic. `deleted_ms` is
    the time at which the topic was deleted, or None if it exists. `now_ms` and `earliest_ms` are the times of the
    current batch (`share_partition_operator`).
    """

    def __init__(self, group_id: str, topic_id: str, state: str | None) -> None:
        first_line, *texts = state.split("\n") if state else ("{}",)
        dumped = from_json(first_line)
        if dumped and dumped["version"] != FORMAT_VERSION:
            # the supervisor recognises this message
            raise ValueError(
                f"the operator state has format {dumped['version']}, but this job reads format {FORMAT_VERSION}: "
                "remove the checkpoint of the query share_partition (below checkpoint.path), and the job recovers from "
                "the tables"
            )
        self.group_id, self.topic_id = group_id, topic_id
        self.topic: str = dumped.get("topic", "")
        self.deleted_ms: int | None = dumped.get("gone_ms")
        self.now_ms = self.earliest_ms = 0
        self.configs = PartitionConfigs(dumped.get("configs", {}), dumped.get("altered", {}))
        self.demands = Demands(dumped.get("demands", {}))
        self.pending = PendingRequests(dumped.get("parked", ()))
        self.departed = DepartedMembers(dumped.get("departed", {}))
        self.incarnations = Incarnations(dumped.get("incarnations", {}))
        self.requesters = Requesters(dumped.get("requesters", {}))
        #: The gateways that hold reservations, by partition, as of the last batch.
        self._reserving: dict[int, list[str]] = {int(p): found for p, found in dumped.get("reserving", {}).items()}
        self._reserve_requests: dict[int, list[ReserveRequest]] = {}
        self._given_back: set[tuple[int, str]] = set()
        #: The share-partitions that this batch has not used yet. They are restored when they are used.
        self._idle = _partitions(dumped.get("partitions", {}), iter(texts))
        self._touched: dict[int, ManagedPartition] = {}

    def dump(self) -> str | None:
        """Return the whole state, or None if it is empty."""
        partitions = {p: self._touched[p].dump() if p in self._touched else self._idle[p] for p in self.partitions()}
        if not (partitions or self.pending or self.departed or self.deleted_ms is not None):
            return None
        known = {
            "version": FORMAT_VERSION,
            "topic": self.topic,
            "gone_ms": self.deleted_ms,
            "configs": self.configs.dump(),
            "altered": self.configs.dump_altered(),
            "partitions": {str(p): dumped.values for p, dumped in partitions.items()},
            "demands": self.demands.dump(),
            "parked": self.pending.dump(),
            "departed": self.departed.dump(),
            "incarnations": self.incarnations.dump(),
            "requesters": self.requesters.dump(),
        }
        if self._reserving:
            known["reserving"] = {str(p): gateways for p, gateways in sorted(self._reserving.items())}
        texts = [text for partition in partitions.values() for text in partition.texts]
        return "\n".join([to_json(known), *texts])

    # -- share-partitions ------------------------------------------------------------------------------------------

    def partitions(self) -> list[int]:
        """Return the share-partitions of this shard, ascending."""
        return sorted({*self._idle, *self._touched})

    def touched(self) -> list[tuple[int, ManagedPartition]]:
        """Return the share-partitions that this batch has used, in ascending order of partitions."""
        return sorted(self._touched.items())

    def get(self, partition: int) -> ManagedPartition | None:
        """Return the share-partition, or None if this shard does not have it.

        If this batch has not used the share-partition yet, it is restored, and `touched` includes it from now on.
        """
        if partition not in self._touched and partition in self._idle:
            self._touched[partition] = ManagedPartition.restore(self._idle.pop(partition))
        return self._touched.get(partition)

    def add(self, partition: int, managed: ManagedPartition) -> None:
        """Add a share-partition."""
        self._touched[partition] = managed

    def remove(self, partition: int) -> list[FetchResponse]:
        """Remove a share-partition, and return the empty responses to its waiting fetches."""
        self._idle.pop(partition, None)
        self._touched.pop(partition, None)
        self.requesters.remove_partition(partition)
        self._reserving.pop(partition, None)
        self.configs.remove(partition)
        return self.cancel_demands(partition)

    def reapply_log(self, partition: int) -> None:
        """Apply the log's offsets again after a config change, because the log end depends on the isolation level."""
        managed = self.get(partition)
        if managed is not None and managed.log is not None:
            managed.move_log(managed.log, self.configs.get(partition))

    def key(self, partition: int) -> SharePartitionKey:
        """Return the key of a share-partition of this shard."""
        return SharePartitionKey(self.group_id, self.topic, self.topic_id, partition)

    def config(self, partition: int) -> SharePartitionConfig:
        """Return the config of a share-partition."""
        return self.configs.get(partition).machine

    def topic_deleted_error(self) -> RequestError:
        """Return the error for requests to a deleted topic."""
        message = f"topic {self.topic} with id {self.topic_id} was deleted"
        return RequestError(ErrorCode.UNKNOWN_TOPIC_ID, message)

    # -- demands ---------------------------------------------------------------------------------------------------

    def cancel_demands(self, partition: int) -> list[FetchResponse]:
        """Remove the waiting fetches of a share-partition, and return their empty responses."""
        return [self.demand_response(partition, demand) for demand in self.demands.remove_partition(partition)]

    def demand_response(
        self, partition: int, demand: Demand, acquired: tuple[AcquiredRange, ...] = (), lock_deadline_ms: int = -1
    ) -> FetchResponse:
        """Return the response to a waiting fetch, with the ranges `acquired`. Without ranges, the response is empty."""
        config = self.configs.get(partition)
        was_delivered = any(delivery_count > 1 for _, _, delivery_count in acquired)
        return FetchResponse(
            demand.id, demand.reply_to, *self.key(partition), demand.member_id,
            acquired=acquired, lock_deadline_ms=lock_deadline_ms, read_committed=config.read_committed,
            delivery_count_limit=config.machine.delivery_count_limit if was_delivered else 0,
        )  # fmt: skip

    # -- reservations ----------------------------------------------------------------------------------------------

    def add_reserve_request(self, request: ReserveRequest) -> None:
        """Keep a request to reserve offsets until the waiting fetches of this batch have been served."""
        self._reserve_requests.setdefault(request.partition, []).append(request)

    def pop_reserve_requests(self) -> list[tuple[int, list[ReserveRequest]]]:
        """Remove and return the requests to reserve offsets, by partition and in their order."""
        requests, self._reserve_requests = self._reserve_requests, {}
        return sorted(requests.items())

    def cancel_reserve_requests(self, partition: int, reserver: str) -> None:
        """Cancel this batch's reserve requests of `reserver`, a gateway in one reservation epoch.

        They reserve nothing, because the gateway has ended its reservations after these requests.
        """
        self._given_back.add((partition, reserver))

    def end_cancellations(self) -> None:
        """Clear the list of cancelled reserve requests, at the end of the batch."""
        self._given_back.clear()

    def is_cancelled(self, partition: int, reserver: str) -> bool:
        """Return whether this batch's reserve requests of `reserver` were cancelled."""
        return (partition, reserver) in self._given_back

    def gateways_with_reservations(self) -> list[str]:
        """Return the gateways that hold reservations in this shard, sorted.

        The call also stores the gateways of each share-partition for the next batch.
        """
        for partition, managed in self._touched.items():
            self._reserving.pop(partition, None)
            if gateways := sorted({requester_of(reserver) for reserver in managed.window.reservers()}):
                self._reserving[partition] = gateways
        return sorted({gateway for gateways in self._reserving.values() for gateway in gateways})

    def reserving(self) -> Iterator[tuple[int, ManagedPartition]]:
        """Yield the share-partitions that may have reservations. They are restored if this batch has not used them."""
        for partition in sorted({*self._reserving, *self._touched}):
            if (managed := self.get(partition)) is not None:
                yield partition, managed

    # -- time ------------------------------------------------------------------------------------------------------

    def next_deadline_ms(self, rules: SnapshotRules) -> int | None:
        """Return the time at which the shard needs its next tick, or None if it needs none."""
        deadlines = [managed.next_deadline_ms(rules) for managed in self._touched.values()]
        deadlines += [ManagedPartition.dumped_deadline_ms(dumped, rules) for dumped in self._idle.values()]
        deadlines += [demand.deadline_ms for demand in self.demands]
        deadlines += [] if self.deleted_ms is None else [self.deleted_ms + DELETED_MS]
        return min([*deadlines, *self.pending.deadlines_ms(), *self.departed.deadlines_ms()], default=None)


def _partitions(dumped: dict[str, Any], lines: Iterator[str]) -> dict[int, DumpedPartition]:
    """Return the dumped share-partitions, by partition.

    `dumped` is the field "partitions" of the state's first line, which is JSON. `lines` are the state's other lines.
    """
    return {int(partition): DumpedPartition.from_lines(values, lines) for partition, values in dumped.items()}
