"""Delivers released records to members that wait at this gateway, without waiting for the job.

A release is certain to succeed if the locks and the lease of the member that releases the records are valid when the
row of the release is appended. The gateway can therefore choose the next member itself. One `reassign` row contains
both the release and the new delivery, so that the job cannot deliver the records to another member in between. The
records are sent to the next member when the row is durable and was appended in time. If the row was appended too late,
it has no effect, and the records are released as usual.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from sharegroup.config import GroupConfig, IsolationLevel
from sharegroup.gateway.groups.group_configs import GroupConfigs
from sharegroup.gateway.job_client.job_channel import JobChannel, JobUnavailableError
from sharegroup.gateway.reservations.assigned_delivery import Assigned, AssignedDelivery
from sharegroup.gateway.reservations.assignment_choice import Assignment, Candidate, choose_members
from sharegroup.gateway.sessions.member_leases import Lease
from sharegroup.gateway.sessions.member_partition import MemberPartition
from sharegroup.kafka_clients.connections.quiet_task import quiet_task
from sharegroup.protocol.range_map import RangeMap
from sharegroup.protocol.rows.reservation_requests import ReassignRequest
from sharegroup.protocol.rows.share_partition_requests import MAX_RANGES_PER_ROW
from sharegroup.types import AcquiredRange, OffsetRange, SharePartitionKey

#: After a notice of the job that members of other gateways wait for records, this gateway passes no records on for this
#: time. While members wait, the job sends such a notice every half second.
WANTED_ELSEWHERE_MS = 1_000


class Reassignment(NamedTuple):
    """A `reassign` row, and the task that delivers its records. The task's result is the append time of the row."""

    row: ReassignRequest
    delivery: asyncio.Task[int]


class Reassignments:
    """Passes released records on to waiting members. Must be created on the event loop.

    `waiting` returns the members that wait for records of a share-partition and are certainly in the group. The members
    that were served least recently come first. `on_served` is called with a member that records were passed on to.
    """

    def __init__(
        self,
        job: JobChannel,
        group_configs: GroupConfigs,
        delivery: AssignedDelivery,
        waiting: Callable[[SharePartitionKey], list[MemberPartition]],
        on_served: Callable[[MemberPartition], None],
    ) -> None:
        self._job, self._group_configs, self._delivery = job, group_configs, delivery
        self._waiting, self._on_served = waiting, on_served
        self._wanted_until_ms: dict[SharePartitionKey, int] = {}
        self._deliveries: set[asyncio.Task[int]] = set()
        self._is_closed = False

    def close(self) -> None:
        """Stop passing records on, because the gateway is shutting down. All later releases go to the job."""
        self._is_closed = True

    def on_wanted(self, key: SharePartitionKey) -> None:
        """Stop passing this share-partition's records on to this gateway's members for `WANTED_ELSEWHERE_MS` ms.

        The reason is that members of other gateways wait for records. During this time, the job decides which member
        receives released records.
        """
        now_ms = self._job.now_ms()
        if key not in self._wanted_until_ms:
            self._wanted_until_ms = {other: ms for other, ms in self._wanted_until_ms.items() if now_ms < ms}
        self._wanted_until_ms[key] = now_ms + WANTED_ELSEWHERE_MS

    def reassign(
        self, member: MemberPartition, released: Sequence[AcquiredRange], valid_until_ms: int
    ) -> list[Reassignment]:
        """Append rows that pass records of `member` on to waiting members, and deliver the records afterwards.

        A row that is appended after `valid_until_ms` has no effect, because the job may then reject the release. Some
        records are in none of the returned rows, for example those for which no member waits and those at the delivery
        count limit. The caller must release them.
        """
        now_ms, key = self._job.now_ms(), member.key
        if self._is_closed or now_ms < self._wanted_until_ms.get(key, 0):
            return []
        config = self._group_configs.group_config(key.group_id)
        ranges = [OffsetRange(first, last) for first, last, count in released if count < config.delivery_count_limit]
        candidates = [Candidate(each, max(1, each.read_ahead.credit.wanted)) for each in self._receivers(member)]
        found: list[Reassignment] = []
        for assignment in choose_members(ranges, candidates, at_least=1) if ranges else ():
            one = self._append(member, assignment, released, config, valid_until_ms)
            if one is None:
                break
            found.append(one)
        return found

    def _receivers(self, member: MemberPartition) -> list[MemberPartition]:
        """Return the waiting members. If `member`, which releases the records, waits for more, it comes last."""
        waiting = [each for each in self._waiting(member.key) if each is not member]
        is_waiting = member.can_be_assigned and self._delivery.lease(member).is_valid_at(self._job.now_ms())
        return [*waiting, member] if is_waiting else waiting

    def _append(
        self,
        member: MemberPartition,
        assignment: Assignment[MemberPartition],
        released: Sequence[AcquiredRange],
        config: GroupConfig,
        valid_until_ms: int,
    ) -> Reassignment | None:
        receiver = assignment.member
        lock_ms = config.lock_duration_ms(receiver.is_static)
        receiver_lease = self._delivery.lease(receiver)
        valid_until_ms = min(valid_until_ms, receiver_lease.deadline_ms - 1)
        acquired = _within(released, assignment.ranges)
        row = member.reassignment(acquired, receiver, lock_ms, valid_until_ms)
        try:
            appended = self._job.append(row)
        except JobUnavailableError:
            return None  # the caller's release fails in the same way, and the member receives the error
        self._on_served(receiver)
        is_committed = config.isolation_level is IsolationLevel.READ_COMMITTED
        leases = self._delivery.lease(member), receiver_lease
        task = quiet_task(self._deliver(receiver, row, appended, *leases, is_committed))
        self._deliveries.add(task)
        task.add_done_callback(self._deliveries.discard)
        return Reassignment(row, task)

    async def _deliver(
        self,
        receiver: MemberPartition,
        row: ReassignRequest,
        appended: asyncio.Future[int],
        lease: Lease,
        receiver_lease: Lease,
        read_committed: bool,
    ) -> int:
        """Add the records to the receiver's buffer if the job will certainly apply the row.

        Returns the append time of the row in ms; -1 if the broker did not return it. `lease` is the lease of the member
        that released the records. Raises JobUnavailableError if the outcome of the append is unknown.
        """
        chosen_s = asyncio.get_running_loop().time()
        append_ms = await appended
        if not (0 <= append_ms <= row.valid_until_ms and lease.is_valid_at(append_ms)):
            return append_ms
        acquired = [AcquiredRange(first, last, count + 1) for first, last, count in row.acquired]
        assigned = Assigned(append_ms, row.lock_duration_ms, read_committed, chosen_s)
        self._delivery.deliver(receiver, receiver_lease, acquired, assigned)
        return append_ms


def _within(acquired: Sequence[AcquiredRange], ranges: Sequence[OffsetRange]) -> list[AcquiredRange]:
    """Return the parts of `acquired` that are in `ranges`, as many as fit into a row."""
    counts = RangeMap(acquired)
    parts = (AcquiredRange(*part) for first, last in ranges for part in counts.items(first, last))
    return list(islice(parts, MAX_RANGES_PER_ROW))
