"""A share-partition of which a gateway reserves records. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from sharegroup.gateway.records.batch_cache import CacheKey
from sharegroup.gateway.reservations.arrival_rate import ArrivalRate
from sharegroup.gateway.reservations.partition_reservation import PartitionReservation
from sharegroup.gateway.sessions.member_partition import MemberPartition
from sharegroup.protocol.topic_ids import parse_topic_id
from sharegroup.types import SharePartitionKey


class ReservedPartition:
    """The reservation of a share-partition, and the members that wait there."""

    def __init__(self, key: SharePartitionKey, epochs: Iterator[int], now_ms: int) -> None:
        self.key = key
        self.topic_id: UUID = parse_topic_id(key.topic_id)
        self.reservation = PartitionReservation(epochs)
        #: Members that have waited since the last one was served, those served least recently first.
        self.members: dict[MemberPartition, None] = {}
        self.rate = ArrivalRate()
        #: When a member that is certainly in the group waited last.
        self.waited_ms = now_ms
        #: The log whose tail is read for this reservation, and the offset up to which it has been read.
        self.log: CacheKey | None = None
        self.end_offset = 0
        #: The group certainly had a member of this gateway until then, all the time since the reservation began.
        self.has_member_until_ms = -1

    def waiting(self) -> list[MemberPartition]:
        """Return the members that wait; those served least recently first."""
        self.members = {member: None for member in self.members if member.can_be_assigned}
        return list(self.members)
