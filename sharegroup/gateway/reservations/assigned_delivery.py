"""Delivers records that this gateway has assigned to a member, after the row of the assignment is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from sharegroup.gateway.sessions.member_leases import Lease, MemberLeases
from sharegroup.gateway.sessions.member_partition import MemberPartition
from sharegroup.monitoring.metrics.delivery_counts import DeliveryCounts
from sharegroup.types import AcquiredRange


class Assigned(NamedTuple):
    """An assignment whose row is durable.

    Attributes:
        append_ms: when the row was appended.
        lock_duration_ms: how long the locks last, from the append on.
        read_committed: whether only committed records may be read.
        chosen_s: when the member was chosen, in seconds of the event loop's clock.
    """

    append_ms: int
    lock_duration_ms: int
    read_committed: bool
    chosen_s: float


class AssignedDelivery:
    """Adds assigned records to the buffers of members, and counts them."""

    def __init__(self, leases: MemberLeases, counts: DeliveryCounts) -> None:
        self._leases, self._counts = leases, counts

    def lease(self, member: MemberPartition) -> Lease:
        """Return the lease of a member; an invalid lease if none is stored."""
        return self._leases.get(member.key.group_id, member.client_member_id)

    def deliver(
        self, member: MemberPartition, lease: Lease, acquired: Sequence[AcquiredRange], assigned: Assigned
    ) -> None:
        """Buffer records for the member. If its lease had ended before the append, return them to the job.

        `lease` is the member's lease when it was chosen. If the member has left and joined again since, the job has
        released these records, although the member's new lease is valid.
        """
        if lease.is_valid_at(assigned.append_ms):
            deadline_ms = assigned.append_ms + assigned.lock_duration_ms
            member.add_assigned(acquired, deadline_ms, assigned.read_committed)
            records = sum(last - first + 1 for first, last, _ in acquired)
            self._counts.count_assigned(records, asyncio.get_running_loop().time() - assigned.chosen_s)
        else:  # it has left meanwhile
            member.unacquire(acquired)
