"""Delivers new records at reserved offsets to waiting members, without waiting for the job.

::

    a fetch waits   ->  send a `reserve` row   at most one open for each share-partition, within the gateway's lease
    response        ->  read the end of the log
    records arrive  ->  choose a member, send an `assign` row
    row is durable  ->  add the records to the member's buffer, and answer its fetch

A record is added to a buffer only if its `assign` row was appended before the gateway's lease ended, and while the
member was certainly in its group. Otherwise the row has no effect. The job then acquires the record for some member as
usual.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
from collections.abc import Callable, Sequence

from sharegroup.config import IsolationLevel
from sharegroup.gateway.groups.group_configs import GroupConfigs
from sharegroup.gateway.job_client.job_channel import JobChannel, JobUnavailableError
from sharegroup.gateway.records.batch_cache import CacheKey
from sharegroup.gateway.records.log_reader import LogPosition
from sharegroup.gateway.records.tail_reader import Connections, TailReader
from sharegroup.gateway.reservations.assigned_delivery import Assigned, AssignedDelivery
from sharegroup.gateway.reservations.assignment_choice import Assignment, Candidate, choose_members
from sharegroup.gateway.reservations.gateway_lease import GatewayLease
from sharegroup.gateway.reservations.reassignments import Reassignments
from sharegroup.gateway.reservations.reserved_partition import ReservedPartition
from sharegroup.gateway.sessions.member_leases import Lease, MemberLeases
from sharegroup.gateway.sessions.member_partition import MemberPartition
from sharegroup.gateway.sessions.member_sessions import MemberSessions
from sharegroup.gateway.upstream.cluster import UpstreamCluster
from sharegroup.log_fields import LogFields
from sharegroup.protocol.rows.broadcasts import Broadcast, NewLeaderBroadcast, TopicDeletedBroadcast
from sharegroup.protocol.rows.reservation_requests import AssignRequest, ReserveRequest, UnreserveRequest
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_partition_responses import ReserveResponse
from sharegroup.types import AcquiredRange, SharePartitionKey

logger = logging.getLogger(__name__)

#: A reservation is returned if its records have arrived but no member was waiting during the last `IDLE_MS`. Members of
#: other gateways can then receive these records. If no records have arrived, it is returned only after `EMPTY_IDLE_MS`
#: without a waiting member, because each reservation costs two rows.
IDLE_MS, EMPTY_IDLE_MS = 500, 5_000
#: The leases of a group's members are looked up again when the longest of these leases has only this time left.
MEMBERS_MS = 5_000
#: How long a reservation is left alone if its records have not arrived and more than half of it is unused.
QUIET_MS = 500
#: A member may receive as many records as arrive in this time, even if this is more than its equal share.
SHARE_MS = 20


class ReservedDelivery:
    """Reserves offsets for this gateway and assigns them to its members. Must be created on the event loop."""

    def __init__(
        self,
        job: JobChannel,
        cluster: UpstreamCluster,
        sessions: MemberSessions,
        leases: MemberLeases,
        group_configs: GroupConfigs,
        connections: Connections,
    ) -> None:
        self._job, self._cluster, self._leases, self._group_configs = job, cluster, leases, group_configs
        self._tails = TailReader(cluster, connections, sessions.cache, self._on_read, self._on_lost)
        self._partitions: dict[SharePartitionKey, ReservedPartition] = {}
        self._by_log: dict[CacheKey, dict[ReservedPartition, None]] = {}
        #: {cell: lease of this gateway at the cell's job}. A cell is one of several jobs that run side by side.
        self._own_leases: dict[str, GatewayLease] = {}
        #: Rows that return reservations to the job. Their append has failed and will be repeated.
        self._unsent: list[UnreserveRequest] = []
        self._leases_of: dict[str, dict[str, Lease]] = {}
        self._deliveries: set[asyncio.Task[None]] = set()
        self._epochs = itertools.count(1)
        self._is_closed = False
        self._assigned = AssignedDelivery(leases, sessions.delivery_counts)
        self._reassignments = Reassignments(job, group_configs, self._assigned, self._waiting_for, self._on_served)
        sessions.on_wait, sessions.on_acquired = self.on_wait, self._on_acquired
        sessions.on_release = self._reassignments.reassign
        leases.on_end = self._on_lease_end
        job.on_broadcast(self._on_broadcast)
        job.on_wanted(self._on_wanted)

    @property
    def needs_upkeep(self) -> bool:
        """Whether `upkeep` has work: a member waits or recently waited, or a row must be appended again."""
        return bool(self._partitions or self._unsent)

    @property
    def reserved_records(self) -> int:
        """The number of offsets that are reserved but not assigned. This property can be read on any thread."""
        return sum(partition.reservation.unused_count for partition in list(self._partitions.values()))

    # -- events --------------------------------------------------------------------------------------------------------

    def on_wait(self, member: MemberPartition, now_ms: int) -> None:
        """Add a member whose fetch waits to the members that receive records.

        Records that have arrived are assigned immediately, and more offsets are reserved if needed.
        """
        if self._is_closed:
            return
        partition = self._partitions.get(member.key)
        if partition is None:
            partition = self._partitions[member.key] = ReservedPartition(member.key, self._epochs, now_ms)
        partition.members.setdefault(member)
        if now_ms < partition.quiet_until_ms:
            return
        if self._assigned.lease(member).is_valid_at(now_ms):
            partition.waited_ms = now_ms
        self._assign(partition)
        self._reserve(partition)

    def _on_acquired(self, key: SharePartitionKey, acquired: Sequence[AcquiredRange]) -> None:
        """Count records that a micro-batch acquired, because the number of offsets to reserve depends on their rate.

        If some of the records are delivered for the first time and the next record of the log is before this gateway's
        reservation, also return the reservation to the job. The offsets before the reservation may have been reserved
        for a gateway that has stopped, so only micro-batches acquire records there. The next reservation of this
        gateway begins at the end of the log.
        """
        partition = self._partitions.get(key)
        if partition is None:
            return
        partition.rate.record(sum(last - first + 1 for first, last, _ in acquired), self._job.now_ms())
        are_new = any(delivery_count == 1 for _, _, delivery_count in acquired)
        if are_new and partition.reservation.is_behind(partition.end_offset):
            self._give_back(partition)

    def upkeep(self) -> None:
        """Request more offsets where needed, return reservations that no member needs, and renew the leases."""
        now_ms = self._job.now_ms()
        unsent, self._unsent = self._unsent, []
        for row in unsent:
            self._append_unreserve(row)
        before = len(self._partitions)
        for partition in list(self._partitions.values()):
            if now_ms >= partition.quiet_until_ms:
                self._upkeep(partition, now_ms)
        self._renew_leases(now_ms)
        if len(self._partitions) < before:
            self._forget_leases()

    def _forget_leases(self) -> None:
        """Remove the leases of members of groups of which this gateway serves no share-partition any more."""
        served = {key.group_id for key in self._partitions}
        self._leases_of = {group: leases for group, leases in self._leases_of.items() if group in served}

    def _upkeep(self, partition: ReservedPartition, now_ms: int) -> None:
        is_waiting = bool(self._waiting(partition, now_ms))
        if is_waiting:
            partition.waited_ms = now_ms
        if _is_unwanted(partition, now_ms):
            self._give_back(partition)
            del self._partitions[partition.key]
        elif now_ms >= partition.has_member_until_ms - MEMBERS_MS and not self._has_had_members(partition, now_ms):
            self._give_back(partition)
        else:
            self._reserve(partition)
            reservation = partition.reservation
            if is_waiting and reservation.is_ample and not reservation.assignable_ranges(partition.end_offset):
                # As if the member waited until then, so that nothing is returned too early.
                partition.quiet_until_ms = partition.waited_ms = now_ms + QUIET_MS

    def _renew_leases(self, now_ms: int) -> None:
        """Renew the lease at each cell where it is due and where this gateway may hold a reservation."""
        due = {cell for cell, lease in self._own_leases.items() if lease.is_due(now_ms)}
        for partition in self._partitions.values() if due else ():
            if partition.reservation.may_hold and (cell := self._job.cell_of(partition.key.group_id)) in due:
                self._own_leases[cell].renew(partition.key.group_id, now_ms)
                due.discard(cell)
                if not due:
                    return

    def close(self) -> None:
        """Return all reservations, because the gateway is shutting down."""
        self._is_closed = True
        self._reassignments.close()
        for partition in self._partitions.values():
            self._give_back(partition)
        self._partitions.clear()
        self._tails.close()

    def _on_read(self, log: CacheKey, end_offset: int) -> None:
        for partition in list(self._by_log.get(log, ())):
            partition.end_offset, partition.quiet_until_ms = end_offset, 0
            self._assign(partition)
            if _is_unwanted(partition, self._job.now_ms()):
                self._give_back(partition)
            else:
                self._reserve(partition)

    def _on_lost(self, log: CacheKey) -> None:
        for partition in list(self._by_log.get(log, ())):
            self._give_back(partition)

    def _on_wanted(self, key: SharePartitionKey) -> None:
        """Return the reservation to the job, because members that this gateway does not serve wait for records.

        For a while, this gateway also passes no released records of the share-partition on to its own members. The job
        then decides who receives them (see `Reassignments.on_wanted`).
        """
        self._reassignments.on_wanted(key)
        partition = self._partitions.get(key)
        if partition is not None:
            self._give_back(partition)

    def _on_lease_end(self, group_id: str) -> None:
        now_ms = self._job.now_ms()
        for partition in self._partitions.values():
            if partition.key.group_id == group_id and not self._has_had_members(partition, now_ms):
                self._give_back(partition)

    def _on_broadcast(self, row: Broadcast) -> None:
        match row:
            case NewLeaderBroadcast():
                for partition in self._partitions.values():
                    partition.reservation.expect_no_response()
            case TopicDeletedBroadcast():
                for partition in self._partitions.values():
                    if partition.key.topic_id == row.topic_id:
                        self._give_back(partition)

    # -- reservations --------------------------------------------------------------------------------------------------

    def _own_lease(self, group_id: str) -> GatewayLease:
        """Return the lease of this gateway at the job that serves a group."""
        cell = self._job.cell_of(group_id)
        if cell not in self._own_leases:
            on_begin = functools.partial(self._in_cell, cell, self._reserve)
            on_lapse = functools.partial(self._in_cell, cell, self._give_back)
            self._own_leases[cell] = GatewayLease(self._job, on_begin, on_lapse)
        return self._own_leases[cell]

    def _in_cell(self, cell: str, change: Callable[[ReservedPartition], None]) -> None:
        for partition in list(self._partitions.values()):
            if self._job.cell_of(partition.key.group_id) == cell:
                change(partition)

    def _reserve(self, partition: ReservedPartition) -> None:
        now_ms, reservation = self._job.now_ms(), partition.reservation
        if not reservation.may_request(now_ms):
            return
        waiting, records_per_s = len(self._waiting(partition, now_ms)), partition.rate.per_second(now_ms)
        records = reservation.records_to_reserve(waiting, records_per_s, now_ms)
        if records is None or not self._has_had_members(partition, now_ms):
            return
        lease = self._own_lease(partition.key.group_id)
        lease.renew(partition.key.group_id, now_ms)
        if not lease.is_usable(now_ms):
            return
        row = ReserveRequest(
            self._job.new_id(), *partition.key, "", -1, self._job.reply_to,
            records=records, lease_ms=lease.end_ms - now_ms, reservation_epoch=reservation.epoch,
        )  # fmt: skip
        reservation.record_request(row.id, now_ms)
        self._job.subscribe(row.id, lambda response: self._on_response(partition, response))
        self._job.append_soon(row, lambda: self._on_failure(partition, row.id))

    def _on_failure(self, partition: ReservedPartition, request_id: str) -> None:
        self._job.unsubscribe(request_id)
        partition.reservation.record_failure(request_id, self._job.now_ms())

    def _on_response(self, partition: ReservedPartition, response: Response) -> None:
        partition.quiet_until_ms = 0
        if response.error_code:
            logger.info(
                "%(share_partition)s: failed to reserve offsets: %(error)s",
                LogFields(share_partition=partition.key, error=response.error_message),
            )
        if not isinstance(response, ReserveResponse):
            partition.reservation.record_failure(response.id, self._job.now_ms())
        elif partition.reservation.apply_response(response, self._job.now_ms()):
            if partition.reservation.unused_count:
                self._follow(partition)
                self._assign(partition)
        elif response.acquired and response.reservation_epoch != partition.reservation.epoch:
            # The job read the row that returned this reservation before the row that requested it, because partitions
            # were added to the request topic.
            self._append_unreserve(self._unreserve_row(partition, response.reservation_epoch))

    def _follow(self, partition: ReservedPartition) -> None:
        """Start to read new records of the partition continuously, unless they are already read.

        The first read begins at the log end offset in the job's response to the `reserve` row. If this offset or the
        topic is unknown, return the reservation to the job.
        """
        topic, reservation = self._cluster.topic_by_id(partition.topic_id), partition.reservation
        if topic is None or reservation.log_end_offset < 0:
            self._give_back(partition)
            return
        position = LogPosition(topic, partition.key.partition, reservation.read_committed)
        if partition.log != position.key:
            self._stop_following(partition)
            partition.log = position.key
            self._by_log.setdefault(position.key, {})[partition] = None
            self._tails.follow(position, reservation.log_end_offset)
            partition.end_offset = self._tails.offset(position.key) or 0

    def _stop_following(self, partition: ReservedPartition) -> None:
        log, partition.log, partition.end_offset = partition.log, None, 0
        if log is not None:
            del self._by_log[log][partition]
            if not self._by_log[log]:
                del self._by_log[log]
                self._tails.remove(log)

    def _give_back(self, partition: ReservedPartition) -> None:
        """Return the reservation to the job, and stop reading new records for it.

        Members keep the records that were already assigned to them.
        """
        reservation = partition.reservation
        partition.quiet_until_ms = 0
        if reservation.may_hold:
            self._append_unreserve(self._unreserve_row(partition, reservation.epoch))
        reservation.begin_epoch()
        partition.has_member_until_ms = -1
        self._stop_following(partition)

    def _unreserve_row(self, partition: ReservedPartition, epoch: int) -> UnreserveRequest:
        row_id, gateway = self._job.new_id(), self._job.reply_to
        return UnreserveRequest(row_id, *partition.key, "", ranges=None, requester=gateway, reservation_epoch=epoch)

    def _append_unreserve(self, row: UnreserveRequest) -> None:
        """Append a row that returns a reservation, and retry until the append succeeds.

        Without this row, the job would keep the offsets reserved for as long as this gateway renews its lease.
        """
        self._job.append_soon(row, lambda: self._unsent.append(row))

    def _has_had_members(self, partition: ReservedPartition, now_ms: int) -> bool:
        """Return whether the group has always had a member at this gateway since the reservation began.

        If the group was without a member, an administrator may have reset its offsets. The reservation must then not be
        used. This method also updates `has_member_until_ms` of `partition` from the current leases of the members.
        """
        leases = self._leases_of.setdefault(partition.key.group_id, {})
        for member in partition.members:
            member_id = member.client_member_id
            leases[member_id] = self._leases.get(partition.key.group_id, member_id)
        known = {member_id: lease for member_id, lease in leases.items() if lease.is_valid_at(now_ms)}
        if known:
            self._leases_of[partition.key.group_id] = known
        else:
            del self._leases_of[partition.key.group_id]
        had_members = partition.has_member_until_ms < 0 or now_ms < partition.has_member_until_ms
        partition.has_member_until_ms = max((lease.deadline_ms for lease in known.values()), default=-1)
        return had_members and bool(known)

    # -- assignments ---------------------------------------------------------------------------------------------------

    def _assign(self, partition: ReservedPartition) -> None:
        """Assign the records that have arrived to waiting members.

        If the reservation must not be used (see `_has_had_members` and `_reads_uncommitted_wrongly`), return it to the
        job instead.
        """
        now_ms, reservation = self._job.now_ms(), partition.reservation
        ranges = reservation.assignable_ranges(partition.end_offset)
        if not ranges or not self._own_lease(partition.key.group_id).is_usable(now_ms):
            return
        waiting = self._waiting(partition, now_ms)
        if not waiting:
            return
        partition.waited_ms = now_ms
        if not self._has_had_members(partition, now_ms) or self._reads_uncommitted_wrongly(partition):
            self._give_back(partition)
            return
        at_least = max(1, round(partition.rate.per_second(now_ms) * SHARE_MS / 1000))
        candidates = [Candidate(member, max(1, member.read_ahead.credit.wanted)) for member in waiting]
        for assignment in choose_members(ranges, candidates, at_least):
            if not self._send(partition, assignment):
                return

    def _send(self, partition: ReservedPartition, assignment: Assignment[MemberPartition]) -> bool:
        """Append a row that assigns records, and start a task that delivers them when the row is durable.

        Returns False if the row cannot be sent. The offsets then stay unused.
        """
        reservation, member = partition.reservation, assignment.member
        lock_ms = self._group_configs.group_config(partition.key.group_id).lock_duration_ms(member.is_static)
        own_lease, lease = self._own_lease(partition.key.group_id), self._assigned.lease(member)
        valid_until_ms = min(own_lease.end_ms, lease.deadline_ms - 1)
        row = member.assignment(assignment.ranges, reservation.epoch, lock_ms, valid_until_ms)
        try:
            appended = self._job.append(row)
        except JobUnavailableError as error:
            logger.info(
                "%(share_partition)s: failed to assign records to a member; the records stay reserved: %(error)s",
                LogFields(share_partition=partition.key, error=error),
            )
            return False
        reservation.use(assignment.ranges)
        own_lease.record_assignment(self._job.now_ms())
        partition.rate.record(sum(last - first + 1 for first, last in assignment.ranges), self._job.now_ms())
        del partition.members[member]  # its next fetch waits behind the other members'
        delivery = self._deliver(partition, member, lease, row, appended, reservation.read_committed)
        task = asyncio.ensure_future(delivery)
        self._deliveries.add(task)
        task.add_done_callback(self._deliveries.discard)
        return True

    async def _deliver(
        self,
        partition: ReservedPartition,
        member: MemberPartition,
        lease: Lease,
        row: AssignRequest,
        appended: asyncio.Future[int],
        read_committed: bool,
    ) -> None:
        """Add the records of an assignment to the member's buffer if the job will certainly apply the row.

        If the row was appended too late or the outcome of the append is unknown, the records are not sent. The rest of
        the reservation is then returned to the job, also if all of it was used: if the row has no effect, the job still
        holds its offsets for this gateway. The job may apply the row nevertheless. The records then become
        available when their locks expire. No row returns them, because the member may have acquired them from the job
        since then. If the row was appended in time but the member has left, a row returns the records. `lease` is the
        member's lease when the row was sent: a member that has joined again since has another one.
        """
        chosen_s = asyncio.get_running_loop().time()
        try:
            append_ms = await appended
        except JobUnavailableError as error:
            logger.info(
                "%(share_partition)s: records are not sent to member %(member)s, because it is unknown whether the row"
                " that assigns them was appended: %(error)s",
                LogFields(share_partition=partition.key, member=row.member_id, error=error),
            )
            append_ms = -1
        if not 0 <= append_ms <= row.valid_until_ms:
            is_current = partition.reservation.epoch == row.reservation_epoch
            if not (is_current and partition.reservation.may_hold):  # otherwise, `_give_back` returns it
                self._append_unreserve(self._unreserve_row(partition, row.reservation_epoch))
            if is_current:
                self._give_back(partition)
            return
        acquired = [AcquiredRange(first, last, 1) for first, last in row.ranges]
        assigned = Assigned(append_ms, row.lock_duration_ms, read_committed, chosen_s)
        self._assigned.deliver(member, lease, acquired, assigned)

    def _waiting(self, partition: ReservedPartition, now_ms: int) -> list[MemberPartition]:
        """Return the waiting members that are certainly in the group. Members served least recently come first."""
        return [member for member in partition.waiting() if self._assigned.lease(member).is_valid_at(now_ms)]

    def _waiting_for(self, key: SharePartitionKey) -> list[MemberPartition]:
        partition = self._partitions.get(key)
        return [] if partition is None else self._waiting(partition, self._job.now_ms())

    def _on_served(self, member: MemberPartition) -> None:
        """Move `member` behind the other waiting members, because records were passed on to it."""
        if (partition := self._partitions.get(member.key)) is not None:
            partition.members.pop(member, None)

    def _reads_uncommitted_wrongly(self, partition: ReservedPartition) -> bool:
        """Return whether the group was altered to read_committed after the offsets were reserved."""
        config = self._group_configs.group_config(partition.key.group_id)
        return config.isolation_level is IsolationLevel.READ_COMMITTED and not partition.reservation.read_committed


def _is_unwanted(partition: ReservedPartition, now_ms: int) -> bool:
    """Return whether the reservation must be returned to the job, because no member has recently waited for records."""
    idle_ms = now_ms - partition.waited_ms
    if idle_ms < IDLE_MS:
        return False
    return idle_ms >= EMPTY_IDLE_MS or bool(partition.reservation.assignable_ranges(partition.end_offset))
