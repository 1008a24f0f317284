"""A share-partition in which a gateway reserves offsets. No clock, no I/O."""

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
    """A share-partition with reserved offsets: its reservation, and the members that wait for records."""

    def __init__(self, key: SharePartitionKey, epochs: Iterator[int], now_ms: int) -> None:
        self.key = key
        self.topic_id: UUID = parse_topic_id(key.topic_id)
        self.reservation = PartitionReservation(epochs)
        #: Members whose fetches wait, or have waited since the member was last served. The members that were served
        #: least recently come first.
        self.members: dict[MemberPartition, None] = {}
        self.rate = ArrivalRate()
        #: The last time at which a member waited. Only members that are certainly in the group count.
        self.waited_ms = now_ms
        #: Until this time, `ReservedDelivery` does nothing for this share-partition in its upkeep or when a member
        #: waits. It is set to 0 when records arrive, the job responds, or the reservation ends.
        self.quiet_until_ms = 0
        #: The log whose end is read for this reservation (None: no log is read), and the offset up to which this log
        #: has been read.
        self.log: CacheKey | None = None
        self.end_offset = 0
        #: The time until which the group certainly has a member at this gateway; -1 if unknown. From the beginning of
        #: the reservation to this time, the group is never without a member.
        self.has_member_until_ms = -1

    def waiting(self) -> list[MemberPartition]:
        """Return the members that wait now, and remove all others from `members`.

        The members that were served least recently come first.
        """
        self.members = {member: None for member in self.members if member.can_be_assigned}
        return list(self.members)
