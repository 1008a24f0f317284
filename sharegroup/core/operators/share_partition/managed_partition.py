"""A share-partition during a micro-batch: its records in flight, the header of its durable state, and its changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sharegroup.core.operators.log_offsets import PartitionLog
from sharegroup.core.operators.share_partition.partition_configs import PartitionConfig, SnapshotRules
from sharegroup.core.share_coordinator.durable_rows import state_row
from sharegroup.core.share_coordinator.next_record import StateWrite, initial_record, next_record
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffsetHeader
from sharegroup.core.share_partition import Outcome, SharePartition, SharePartitionConfig
from sharegroup.core.share_partition.reservation import reserver_id
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.monitoring.metrics.window_sizes import WindowSizes
from sharegroup.protocol.acknowledge_rules import release_batches
from sharegroup.protocol.rows.reservation_requests import AssignRequest, ReassignRequest
from sharegroup.protocol.rows.row_fields import MAX_INT32
from sharegroup.protocol.rows.share_partition_requests import AcknowledgeRequest, UnacquireRequest
from sharegroup.types import (
    AcquiredRange,
    Cause,
    OffsetRange,
    RecordState,
    SharePartitionKey,
    StateBatch,
    Transition,
)


class DumpedPartition(NamedTuple):
    """A share-partition as it is stored between two micro-batches.

    `values` is JSON-able. `texts` are the large pieces of the in-flight window, one line each. The texts are not part
    of the JSON, because a micro-batch does not read most of them.
    """

    values: list[Any]
    texts: list[str]

    @classmethod
    def from_lines(cls, values: list[Any], lines: Iterator[str]) -> DumpedPartition:
        """Return the dumped partition with these values. Its texts are the next lines of `lines`."""
        pieces = values[2][-1]
        return cls(values, [next(lines) for piece in pieces if piece[-1] is None])


class ManagedPartition:
    """A share-partition that this job manages, during one micro-batch.

    Attributes:
        window: The state machine, which has the records in flight.
        header: The header of the durable state, which `make_record` updates at the end of the batch.
        log: The offsets of the log, or None until the source has read them. Until then, records in flight can be
            acknowledged, but none can be acquired.
        transitions: The state changes of this batch, in order.
    """

    __slots__ = ("_must_snapshot", "header", "log", "transitions", "window")

    def __init__(self, window: SharePartition, header: ShareGroupOffsetHeader, log: PartitionLog | None = None) -> None:
        self.window = window
        self.header = header
        self.log = log
        self.transitions: list[Transition] = []
        self._must_snapshot = False

    @classmethod
    def load(cls, load: dict[str, Any], now_ms: int) -> ManagedPartition:
        """Return the share-partition that a `load` row describes.

        If the row contains a durable state whose state epoch is not below that of the row, the share-partition has this
        state. Otherwise it begins at the start offset in the row, without records in flight.
        """
        header = ShareGroupOffsetHeader.restore(load["header"]) if load["header"] else None
        if header is not None and header.state_epoch >= load["state_epoch"]:
            batches = [_state_batch(batch) for batch in load["batches"]]
            return cls(SharePartition.load(header.start_offset, batches, 0, 0), header)
        managed = cls(SharePartition(load["start_offset"], 0, 0), cls._initialized(header, load, now_ms))
        managed._must_snapshot = True
        return managed

    @staticmethod
    def _initialized(
        header: ShareGroupOffsetHeader | None, load: dict[str, Any], now_ms: int
    ) -> ShareGroupOffsetHeader:
        """Return the header from which `make_record` makes the initial snapshot at the end of the batch.

        Its snapshot epoch is one below that of the initial snapshot, because `make_record` adds one.
        """
        key = SharePartitionKey("", "", "", load["partition"])
        record = initial_record(key, header, load["state_epoch"], load["start_offset"])
        after = (
            ShareGroupOffsetHeader.from_snapshot(record, now_ms)
            if header is None
            else header.apply_record(record, now_ms)
        )
        return after._replace(snapshot_epoch=after.snapshot_epoch - 1)

    def reset(self, load: dict[str, Any], now_ms: int, cause: Cause = Cause.RESET) -> None:
        """Start again at the offset in `load` and discard all record states, after an offset reset or for a new log."""
        self._replay(self.window.reset(load["start_offset"], cause))
        self.header = self._initialized(self.header, load, now_ms)
        self._must_snapshot = True

    def delete_state(self, cause: Cause = Cause.RESET) -> None:
        """Archive all records in flight, because the state is deleted. `cause` is recorded in `delivery_log`."""
        self._replay(self.window.reset(self.window.end_offset, cause))

    # -- transitions -----------------------------------------------------------------------------------------------

    def is_of_another_topic(self, log: PartitionLog) -> bool:
        """Return whether the topic must have been deleted and created again: its log ends below delivered offsets.

        If the broker assigns topic ids, this check is not needed and returns False. It also returns False if the
        share-partition starts in this batch, because a given start offset may be above the end of the log.
        """
        has_fallen = self.log is None or log.log_end_offset < self.log.log_end_offset
        is_below = log.log_end_offset < self.window.delivered_end_offset
        return not log.has_topic_id and has_fallen and is_below and not self._must_snapshot

    def is_outdated(self, log: PartitionLog) -> bool:
        """Return whether `log` comes from an earlier partition leader than the offsets that are already known."""
        return self.log is not None and log.has_topic_id and 0 <= log.leader_epoch < self.log.leader_epoch

    def find_election_cut(self, log: PartitionLog) -> OffsetRange | None:
        """Return the delivered offsets that an unclean leader election removed from the log, or None if there are none.

        The new leader assigns these offsets to other records. As in Kafka, the new record at a finished offset is not
        delivered, because an acknowledgement contains only the offset: it may have been for the old or the new record.
        """
        cut, known = log.log_end_offset, self.log
        if known is not None:
            if 0 <= known.leader_epoch < log.leader_epoch and log.epoch_start is not None:
                cut = min(cut, log.epoch_start)
            if cut >= known.log_end_offset:
                return None
        end = self.window.delivered_end_offset
        return OffsetRange(cut, end - 1) if log.has_topic_id and cut < end else None

    def move_log(self, log: PartitionLog, config: PartitionConfig) -> None:
        """Set the start and end of the log.

        With read_committed, the end is the last stable offset. While that offset is unknown, no new records can be
        acquired.
        """
        self.log = log
        end_offset = log.log_end_offset
        if config.read_committed:
            # The window may end after the log, because of reserved offsets.
            known_end = min(self.window.end_offset, log.log_end_offset)
            end_offset = known_end if log.last_stable_offset is None else log.last_stable_offset
        self._replay(self.window.move_log_end(end_offset))
        self._replay(self.window.move_log_start(log.log_start_offset))

    def acquire(
        self, member_id: str, max_records: int, now_ms: int, config: SharePartitionConfig
    ) -> tuple[AcquiredRange, ...]:
        """Acquire up to `max_records` records for a member, and return the acquired ranges."""
        return self._replay(self.window.acquire(member_id, max_records, now_ms, config))

    def acknowledge(
        self, request: AcknowledgeRequest, append_ms: int, now_ms: int, config: SharePartitionConfig
    ) -> tuple[AcquiredRange, ...]:
        """Apply an acknowledgement and return the renewed ranges.

        Records below the start offset are skipped, because they are already finished. A request that contains such
        records is rejected if it was appended after its `lock_deadline_ms`, because another member may have finished
        them.

        Raises RequestError in this case, and in the cases that `SharePartition.acknowledge` lists.
        """
        member_id, batches, grants = request.member_id, request.batches, request.acquired
        is_late = 0 <= request.lock_deadline_ms < append_ms
        if is_late and any(batch.first_offset < self.window.start_offset for batch in batches):
            message = "the acknowledgement arrived after its lock expired, and the records are already finished"
            raise RequestError(ErrorCode.INVALID_RECORD_STATE, message)
        return self._replay(self.window.acknowledge(member_id, batches, now_ms, config, request.is_renew_ack, grants))

    def check_not_late(self, request: AcknowledgeRequest, append_ms: int) -> None:
        """Raise RequestError if the lock of one of the records had expired when the acknowledgement was appended.

        The check is needed because an expired lock remains until the next tick, which may come after the
        acknowledgement.
        """
        if self.window.is_due(append_ms) and any(
            self.window.has_lock_before(append_ms, batch) for batch in request.batches
        ):
            raise RequestError(ErrorCode.INVALID_RECORD_STATE, "the acknowledgement arrived after its lock expired")

    def unacquire(self, request: UnacquireRequest) -> None:
        """Release records that the gateway never sent to the member, and undo their deliveries.

        The request has either `ranges` or `acquired`. Raises RequestError if the member does not hold all `ranges`.
        """
        self._replay(self.window.unacquire(request.member_id, request.ranges))
        self._replay(self.window.undo_deliveries(request.member_id, request.acquired))

    def release_member(
        self, member_id: str, config: SharePartitionConfig, delivered: Sequence[OffsetRange] | None = None
    ) -> None:
        """Release the records of a member that left or whose session has ended.

        `delivered` are the ranges that the gateway sent to the member (None: all). The delivery counts of the member's
        other records are reduced again, because the member never received them.
        """
        if delivered is not None:
            self._replay(self.window.unacquire(member_id, self.window.undelivered_ranges(member_id, delivered)))
        self._replay(self.window.release_member(member_id, config))

    def release_delivered(
        self, member_id: str, config: SharePartitionConfig, delivered: Sequence[OffsetRange] | None
    ) -> None:
        """Release those of the member's records that are in `delivered` (None: no records)."""
        self._replay(self.window.release(self.window.delivered_ranges(member_id, delivered or ()), config))

    def reserve(self, reserver: str, records: int, config: SharePartitionConfig) -> None:
        """Reserve offsets until `reserver` (a gateway in one reservation epoch) holds at least `records` of them.

        Nothing is reserved while records can be acquired. At the limit on record locks, fewer offsets are reserved.
        """
        self._replay(self.window.reserve(reserver, records, config))

    def assign(self, request: AssignRequest, append_ms: int) -> None:
        """Assign reserved records to a member. Raises RequestError if they are not reserved for the gateway."""
        reserver = reserver_id(request.requester, request.reservation_epoch)
        member_id, ranges = request.member_id, request.ranges
        self._replay(self.window.assign(reserver, member_id, ranges, append_ms, request.lock_duration_ms))

    def reassign(self, request: ReassignRequest, append_ms: int, config: SharePartitionConfig) -> None:
        """Release records that `member_id` of the request holds, and deliver them to `to_member_id`.

        The gateway has already sent the records. They are therefore delivered even if they had the maximum delivery
        count, which can happen if the limit was lowered meanwhile. Raises RequestError if the member does not hold the
        records with these delivery counts.
        """
        no_limit = replace(config, delivery_count_limit=MAX_INT32)
        batches = release_batches(request.acquired)
        released = self.window.acknowledge(request.member_id, batches, append_ms, no_limit, False, request.acquired)
        self._replay(released)
        deadline_ms = append_ms + request.lock_duration_ms
        self._replay(self.window.reassign(released.transitions, request.to_member_id, deadline_ms))

    def release_assigned(self, assigned: Sequence[OffsetRange], config: SharePartitionConfig) -> None:
        """Release records that have just been assigned, because the member left or was replaced before that."""
        start_offset = self.window.start_offset
        ranges = [OffsetRange(max(first, start_offset), last) for first, last in assigned if last >= start_offset]
        self._replay(self.window.release(ranges, config))

    def unreserve(self, reserver: str, ranges: Sequence[OffsetRange] | None = None) -> None:
        """End the reservation of `ranges`. If `ranges` is None, all reservations of `reserver` end."""
        self._replay(self.window.unreserve(reserver, ranges))

    def expire(self, clock_ms: int, config: SharePartitionConfig) -> None:
        """End the locks whose deadline is before `clock_ms`, the time of the tick."""
        if self.window.is_due(clock_ms):
            self._replay(self.window.expire(clock_ms, config))

    @property
    def has_unacquired(self) -> bool:
        """Whether there are unfinished records in the log that no member holds."""
        return self.window.log_end_offset > self.window.end_offset or self.window.available_count > 0

    def fair_share(self, waiting: int, config: SharePartitionConfig) -> int:
        """Return the maximum number of records for the next fetch: an even share of the records, at least one.

        `waiting` is the number of fetches that are still to be served, including this one. If there is only one, the
        maximum is the limit on record locks.
        """
        window = self.window
        if waiting == 1:
            return config.max_record_locks
        room = config.max_record_locks - (window.end_offset - window.start_offset)
        new = max(0, min(window.log_end_offset - window.end_offset, room))
        return max(1, -(-(new + window.available_count) // waiting))

    def _replay(self, outcome: Outcome) -> tuple[AcquiredRange, ...]:
        if not outcome.is_empty:
            self.window.replay(outcome)
            self.transitions += outcome.transitions
        return outcome.response

    # -- the durable record ----------------------------------------------------------------------------------------

    def request_cold_snapshot(self, now_ms: int, rules: SnapshotRules) -> None:
        """Make `make_record` write a snapshot if a cold snapshot is due (`ShareGroupOffsetHeader.snapshot_due_ms`)."""
        self._must_snapshot |= now_ms >= self.header.snapshot_due_ms(rules.cold_snapshot_interval_ms)

    def make_record(self, key: SharePartitionKey, rules: SnapshotRules, now_ms: int) -> dict[str, Any] | None:
        """Return the changes of the batch as a row of `share_group_state`, or None if no row is needed.

        The call updates `header` to the state after this row, and clears `transitions`.
        """
        window = self.window
        changed = bool(self.transitions) or window.start_offset != self.header.start_offset
        if not (changed or self._must_snapshot):
            return None
        write = StateWrite(
            key,
            self.header.state_epoch,
            self.header.leader_epoch_fence,
            window.start_offset,
            window.delivery_complete_count,
            self._changed_batches(),
        )
        updates_per_snapshot = 0 if self._must_snapshot else rules.updates_per_snapshot
        record = next_record(self.header, write, updates_per_snapshot, window.state_batches)
        self.header = self.header.apply_record(record, now_ms)
        self.transitions, self._must_snapshot = [], False
        return state_row(record, window.end_offset)

    def _changed_batches(self) -> list[StateBatch]:
        """Return the offsets that this batch changed, with their final state.

        Offsets that are no longer in flight are left out. Either the start offset has passed them, or their reservation
        ended and they were removed from the end of the window.
        """
        ranges: list[OffsetRange] = []
        for first, last in sorted((t.first_offset, t.last_offset) for t in self.transitions):
            if ranges and first <= ranges[-1].last_offset + 1:
                ranges[-1] = OffsetRange(ranges[-1].first_offset, max(last, ranges[-1].last_offset))
            else:
                ranges.append(OffsetRange(first, last))
        return self.window.state_batches_in(ranges)

    def window_sizes(self, key: SharePartitionKey) -> WindowSizes:
        """Return the sizes of the window for metrics. `end_offset` excludes reserved offsets without records."""
        window = self.window
        reserved_count = 0
        if window.reservers():
            last_end_offset = max(window.delivered_end_offset, window.log_end_offset)
            reserved_count = max(0, window.end_offset - last_end_offset)
        return WindowSizes(
            *key,
            window.start_offset,
            window.end_offset - reserved_count,
            window.delivery_complete_count,
            window.available_count,
            -1 if self.log is None else window.log_end_offset,
            reserved_count,
        )

    # -- the operator's state --------------------------------------------------------------------------------------

    def dump(self) -> DumpedPartition:
        """Return the partition as it is stored. `values` begins with the earliest lock deadline."""
        *window, texts = self.window.dump()
        log = None if self.log is None else self.log.dump()
        return DumpedPartition([self.window.next_deadline_ms(), self.header.dump(), window, log], texts)

    @classmethod
    def restore(cls, dumped: DumpedPartition) -> ManagedPartition:
        """Return the partition that `dump` wrote."""
        (_, header, window, log), texts = dumped
        known = None if log is None else PartitionLog(*log)
        return cls(SharePartition.restore([*window, texts]), ShareGroupOffsetHeader.restore(header), known)

    def next_deadline_ms(self, rules: SnapshotRules) -> int:
        """Return the time at which this share-partition needs a tick, to end a lock or to write a snapshot."""
        return _deadline_ms(self.window.next_deadline_ms(), self.header, rules)

    @staticmethod
    def dumped_deadline_ms(dumped: DumpedPartition, rules: SnapshotRules) -> int:
        """Return `next_deadline_ms` of a dumped partition, without restoring it."""
        lock_deadline_ms, header, *_ = dumped.values
        return _deadline_ms(lock_deadline_ms, ShareGroupOffsetHeader.restore(header), rules)


def _deadline_ms(lock_deadline_ms: int | None, header: ShareGroupOffsetHeader, rules: SnapshotRules) -> int:
    due_ms = header.snapshot_due_ms(rules.cold_snapshot_interval_ms)
    return due_ms if lock_deadline_ms is None else min(due_ms, lock_deadline_ms)


def _state_batch(batch: list[Any]) -> StateBatch:
    first_offset, last_offset, state, *rest = batch
    return StateBatch(first_offset, last_offset, RecordState(state), *rest)
