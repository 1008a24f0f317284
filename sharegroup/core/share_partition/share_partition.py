"""The state machine of a share-partition: one topic-partition in one share group (KIP-932).

Theory of operation
-------------------
Offsets. Records below the start offset (SPSO) are finished, and nothing is stored about them. Records from the start
offset to the end offset (SPEO, exclusive as in the KIP) are in flight: each has one of four states (`record_state`).
Records from the end offset on have not been acquired yet. The window between the two (`in_flight`) is stored as ranges,
so every cost depends on the number of ranges, not on the number of records.

Handlers and replay. A handler (`acquire`, `acknowledge`, `release_member`, `unacquire`, `reserve`, `assign`,
`reassign`, `unreserve`, `expire`, `move_log_start`, `move_log_end`, `reset`) reads the state and returns an `Outcome`.
It changes nothing, even if it rejects a request with a RequestError. `replay(outcome)` is the only mutator. It needs
neither a clock nor a configuration, because the transitions contain the resulting deadlines and states. A restart is
therefore a load or restore, followed by replays.

Start offset. `replay` moves the start offset in the same step as the transition that finishes the head of the window.
It moves over terminal (finished) records, up to the first record that is not terminal. A fetch and a RENEW never move
it. If the log start moves above the start offset, the start offset becomes exactly the log start, even if terminal
records follow. The next acknowledgement or expiry then moves it over these records.

Time. Time is an argument, and nothing expires by itself. The caller calls `expire(now_ms)` after the time
`next_deadline_ms()`. If an acknowledgement was in time, the caller should apply it before this call. A lock expires
strictly after its deadline.

Loaded holes. A durable state that Kafka wrote may lack offsets between the start and the end offset, because Kafka does
not store which records are acquired. These offsets count as never delivered. The hole cursor (`_hole_cursor`) starts at
the first hole and moves with each fetch. Until a fetch reaches the end of the loaded state, the start offset does not
pass the cursor. A state that this project wrote has no holes, because acquired ranges are stored with member and
deadline.

Reservations. Offsets after the end of the log can also be in flight: a gateway can reserve them (`reservation`). They
count against the limit on record locks. In requests of members, reserved offsets count as not in flight.

Lost records. When the log start moves past records, the window drops them immediately, even if they are acquired. Kafka
keeps acquired records until their locks expire, and the start offset cannot pass them earlier. Two effects of Kafka's
rule are visible to clients and are therefore implemented:
- When the last lock of lost records expires, the start offset advances as after any other expiry. It then passes
  terminal records at the log start (`_lost_locks`).
- While every record in flight is lost (`_all_lost`), an acknowledgement of later offsets is rejected with
  INVALID_REQUEST, as if it reached past the records in flight. The lost records then count as one record against the
  limit on record locks.

To extend the machine: a new cause or state goes into `record_state.TRANSITIONS`. A new field of a record goes into
`InFlightRecord`, and into the functions that encode and decode the ranges of a window piece.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from typing import Any

from sharegroup.core.share_partition.acknowledgement import (
    AcknowledgementRejected,
    RenewalsDisabled,
    acknowledge_batch,
    delivery_counts_by_offset,
)
from sharegroup.core.share_partition.acquisition import fetch_budget, select_portions
from sharegroup.core.share_partition.in_flight import InFlight
from sharegroup.core.share_partition.in_flight_record import InFlightRecord
from sharegroup.core.share_partition.outcome import Outcome, acquired_ranges
from sharegroup.core.share_partition.record_state import ACQUIRED, AVAILABLE
from sharegroup.core.share_partition.release import (
    archive_below,
    not_held_error,
    release_ranges,
    subtract_ranges,
    unacquire_ranges,
    undo_deliveries,
)
from sharegroup.core.share_partition.reservation import (
    NO_DEADLINE_MS,
    assign_ranges,
    find_reservers,
    iter_reserved,
    reassign_ranges,
    reserve_ranges,
    unreserve_ranges,
)
from sharegroup.core.share_partition.share_partition_config import SharePartitionConfig
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.acknowledge_rules import check_batches, has_renewals
from sharegroup.protocol.range_map import append_fused
from sharegroup.types import (
    AcknowledgementBatch,
    AcquiredRange,
    Cause,
    OffsetRange,
    RecordState,
    StateBatch,
    Transition,
)

#: Maximum number of ranges that one fetch acquires. A range takes up to 50 bytes of the response row, and Kafka accepts
#: 1 MB per message by default.
MAX_ACQUIRED_RANGES = 10_000
#: The fetch batch (first and last offset) of a record that no fetch has read.
_NO_BATCH = -1, -1
#: After a transition with one of these causes, an AVAILABLE record keeps its previous member, because a late request
#: may report that this member never received the record.
_MAY_BE_UNDONE = (Cause.LOCK_TIMEOUT, Cause.MEMBER_LEFT)
#: Transitions with these causes do not move the start offset over finished records.
_NO_MOVE = frozenset(
    {
        Cause.FETCH,
        Cause.RENEW,
        Cause.RESERVE,
        Cause.ASSIGN,
        Cause.UNRESERVE,
        Cause.LOG_TRUNCATED,
        Cause.RESET,
        Cause.TOPIC_DELETED,
    }
)


class SharePartition:
    """The state of a share-partition. Read the module's theory of operation first.

    Attributes:
        start_offset: The first offset that is not finished (SPSO).
        log_start_offset: The first offset of the partition's log.
        log_end_offset: The end of the partition's log, exclusive. For read_committed, it is the last stable offset.
    """

    __slots__ = (
        "_all_lost",
        "_hole_cursor",
        "_lost_locks",
        "_window",
        "log_end_offset",
        "log_start_offset",
        "start_offset",
    )

    def __init__(self, start_offset: int, log_start_offset: int, log_end_offset: int) -> None:
        self.start_offset = start_offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self._window = InFlight()
        self._hole_cursor: int | None = None
        self._lost_locks: list[tuple[int, str]] = []  # (deadline, member), sorted, distinct
        self._all_lost = False

    # --- load, dump, restore ---------------------------------------------------------------------------------------

    @classmethod
    def load(
        cls, start_offset: int, batches: Iterable[StateBatch], log_start_offset: int, log_end_offset: int
    ) -> SharePartition:
        """Create the share-partition from its durable state, as a leader does after ReadShareGroupState.

        `batches` must not overlap. Offsets below `start_offset` are ignored. Offsets between the batches are holes. An
        ACQUIRED batch keeps its member and lock deadline, and a reserved batch (delivery count 0) keeps its gateway. An
        ACQUIRED batch without a member or lock deadline becomes AVAILABLE, because nobody could acknowledge it or its
        lock would never end. The start offset moves over finished records at the head. A log start above the
        start offset takes effect with the first `acquire` or `move_log_start`.
        """
        partition = cls(start_offset, log_start_offset, log_end_offset)
        known = [batch for batch in sorted(batches, key=_first_offset) if batch.last_offset >= start_offset]
        expected = start_offset
        for batch in known:
            if batch.first_offset > expected and partition._hole_cursor is None:
                partition._hole_cursor = expected
            expected = batch.last_offset + 1
        for batch in known:
            first = max(batch.first_offset, start_offset)
            partition._window.assign(first, batch.last_offset, partition._loaded(first, batch))
        partition._advance()
        return partition

    def dump(self) -> list[Any]:
        """Return the whole state as a JSON-able list. Its format may change between releases.

        The last two items are the window: a list for each piece (`window_piece`), and a list of texts. The list of a
        large piece ends with None, and its ranges are encoded as a one-line text. The texts are in the order of pieces.
        """
        return [
            self.start_offset,
            self.log_start_offset,
            self.log_end_offset,
            self._hole_cursor,
            [list(lock) for lock in self._lost_locks],
            self._all_lost,
            *self._window.dump(self.start_offset),
        ]

    @classmethod
    def restore(cls, obj: list[Any]) -> SharePartition:
        """Return the share-partition that `dump` wrote. It behaves exactly like the original."""
        start_offset, log_start_offset, log_end_offset, hole_cursor, lost_locks, all_lost, pieces, texts = obj
        partition = cls.__new__(cls)
        partition.start_offset = start_offset
        partition.log_start_offset = log_start_offset
        partition.log_end_offset = log_end_offset
        partition._hole_cursor = hole_cursor
        partition._lost_locks = [(deadline, member_id) for deadline, member_id in lost_locks]
        partition._all_lost = all_lost
        partition._window = InFlight.restore(pieces, texts, start_offset)
        return partition

    # --- queries ---------------------------------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        """The offset after the last record in flight (SPEO), or the start offset if no record is in flight."""
        last = self._window.last_offset
        return self.start_offset if last is None else last + 1

    @property
    def delivered_end_offset(self) -> int:
        """The offset after the last delivered record in flight, or the start offset if there is no such record."""
        last = self._window.last_delivered
        return self.start_offset if last is None else last + 1

    @property
    def delivery_complete_count(self) -> int:
        """The number of finished records between the start offset and the end offset (KIP-1226)."""
        return self._window.terminal_count

    @property
    def available_count(self) -> int:
        """The number of AVAILABLE records in flight, which a fetch can acquire."""
        return self._window.available_count

    def next_deadline_ms(self) -> int | None:
        """Return the earliest lock deadline, or None if there is no lock. Locks of lost records are included.

        The deadline of a reserved record is `NO_DEADLINE_MS`.
        """
        deadline = self._window.next_deadline_ms()
        if self._lost_locks and (deadline is None or self._lost_locks[0][0] < deadline):
            return self._lost_locks[0][0]
        return deadline

    def is_due(self, now_ms: int) -> bool:
        """Return whether a lock deadline is before `now_ms`, so that `expire(now_ms)` would change the state."""
        return self._window.is_due(now_ms) or (bool(self._lost_locks) and self._lost_locks[0][0] < now_ms)

    def has_lock_before(self, now_ms: int, batch: AcknowledgementBatch) -> bool:
        """Return whether a record of `batch` is still locked, although its lock deadline is before `now_ms`."""
        first = max(batch.first_offset, self.start_offset)
        return any(
            record.lock_deadline_ms is not None and record.lock_deadline_ms < now_ms
            for _, _, record in self._window.items(first, batch.last_offset)
        )

    def has_member(self, member_id: str) -> bool:
        """Return whether `member_id` holds a record."""
        return self._window.has_member(member_id)

    def members(self) -> list[str]:
        """Return the holders of records, sorted: ids of members, and `reserver_id`s of gateways."""
        return self._window.members()

    def reservers(self) -> list[str]:
        """Return the holder ids (`reserver_id`) of all reserved records, sorted."""
        return find_reservers(self._window)

    def reserved_ranges(self, reserver: str) -> list[OffsetRange]:
        """Return the offset ranges that are reserved for `reserver` (a `reserver_id`), in order."""
        ranges: list[OffsetRange] = []
        for first, last, _ in iter_reserved(self._window, reserver):
            append_fused(ranges, OffsetRange(first, last))
        return ranges

    def next_fetch_offset(self) -> int:
        """Return the lowest offset that a fetch could acquire.

        This is the first offset that is AVAILABLE or in a loaded hole (an offset without a state). If there is no such
        offset, it is the end offset.
        """
        offset = self._window.first_available
        if offset is None:
            offset = self.end_offset
        if self._hole_cursor is not None:
            for first, _ in self._window.holes(self._hole_cursor, self.end_offset - 1):
                return min(first, offset)
        return offset

    def has_available(self, config: SharePartitionConfig | None = None) -> bool:
        """Return whether `acquire` would acquire records, or move the start offset to the log start.

        Without `config`, the limit on record locks is not checked.
        """
        fetch_offset = self.next_fetch_offset()
        if fetch_offset < self.log_start_offset:
            return True
        if fetch_offset >= self.log_end_offset:
            return False
        if config is None or fetch_offset < self.end_offset:
            return True
        return self._window_size() < config.max_record_locks

    def terminal_batches_in(self, first: int, last: int) -> list[StateBatch]:
        """Return the finished records of first..last as state batches.

        Records below the start offset are returned as ARCHIVED with delivery count 0, because their state is not
        stored.
        """
        found: list[StateBatch] = []
        if first < self.start_offset:
            found.append(StateBatch(first, min(last, self.start_offset - 1), RecordState.ARCHIVED, 0))
        in_flight = self._window.state_batches(max(first, self.start_offset), last) if last >= self.start_offset else ()
        return [*found, *(batch for batch in in_flight if batch.delivery_state.is_terminal)]

    def state_batches(self) -> list[StateBatch]:
        """Return the state batches of all records in flight, finished ones included, for a snapshot record."""
        return self._window.state_batches()

    def state_batches_in(self, ranges: Iterable[OffsetRange]) -> list[StateBatch]:
        """Return the state batches of the records in flight within `ranges`, for an update record.

        Ranges may overlap, but no record is returned twice. Offsets below the start offset are skipped.
        """
        batches: list[StateBatch] = []
        done = self.start_offset - 1
        for first, last in sorted(ranges):
            if last > done:
                batches.extend(self._window.state_batches(max(first, done + 1), last))
                done = last
        return batches

    # --- handlers: they decide and change nothing ------------------------------------------------------------------

    def acquire(self, member_id: str, max_records: int, now_ms: int, config: SharePartitionConfig) -> Outcome:
        """Acquire at most `max_records` records for `member_id`, first AVAILABLE records in flight, then new records.

        Locks run until `now_ms` + the lock duration. The response has at most `MAX_ACQUIRED_RANGES` ranges, so that it
        fits into a message. It is empty if no record can be acquired. At the limit on record locks, no new records can
        be acquired. If the log starts above the next fetch offset, nothing is acquired yet: the outcome only moves the
        start offset to the log start, and the next fetch acquires records.
        """
        fetch_offset = self.next_fetch_offset()
        if fetch_offset < self.log_start_offset:
            return self.move_log_start(self.log_start_offset)
        end_offset = self.end_offset
        budget = fetch_budget(
            fetch_offset, end_offset, self._window_size(), self.log_end_offset, max_records, config.max_record_locks
        )
        if budget.records <= 0 or budget.last_offset < fetch_offset:
            return Outcome()
        deadline = now_ms + config.record_lock_duration_ms
        transitions: list[Transition] = []
        for first, last, count in select_portions(
            self._window, fetch_offset, end_offset, self._hole_cursor is not None, budget, config
        ):
            if len(transitions) >= MAX_ACQUIRED_RANGES:
                break
            append_fused(
                transitions,
                Transition(first, last, AVAILABLE, ACQUIRED, Cause.FETCH, member_id, count + 1, deadline),
            )
        return Outcome(tuple(transitions), acquired_ranges(transitions))

    def acknowledge(
        self,
        member_id: str,
        batches: Sequence[AcknowledgementBatch],
        now_ms: int,
        config: SharePartitionConfig,
        is_renew_ack: bool,
        grants: Sequence[AcquiredRange] = (),
    ) -> Outcome:
        """Finish, release or renew records that `member_id` holds: all of `batches` or none.

        `grants` are the acquired ranges that the request refers to, with their delivery counts. A record that has
        another delivery count, or is in none of these ranges, is treated as not held by the member. Without `grants`,
        the delivery count is not checked. Offsets below the start offset are skipped, whoever held them. RELEASE
        archives a record at the delivery count limit. RENEW sets the deadline to `now_ms` + the lock duration. The
        response contains the renewed ranges.

        Raises AcknowledgementRejected or another RequestError. The code is INVALID_REQUEST if batches fail the request
        check or reach past the records in flight. The code is INVALID_RECORD_STATE if `member_id` does not hold all of
        the records, if an offset is acknowledged twice, or if the group does not allow RENEW.
        """
        check_batches(batches, is_renew_ack)
        if not config.renew_enabled and has_renewals(batches):
            raise RenewalsDisabled
        granted = delivery_counts_by_offset(grants)
        transitions: list[Transition] = []
        ended = self.start_offset - 1  # the last offset whose acquisition this request has ended
        try:
            for batch in batches:
                if batch.last_offset >= self.start_offset:
                    self._check_in_flight(batch)
                    ended = acknowledge_batch(
                        self._window, self.start_offset, member_id, batch, ended, granted, now_ms, config, transitions
                    )
        except RequestError as error:
            raise AcknowledgementRejected(error, Outcome(tuple(_renewals(transitions)))) from error
        return Outcome(tuple(transitions), acquired_ranges(_renewals(transitions)))

    def release_member(self, member_id: str, config: SharePartitionConfig) -> Outcome:
        """Release all records of a member that left or whose session was closed. Delivery counts do not change."""
        over = tuple(lock for lock in self._lost_locks if lock[1] == member_id)
        transitions = release_ranges(self._window, self._window.held_ranges(member_id), Cause.MEMBER_LEFT, config)
        return Outcome(transitions, lost_locks_over=over)

    def release(self, ranges: Iterable[OffsetRange], config: SharePartitionConfig) -> Outcome:
        """Release the records of `ranges`, because their member has left. All of them must be ACQUIRED."""
        return Outcome(release_ranges(self._window, ranges, Cause.MEMBER_LEFT, config))

    def expire(self, now_ms: int, config: SharePartitionConfig) -> Outcome:
        """Release all records whose lock deadline is before `now_ms`. A lock with the deadline `now_ms` stays."""
        over = tuple(lock for lock in self._lost_locks if lock[0] < now_ms)
        transitions = release_ranges(self._window, self._window.due_ranges(now_ms), Cause.LOCK_TIMEOUT, config)
        return Outcome(transitions, lost_locks_over=over)

    def unacquire(self, member_id: str, ranges: Iterable[OffsetRange]) -> Outcome:
        """Make `ranges` AVAILABLE again and reduce their delivery counts by one: all of the ranges or none.

        Offsets below the start offset are skipped. Raises RequestError (INVALID_RECORD_STATE) unless `member_id` holds
        all other records of `ranges`, or if ranges overlap.
        """
        return Outcome(unacquire_ranges(self._window, self.start_offset, member_id, ranges))

    def undo_deliveries(self, member_id: str, acquired: Iterable[AcquiredRange]) -> Outcome:
        """Undo the deliveries `acquired`, which were granted to `member_id` but never sent to it.

        If the member still holds a record with the delivery count in `acquired`, the record becomes AVAILABLE and its
        count is reduced by one. The count is also reduced if the record is already AVAILABLE because the lock expired
        or the member left. Records that were delivered again since do not change. A durable state does not contain
        previous holders, so records that were AVAILABLE when the state was loaded do not change either.
        """
        return Outcome(undo_deliveries(self._window, self.start_offset, member_id, acquired))

    def reserve(self, reserver: str, records: int, config: SharePartitionConfig) -> Outcome:
        """Reserve offsets after the end of the log, so that `reserver` holds at least `records` reserved offsets.

        `reserver` is a `reserver_id`. If the limit on record locks leaves too few offsets, fewer are reserved. If the
        limit is reached, or while records can be acquired, none are reserved.
        """
        if self.has_available(config):
            return Outcome()
        end_offset, free = self.end_offset, None
        room = config.max_record_locks - self._window_size()
        if room > 0:
            free = OffsetRange(end_offset, end_offset + room - 1)
        return Outcome(reserve_ranges(self._window, reserver, records, self.log_end_offset, free))

    def assign(
        self, reserver: str, member_id: str, ranges: Iterable[OffsetRange], append_ms: int, lock_duration_ms: int
    ) -> Outcome:
        """Deliver records that are reserved for `reserver` to a member: all of `ranges` or none.

        The request was appended at `append_ms`. The locks run until `append_ms` + `lock_duration_ms`. Offsets below the
        start offset are skipped. Raises RequestError (INVALID_RECORD_STATE) if a record is not reserved for `reserver`,
        or if ranges overlap.
        """
        transitions = assign_ranges(
            self._window, self.start_offset, reserver, member_id, ranges, append_ms, lock_duration_ms
        )
        return Outcome(transitions)

    def reassign(self, released: Iterable[Transition], member_id: str, deadline_ms: int) -> Outcome:
        """Deliver records to `member_id` that another member has released. Their locks end at `deadline_ms`.

        `released` are the transitions of the release, which must have been replayed.
        """
        return Outcome(reassign_ranges(released, member_id, deadline_ms))

    def unreserve(self, reserver: str, ranges: Sequence[OffsetRange] | None = None) -> Outcome:
        """End the reservation of `ranges`. If `ranges` is None, all reservations of `reserver` (a `reserver_id`) end.

        Offsets that are not reserved for `reserver` are skipped.
        """
        return Outcome(unreserve_ranges(self._window, reserver, ranges))

    def undelivered_ranges(self, member_id: str, delivered: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Return the ranges that `member_id` holds and that `delivered` does not contain."""
        return subtract_ranges(self._window.held_ranges(member_id), delivered)

    def delivered_ranges(self, member_id: str, delivered: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Return the ranges that `member_id` holds and that `delivered` contains."""
        return subtract_ranges(self._window.held_ranges(member_id), self.undelivered_ranges(member_id, delivered))

    def move_log_start(self, offset: int) -> Outcome:
        """Set the log start to `offset`. Records in flight below `offset` are lost, even if they are acquired.

        Lost records leave the window. The outcome has transitions for the lost records that were delivered but not
        finished.
        """
        transitions = archive_below(self._window, offset, Cause.LOG_TRUNCATED) if offset > self.start_offset else ()
        return Outcome(transitions, log_start_offset=offset)

    def move_log_end(self, offset: int) -> Outcome:
        """Set the log end (exclusive)."""
        return Outcome(log_end_offset=offset)

    def reset(self, start_offset: int, cause: Cause = Cause.RESET) -> Outcome:
        """Start again at `start_offset` and discard all states and delivery counts.

        The cause is RESET (AlterShareGroupOffsets), or TOPIC_DELETED if the log was replaced or deleted.
        """
        return Outcome(archive_below(self._window, self.end_offset, cause), start_offset=start_offset)

    # --- the mutator -----------------------------------------------------------------------------------------------

    def replay(self, outcome: Outcome) -> None:
        """Apply the outcome of a handler, and move the start offset if the records at the head are finished.

        Raises IllegalTransitionError, and changes nothing, if a transition is illegal in the current state.
        """
        for transition in outcome.transitions:
            self._window.check_transition(transition, self.start_offset)
        for transition in outcome.transitions:
            self._apply(transition)
        if any(transition.cause not in _NO_MOVE for transition in outcome.transitions):
            self._advance()
        if any(transition.cause is Cause.UNRESERVE for transition in outcome.transitions):
            self._trim_undelivered()
        if outcome.lost_locks_over:
            self._end_lost_locks(outcome.lost_locks_over)
        if outcome.log_end_offset is not None:
            self.log_end_offset = outcome.log_end_offset
        if outcome.log_start_offset is not None:
            self.log_start_offset = outcome.log_start_offset
            if outcome.log_start_offset > self.start_offset:
                had_records = self._all_lost or len(self._window) > 0
                self._move_start(outcome.log_start_offset)
                self._all_lost = had_records and not len(self._window)
        if outcome.start_offset is not None:
            self._begin_again(outcome.start_offset)

    def _apply(self, transition: Transition) -> None:
        first, last, _, _, cause, member_id, count, deadline = transition
        old_end = self.end_offset
        new = list(self._window.holes(first, last)) if cause is Cause.FETCH or cause is Cause.RESERVE else ()
        for known_first, known_last, record in list(self._window.items(first, last)):
            if cause is Cause.LOG_TRUNCATED and record.member_id is not None and record.lock_deadline_ms is not None:
                self._add_lost_lock(record.lock_deadline_ms, record.member_id)
            self._window.assign(known_first, known_last, self._changed(record, transition))
        for new_first, new_last in new:
            batch = (new_first, new_last) if cause is Cause.FETCH else _NO_BATCH
            self._window.assign(new_first, new_last, InFlightRecord(ACQUIRED, count, member_id, deadline, *batch))
        if cause is Cause.FETCH and self._hole_cursor is not None:
            self._hole_cursor = last + 1 if last + 1 < old_end else None

    def _changed(self, record: InFlightRecord, transition: Transition) -> InFlightRecord:
        first, last, _, to_state, cause, member_id, count, deadline = transition
        if to_state.is_terminal:
            return self._in_batch(to_state, count, record.batch_first, record.batch_last)
        if cause is Cause.RESERVE:
            return InFlightRecord(ACQUIRED, 0, member_id, deadline)
        if to_state is not ACQUIRED:
            deadline = None
            member_id = member_id if cause in _MAY_BE_UNDONE else None
        if record.batch_last >= 0:
            first, last = record.batch_first, record.batch_last
        return InFlightRecord(to_state, count, member_id, deadline, first, last)

    def _in_batch(self, state: RecordState, count: int, batch_first: int, batch_last: int) -> InFlightRecord:
        """Return an InFlightRecord without a holder.

        A finished record keeps its fetch batch only while there are loaded holes (offsets without a state).
        `_advance` uses it only then.
        """
        if state.is_terminal and self._hole_cursor is None:
            return InFlightRecord(state, count)
        return InFlightRecord(state, count, None, None, batch_first, batch_last)

    def _loaded(self, first: int, batch: StateBatch) -> InFlightRecord:
        _, last, state, count, member_id, deadline = batch
        if state is not ACQUIRED:
            return self._in_batch(state, count, first, last)
        if member_id is not None and not count:
            return InFlightRecord(ACQUIRED, 0, member_id, NO_DEADLINE_MS)
        if member_id is None or deadline is None:
            return self._in_batch(AVAILABLE, count, first, last)
        return InFlightRecord(ACQUIRED, count, member_id, deadline, first, last)

    def _trim_undelivered(self) -> None:
        """Remove the records that ended reservations have left at the end of the window: AVAILABLE and never delivered.

        While there are loaded holes, nothing is removed.
        """
        if self._hole_cursor is None:
            self._window.trim_undelivered()

    def _advance(self) -> None:
        """Move the start offset over the finished records at the head of the window.

        While there are loaded holes (offsets without a state), the start offset does not pass the hole cursor: the
        first hole or, later, the offset after the last fetch. Records whose fetch batch extends beyond the cursor are
        not passed either. Both rules are Kafka's.
        """
        if self._window.first_offset != self.start_offset:
            return
        cursor = self._hole_cursor
        new_start = self.start_offset
        for first, last, record in self._window.items():
            if not record.state.is_terminal or (cursor is not None and record.batch_last >= cursor):
                if new_start > self.start_offset:
                    new_start = first if cursor is None else min(first, cursor)
                break
            new_start = last + 1
        if new_start > self.start_offset:
            self._move_start(new_start)
            self._all_lost = False

    def _move_start(self, offset: int) -> None:
        self.start_offset = offset
        self._window.trim_below(offset)
        if self._hole_cursor is not None:
            self._hole_cursor = max(self._hole_cursor, offset) if len(self._window) else None

    def _begin_again(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self._window.clear()
        self._hole_cursor = None
        self._lost_locks.clear()
        self._all_lost = False

    def _add_lost_lock(self, deadline_ms: int, member_id: str) -> None:
        lock = deadline_ms, member_id
        if lock not in self._lost_locks:
            insort(self._lost_locks, lock)

    def _end_lost_locks(self, over: tuple[tuple[int, str], ...]) -> None:
        self._lost_locks = [lock for lock in self._lost_locks if lock not in over]
        if not self._lost_locks:
            self._advance()
            self._all_lost = False

    # --- helpers of the handlers -----------------------------------------------------------------------------------

    def _window_size(self) -> int:
        """Return the number of offsets that count against the limit on record locks."""
        return self.end_offset - self.start_offset if len(self._window) else int(self._all_lost)

    def _check_in_flight(self, batch: AcknowledgementBatch) -> None:
        """Raise RequestError if the batch does not fit the records in flight, ignoring offsets below the start offset.

        - INVALID_RECORD_STATE: the batch begins before the first record in flight, or no record is in flight.
        - INVALID_REQUEST: the last offset of the batch is not in flight, or is reserved. If no record is in flight
          because all are lost (`_all_lost`), this code is used too.
        """
        first_known = self._window.first_offset
        if first_known is None:
            known_below = self._all_lost
        else:
            known_below = first_known <= max(batch.first_offset, self.start_offset)
        if not known_below:
            raise not_held_error(f"no record is in flight at offset {batch.first_offset}")
        last = self._window.record_at(batch.last_offset)
        if last is None or last.is_reserved:
            message = f"{batch.first_offset}..{batch.last_offset} reaches past the records in flight"
            raise RequestError(ErrorCode.INVALID_REQUEST, message)


def _renewals(transitions: Iterable[Transition]) -> list[Transition]:
    return [transition for transition in transitions if transition.cause is Cause.RENEW]


def _first_offset(batch: StateBatch) -> int:
    return batch.first_offset
