"""Gateways that reserve offsets and do not keep to the protocol: some are dead from then on, some send rows late.

They have no members, so no assignment of theirs may have an effect. The other gateways must lose nothing by them but
the time of a lease.
"""

from __future__ import annotations

from sharegroup.gateway.reservations.gateway_lease import LEASE_MS
from sharegroup.protocol.rows.reservation_requests import AssignRequest, ReserveRequest, UnreserveRequest
from sharegroup.protocol.rows.share_partition_row import PartitionRequest
from sharegroup.types import OffsetRange
from tests.simulation.brokers.log_clients import RowSender
from tests.simulation.judges.judge import Key
from tests.simulation.world import PARTITION_REQUESTS, RESERVATIONS, World

#: The mean time between two of them.
_EVERY_MS = 20_000
_RECORDS = 32
#: A micro-batch has certainly run in this time, if the job runs.
_BATCH_MS = 2_000


class CarelessGateways:
    """The gateways, each at one share-partition, in the runs with reservations."""

    def __init__(self, world: World) -> None:
        self._world, self._clock = world, world.clock
        self._random = world.random("careless gateways")
        self._sender = RowSender(world.clock, world.kafka, world.weather)
        self._gateways = self._rows = 0

    def start(self) -> None:
        """Begin."""
        if RESERVATIONS in self._world.faults:
            self._clock.after(self._random.expovariate(1 / _EVERY_MS), self._again)

    def _again(self) -> None:
        known = [key for key in self._world.judge.known() if self._world.kafka.topic_by_id(key.topic_id)]
        if known:
            self._start_one(self._random.choice(known))
        if self._clock.now_ms < self._world.calm_ms:
            self._clock.after(self._random.expovariate(1 / _EVERY_MS), self._again)

    def _start_one(self, key: Key) -> None:
        """Reserve; the gateway then dies, or gives back and reserves again before an old assignment arrives."""
        name = self.reserve(key)
        if self._random.random() < 0.5:
            self._clock.after(_BATCH_MS, lambda: self._begin_second_epoch(key, name))
            self._clock.after(2 * _BATCH_MS, lambda: self._assign_in_first_epoch(key, name))

    def reserve(self, key: Key) -> str:
        """Reserve offsets as another gateway, and return its name."""
        self._gateways += 1
        name = f"careless-{self._gateways}"
        self._send(self._reserve_row(key, name, 1))
        return name

    def _reserve_row(self, key: Key, name: str, epoch: int) -> ReserveRequest:
        return ReserveRequest(
            self._new_id(), *key, "", -1, name, records=_RECORDS, lease_ms=LEASE_MS, reservation_epoch=epoch
        )

    def _begin_second_epoch(self, key: Key, name: str) -> None:
        self._send(
            UnreserveRequest(self._new_id(), *key, "", ranges=None, requester=name, reservation_epoch=1),
            self._reserve_row(key, name, 2),
        )

    def _assign_in_first_epoch(self, key: Key, name: str) -> None:
        topic = self._world.kafka.topic_by_id(key.topic_id)
        if topic is not None and key.partition < len(topic.partitions):
            next_offset = topic.partitions[key.partition].log_end_offset
            row = AssignRequest(
                self._new_id(), *key, f"nobody-of-{name}", 1,
                ranges=(OffsetRange(next_offset, next_offset),), requester=name, reservation_epoch=1,
                lock_duration_ms=LEASE_MS, valid_until_ms=self._clock.now_ms + LEASE_MS,
            )  # fmt: skip
            self._send(row)

    def _send(self, *rows: PartitionRequest) -> None:
        for row in rows:
            self._sender.send(PARTITION_REQUESTS, row.kafka_key, row.encode())

    def _new_id(self) -> str:
        self._rows += 1
        return f"careless-row-{self._rows}"
