"""One share-partition while its shard runs: its window, the header of its durable state, what this batch changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sharegroup.core.operators.log_offsets import LogOffsets
from sharegroup.core.operators.share_partition.partition_configs import PartitionConfig, SnapshotRules
from sharegroup.core.share_coordinator.durable_rows import state_row
from sharegroup.core.share_coordinator.next_record import StateWrite, initial_record, next_record
from sharegroup.core.share_coordinator.share_group_offset import ShareGroupOffsetHeader
from sharegroup.core.share_partition import Outcome, SharePartition, SharePartitionConfig
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.monitoring.metrics.window_sizes import WindowSizes
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
    """A share-partition between two micro-batches: JSON-able `values`, and `texts`, the large pieces of its window.

    These are of one line, and most of them nobody reads in a batch. So they stand beside the JSON, not in it.
    """

    values: list[Any]
    texts: list[str]

    @classmethod
    def taken(cls, values: list[Any], lines: Iterator[str]) -> DumpedPartition:
        """Of its values and as many of `lines` as it has texts."""
        pieces = values[2][-1]
        return cls(values, [next(lines) for piece in pieces if piece[-1] is None])


class LedPartition:
    """One share-partition that this job serves. `transitions` are this batch's, in order; `header` is the durable
    state's before this batch.

    `log` is None while nobody has told how far the log reaches: what is in flight can be acknowledged, and nothing is
    given out.
    """

    __slots__ = ("_must_snapshot", "header", "log", "transitions", "window")

    def __init__(self, window: SharePartition, header: ShareGroupOffsetHeader, log: LogOffsets | None = None) -> None:
        self.window = window
        self.header = header
        self.log = log
        self.transitions: list[Transition] = []
        self._must_snapshot = False

    @classmethod
    def load(cls, load: dict[str, Any], now_ms: int) -> LedPartition:
        """From a `load` row: from the table's state where there is one, else from its start offset."""
        header = ShareGroupOffsetHeader.restore(load["header"]) if load["header"] else None
        if header is not None and header.state_epoch >= load["state_epoch"]:
            batches = [_state_batch(batch) for batch in load["batches"]]
            return cls(SharePartition.load(header.start_offset, batches, 0, 0), header)
        led = cls(SharePartition(load["start_offset"], 0, 0), cls._initialized(header, load, now_ms))
        led._must_snapshot = True
        return led

    @staticmethod
    def _initialized(
        header: ShareGroupOffsetHeader | None, load: dict[str, Any], now_ms: int
    ) -> ShareGroupOffsetHeader:
        """The header before the initial snapshot: `record` writes the snapshot itself, with the batch's last state."""
        key = SharePartitionKey("", "", "", load["partition"])
        record = initial_record(key, header, load["state_epoch"], load["start_offset"])
        after = ShareGroupOffsetHeader.of(record, now_ms) if header is None else header.after(record, now_ms)
        return after._replace(snapshot_epoch=after.snapshot_epoch - 1)

    def reset(self, load: dict[str, Any], now_ms: int, cause: Cause = Cause.RESET) -> None:
        """Initialised anew, with a higher state epoch (an offset reset) or on another log: states and counts vanish."""
        self._replay(self.window.reset(load["start_offset"], cause))
        self.header = self._initialized(self.header, load, now_ms)
        self._must_snapshot = True

    def forget(self, cause: Cause = Cause.RESET) -> None:
        """Its state is deleted: what was in flight is in flight no more."""
        self._replay(self.window.reset(self.window.end_offset, cause))

    # -- transitions -----------------------------------------------------------------------------------------------

    def is_of_another_topic(self, log: LogOffsets) -> bool:
        """Whether the log is that of another topic under the name, as it ends below what was acquired.

        Topic ids tell without it. What begins in this batch begins where it was told to.
        """
        has_fallen = self.log is None or log.log_end_offset < self.log.log_end_offset
        is_below = log.log_end_offset < self.window.end_offset
        return not log.has_topic_id and has_fallen and is_below and not self._must_snapshot

    def is_outdated(self, log: LogOffsets) -> bool:
        """Whether the log's ends are those of an earlier leader than the one that was heard last."""
        return self.log is not None and log.has_topic_id and 0 <= log.leader_epoch < self.log.leader_epoch

    def cut_by_election(self, log: LogOffsets) -> OffsetRange | None:
        """The offsets that were delivered of records which the log no longer has: an unclean election took them.

        What stands there now, or will, are other records. As in Kafka, what is finished stays finished: an
        acknowledgement, or a row in a sink, names an offset and cannot tell one record from the other.
        """
        cut, known = log.log_end_offset, self.log
        if known is not None:
            if 0 <= known.leader_epoch < log.leader_epoch and log.epoch_start is not None:
                cut = min(cut, log.epoch_start)
            if cut >= known.log_end_offset:
                return None
        end = self.window.end_offset
        return OffsetRange(cut, end - 1) if log.has_topic_id and cut < end else None

    def move_log(self, log: LogOffsets, config: PartitionConfig) -> None:
        """The log's ends as the source saw them; of committed records, nothing new is there until it saw their end."""
        self.log = log
        end_offset = log.log_end_offset
        if config.read_committed:
            end_offset = self.window.end_offset if log.last_stable_offset is None else log.last_stable_offset
        self._replay(self.window.log_end_moved(end_offset))
        self._replay(self.window.log_start_moved(log.log_start_offset))

    def acquire(
        self, member_id: str, max_records: int, now_ms: int, config: SharePartitionConfig
    ) -> tuple[AcquiredRange, ...]:
        """Acquire up to `max_records` for a member."""
        return self._replay(self.window.acquire(member_id, max_records, now_ms, config))

    def acknowledge(
        self, request: AcknowledgeRequest, append_ms: int, now_ms: int, config: SharePartitionConfig
    ) -> tuple[AcquiredRange, ...]:
        """Apply an acknowledgement; what it renewed, which may be less than it names. Raises RequestError.

        Records below the start offset are passed over, as they are finished, whoever did it: which is no answer to who
        comes after the lock's end.
        """
        member_id, batches, grants = request.member_id, request.batches, request.acquired
        is_late = 0 <= request.lock_deadline_ms < append_ms
        if is_late and any(batch.first_offset < self.window.start_offset for batch in batches):
            raise RequestError(ErrorCode.INVALID_RECORD_STATE, "the records were finished after the lock's end")
        return self._replay(self.window.acknowledge(member_id, batches, now_ms, config, request.is_renew_ack, grants))

    def refuse_late(self, request: AcknowledgeRequest, append_ms: int) -> None:
        """Raise RequestError for an acknowledgement that was appended after its lock's end, before a tick ends it."""
        if self.window.is_due(append_ms) and any(
            self.window.has_lock_before(append_ms, batch) for batch in request.batches
        ):
            raise RequestError(ErrorCode.INVALID_RECORD_STATE, "the lock was over")

    def unacquire(self, request: UnacquireRequest) -> None:
        """Give back ranges that never left the gateway. Raises RequestError."""
        self._replay(self.window.unacquire(request.member_id, request.ranges))
        self._replay(self.window.never_delivered(request.member_id, request.acquired))

    def release_member(
        self, member_id: str, config: SharePartitionConfig, delivered: Sequence[OffsetRange] | None = None
    ) -> None:
        """Release what a departed member holds; what is not `delivered` (None: all is) never was delivered to it."""
        if delivered is not None:
            self._replay(self.window.unacquire(member_id, self.window.undelivered(member_id, delivered)))
        self._replay(self.window.release_member(member_id, config))

    def expire(self, clock_ms: int, config: SharePartitionConfig) -> None:
        """Expire the locks whose deadline is before the safe clock."""
        if self.window.is_due(clock_ms):
            self._replay(self.window.expire(clock_ms, config))

    @property
    def has_more(self) -> bool:
        """Whether records are there that nobody holds and that are not finished."""
        return self.window.log_end_offset > self.window.end_offset or self.window.available_count > 0

    def fair_share(self, waiting: int, config: SharePartitionConfig) -> int:
        """How many records one of `waiting` demands may take, at least one."""
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

    def snapshot_when_cold(self, now_ms: int, records: SnapshotRules) -> None:
        """Ask for a snapshot when the last one is older than share.coordinator.cold.partition.snapshot.interval.ms."""
        self._must_snapshot |= now_ms >= self.header.snapshot_due_ms(records.cold_snapshot_interval_ms)

    def record(self, key: SharePartitionKey, records: SnapshotRules, now_ms: int) -> dict[str, Any] | None:
        """The batch's durable record as a row of `share_group_state`, None if nothing changed; moves the header on."""
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
        updates_per_snapshot = 0 if self._must_snapshot else records.updates_per_snapshot
        record = next_record(self.header, write, updates_per_snapshot, window.state_batches)
        self.header = self.header.after(record, now_ms)
        self.transitions, self._must_snapshot = [], False
        return state_row(record, window.end_offset)

    def _changed_batches(self) -> list[StateBatch]:
        """Where the changed offsets ended up; what fell below the start offset is not in flight any more."""
        ranges: list[OffsetRange] = []
        for first, last in sorted((t.first_offset, t.last_offset) for t in self.transitions):
            if ranges and first <= ranges[-1].last_offset + 1:
                ranges[-1] = OffsetRange(ranges[-1].first_offset, max(last, ranges[-1].last_offset))
            else:
                ranges.append(OffsetRange(first, last))
        return self.window.state_batches_in(ranges)

    def sizes(self, key: SharePartitionKey) -> WindowSizes:
        """How large the window is, for metrics."""
        window = self.window
        return WindowSizes(
            *key,
            window.start_offset,
            window.end_offset,
            window.delivery_complete_count,
            window.available_count,
            -1 if self.log is None else window.log_end_offset,
        )

    # -- the operator's state --------------------------------------------------------------------------------------

    def dump(self) -> DumpedPartition:
        """For the operator's state; the earliest lock deadline stands outside, to be read without a restore."""
        *window, texts = self.window.dump()
        log = None if self.log is None else self.log.dump()
        return DumpedPartition([self.window.next_deadline_ms(), self.header.dump(), window, log], texts)

    @classmethod
    def restore(cls, dumped: DumpedPartition) -> LedPartition:
        """The inverse of `dump`."""
        (_, header, window, log), texts = dumped
        known = None if log is None else LogOffsets(*log)
        return cls(SharePartition.restore([*window, texts]), ShareGroupOffsetHeader.restore(header), known)

    def next_deadline_ms(self, records: SnapshotRules) -> int:
        """When this share-partition wants a tick."""
        return _deadline_ms(self.window.next_deadline_ms(), self.header, records)

    @staticmethod
    def dumped_deadline_ms(dumped: DumpedPartition, records: SnapshotRules) -> int:
        """`next_deadline_ms` of a dumped one."""
        lock_deadline_ms, header, *_ = dumped.values
        return _deadline_ms(lock_deadline_ms, ShareGroupOffsetHeader.restore(header), records)


def _deadline_ms(lock_deadline_ms: int | None, header: ShareGroupOffsetHeader, records: SnapshotRules) -> int:
    due_ms = header.snapshot_due_ms(records.cold_snapshot_interval_ms)
    return due_ms if lock_deadline_ms is None else min(due_ms, lock_deadline_ms)


def _state_batch(batch: list[Any]) -> StateBatch:
    first_offset, last_offset, state, *rest = batch
    return StateBatch(first_offset, last_offset, RecordState(state), *rest)
