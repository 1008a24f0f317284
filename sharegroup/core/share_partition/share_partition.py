"""The share-partition machine: the state of one topic-partition as one share group sees it (KIP-932).

Theory of operation
-------------------
*One machine, three kinds of offsets.* Records below the start offset (SPSO) are finished and forgotten; those from the
start to the end offset (SPEO, exclusive as in the KIP) are in flight, each in one of four states (`record_state`);
those from the end offset on have not been looked at. Everything in between is kept as ranges (`in_flight`), so all
costs follow the number of ranges, never of records.

*Handlers decide, replay does.* Each handler (`acquire`, `acknowledge`, `release_member`, `unacquire`, `expire`,
`log_start_moved`, `log_end_moved`, `reset`) reads the state and returns an `Outcome`; it changes nothing, and a refused
request (RequestError) has changed nothing. `replay(outcome)` is the only mutator, and needs no clock and no
configuration: what those decided is in the transitions. So a restart is: load or restore, then replay.

*The start offset follows by itself.* `replay` moves it in the same step as the transition that finishes the head: over
terminal records, up to the first one that is not. A fetch and a RENEW never move it; a move of the log start puts it
exactly there, even among terminal records, where the next acknowledgement or expiry takes it on.

*Time is an argument.* Nothing expires by itself: the caller calls `expire(now_ms)` when `next_deadline_ms()` is past,
and decides whether that comes before or after an acknowledgement that was in time. A lock is over strictly after its
deadline.

*Loaded holes.* State written by others may leave out offsets between the start and the end offset: they were given out
under an earlier leader, who did not store that. They count as never delivered. A cursor (`_hole_cursor`) starts at the
first of them and follows each fetch; until a fetch reaches the end of what was loaded the start offset does not pass
it. State written by this project has no holes: acquired ranges are stored with member and deadline.

*Lost records.* What the log start passes leaves the window at once, acquired or not (Kafka keeps the acquired ones
until their locks are over, and lets them hold up the start offset; we do not). Two traces of Kafka's remain, because
clients see them. When the last lock of lost records is over, the start offset is looked at again, as after any other
expiry: so it leaves terminal records it was put among (`_lost_locks`). And while everything in flight is lost
(`_all_lost`), an acknowledgement beyond it is INVALID_REQUEST, as one past the end of the window, and one record counts
against the limit on record locks.

What has to be edited together: a new cause or state goes into `record_state.TRANSITIONS`, a new field of a record into
`InFlightRecord` and both directions of its dump.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from typing import Any

from sharegroup.core.share_partition.acknowledgement import (
    AcknowledgementRefused,
    RenewalsOff,
    acknowledge_batch,
    grants_by_offset,
)
from sharegroup.core.share_partition.acquisition import fetch_budget, select
from sharegroup.core.share_partition.in_flight import InFlight
from sharegroup.core.share_partition.in_flight_record import InFlightRecord
from sharegroup.core.share_partition.outcome import Outcome, acquired_ranges
from sharegroup.core.share_partition.record_state import ACQUIRED, AVAILABLE
from sharegroup.core.share_partition.release import (
    archived_below,
    not_held,
    outside,
    release,
    unacquired,
    undone_deliveries,
)
from sharegroup.core.share_partition.share_partition_config import SharePartitionConfig
from sharegroup.errors import ErrorCode, RequestError
from sharegroup.protocol.acknowledge_rules import asks_for_renewal, check_batches
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

#: Of one fetch; a range takes up to 50 bytes of a row, and Kafka takes a megabyte in a message by default.
MAX_ACQUIRED_RANGES = 10_000
#: After these a record knows whose it was: that member may still say that it never had it.
_MAY_BE_UNDONE = (Cause.LOCK_TIMEOUT, Cause.MEMBER_LEFT)
_NO_MOVE = frozenset({Cause.FETCH, Cause.RENEW, Cause.LOG_TRUNCATED, Cause.RESET, Cause.TOPIC_DELETED})


class SharePartition:
    """State of a share-partition. Read the module's theory of operation first.

    start_offset: the first offset not yet finished (SPSO).
    log_start_offset, log_end_offset: the partition's log, end exclusive; the last stable offset for read_committed.
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
        """The share-partition that the durable state describes (the leader's ReadShareGroupState).

        `batches` do not overlap. What they have below `start_offset` is ignored, offsets missing between them are
        holes. An ACQUIRED batch keeps its member and lock deadline; one without them, which nobody could acknowledge,
        is AVAILABLE. Terminal records at the head move the start offset. A log start above the start offset is noticed
        by the first `acquire`, or by `log_start_moved`.
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
        """Everything the machine is, as a JSON-able list; its format may change between releases.

        The last item is a list of texts of one line, pieces of the window. The item before tells of each piece, and
        ends with None for one that is among the texts.
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
        """The machine that `dump` wrote; it behaves the same from here on."""
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

    # --- what there is to know -------------------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        """One past the last record in flight (SPEO); the start offset when there is none."""
        last = self._window.last_offset
        return self.start_offset if last is None else last + 1

    @property
    def delivery_complete_count(self) -> int:
        """Terminal records from the start to the end offset (KIP-1226)."""
        return self._window.terminal_count

    @property
    def available_count(self) -> int:
        """Records in flight that wait to be delivered again."""
        return self._window.available_count

    def next_deadline_ms(self) -> int | None:
        """The earliest lock deadline, or None when there is no lock."""
        deadline = self._window.next_deadline_ms()
        if self._lost_locks and (deadline is None or self._lost_locks[0][0] < deadline):
            return self._lost_locks[0][0]
        return deadline

    def is_due(self, now_ms: int) -> bool:
        """Whether an `expire` would do something: a lock was over before `now_ms`."""
        return self._window.is_due(now_ms) or (bool(self._lost_locks) and self._lost_locks[0][0] < now_ms)

    def has_lock_before(self, now_ms: int, batch: AcknowledgementBatch) -> bool:
        """Whether a lock of these records was over before `now_ms`, and `expire` has not ended it yet."""
        first = max(batch.first_offset, self.start_offset)
        return any(
            record.lock_deadline_ms is not None and record.lock_deadline_ms < now_ms
            for _, _, record in self._window.items(first, batch.last_offset)
        )

    def holds(self, member_id: str) -> bool:
        """Whether `member_id` holds any record."""
        return self._window.holds(member_id)

    def members(self) -> list[str]:
        """The members that hold records, sorted."""
        return self._window.members()

    def next_fetch_offset(self) -> int:
        """The lowest offset that a fetch would read: AVAILABLE again, or in a loaded hole, or the end offset."""
        offset = self._window.first_available
        if offset is None:
            offset = self.end_offset
        if self._hole_cursor is not None:
            for first, _ in self._window.holes(self._hole_cursor, self.end_offset - 1):
                return min(first, offset)
        return offset

    def has_available(self, config: SharePartitionConfig | None = None) -> bool:
        """Whether an `acquire` would do something; without `config` the limit on record locks is left out."""
        fetch_offset = self.next_fetch_offset()
        if fetch_offset < self.log_start_offset:
            return True
        if fetch_offset >= self.log_end_offset:
            return False
        if config is None or fetch_offset < self.end_offset:
            return True
        return self._window_size() < config.max_record_locks

    def finished_in(self, first: int, last: int) -> list[StateBatch]:
        """What of first..last is finished; below the start offset, where nobody knows how, it is ARCHIVED."""
        found: list[StateBatch] = []
        if first < self.start_offset:
            found.append(StateBatch(first, min(last, self.start_offset - 1), RecordState.ARCHIVED, 0))
        in_flight = self._window.state_batches(max(first, self.start_offset), last) if last >= self.start_offset else ()
        return [*found, *(batch for batch in in_flight if batch.delivery_state.is_terminal)]

    def state_batches(self) -> list[StateBatch]:
        """All records in flight, terminal ones too, from the start offset up: the batches of a snapshot record."""
        return self._window.state_batches()

    def state_batches_in(self, ranges: Iterable[OffsetRange]) -> list[StateBatch]:
        """The records in flight that lie in any of `ranges`, each once: the batches of an update record.

        Ranges may overlap and may reach below the start offset, where there is nothing to tell any more.
        """
        batches: list[StateBatch] = []
        done = self.start_offset - 1
        for first, last in sorted(ranges):
            if last > done:
                batches.extend(self._window.state_batches(max(first, done + 1), last))
                done = last
        return batches

    # --- handlers: they decide, and change nothing -----------------------------------------------------------------

    def acquire(self, member_id: str, max_records: int, now_ms: int, config: SharePartitionConfig) -> Outcome:
        """Acquire at most `max_records` records for `member_id`, what was delivered before first.

        Locks run until `now_ms` + the lock duration. The response has at most `MAX_ACQUIRED_RANGES`, so that it fits
        into a message however scattered the records are. It is empty when nothing is there, or the limit on record
        locks is reached. A fetch that finds the log to start above what it would read moves the share-partition there
        and acquires nothing; the next one does.
        """
        fetch_offset = self.next_fetch_offset()
        if fetch_offset < self.log_start_offset:
            return self.log_start_moved(self.log_start_offset)
        end_offset = self.end_offset
        budget = fetch_budget(
            fetch_offset, end_offset, self._window_size(), self.log_end_offset, max_records, config.max_record_locks
        )
        if budget.records <= 0 or budget.last_offset < fetch_offset:
            return Outcome()
        deadline = now_ms + config.record_lock_duration_ms
        transitions: list[Transition] = []
        for first, last, count in select(
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
        """Finish, release or renew records that `member_id` holds; all of `batches` or nothing.

        `grants` are what it answers: ranges with the delivery counts that they were granted with. Only what is still in
        that delivery counts as held; without any, all that the member holds does. Offsets below the start offset are
        skipped, whoever had them. RELEASE at the delivery count limit archives.
        RENEW gives a new deadline of `now_ms` + the lock duration; the response is what got one. Raises RequestError:
        INVALID_REQUEST for batches that fail the request check or reach past the records in flight,
        INVALID_RECORD_STATE for a record that `member_id` does not hold (now), and for RENEW while it is switched off.
        """
        check_batches(batches, is_renew_ack)
        if not config.renew_enabled and asks_for_renewal(batches):
            raise RenewalsOff
        granted = grants_by_offset(grants)
        transitions: list[Transition] = []
        settled = self.start_offset - 1  # the last offset that this request has finished or released
        try:
            for batch in batches:
                if batch.last_offset >= self.start_offset:
                    self._check_in_flight(batch)
                    settled = acknowledge_batch(
                        self._window, self.start_offset, member_id, batch, settled, granted, now_ms, config, transitions
                    )
        except RequestError as error:
            raise AcknowledgementRefused(error, Outcome(tuple(_renewals(transitions)))) from error
        return Outcome(tuple(transitions), acquired_ranges(_renewals(transitions)))

    def release_member(self, member_id: str, config: SharePartitionConfig) -> Outcome:
        """Release all that `member_id` holds: it left, or its session was closed. The delivery counts stay."""
        over = tuple(lock for lock in self._lost_locks if lock[1] == member_id)
        transitions = release(self._window, self._window.held_by(member_id), Cause.MEMBER_LEFT, config)
        return Outcome(transitions, lost_locks_over=over)

    def expire(self, now_ms: int, config: SharePartitionConfig) -> Outcome:
        """Release all records whose lock was over before `now_ms`; at `now_ms` exactly a lock still holds."""
        over = tuple(lock for lock in self._lost_locks if lock[0] < now_ms)
        transitions = release(self._window, self._window.due(now_ms), Cause.LOCK_TIMEOUT, config)
        return Outcome(transitions, lost_locks_over=over)

    def unacquire(self, member_id: str, ranges: Iterable[OffsetRange]) -> Outcome:
        """Give `ranges` back undelivered: AVAILABLE, with the delivery attempt taken off the count; all or nothing.

        Offsets below the start offset are skipped. Raises RequestError (INVALID_RECORD_STATE) when `member_id` does not
        hold one of the others, or when ranges overlap.
        """
        return Outcome(unacquired(self._window, self.start_offset, member_id, ranges))

    def never_delivered(self, member_id: str, acquired: Iterable[AcquiredRange]) -> Outcome:
        """Take back the delivery attempts of `acquired`, which `member_id` was granted and never was sent.

        Records that it still holds with that delivery count become AVAILABLE; those that are AVAILABLE with that count
        already, as its locks on them have run out, stay so. A window that was loaded does not know whose those were,
        and leaves them alone. All others were delivered to somebody since and are left alone.
        """
        return Outcome(undone_deliveries(self._window, self.start_offset, member_id, acquired))

    def undelivered(self, member_id: str, delivered: Iterable[OffsetRange]) -> list[OffsetRange]:
        """What `member_id` holds outside of `delivered`."""
        return outside(self._window.held_by(member_id), delivered)

    def log_start_moved(self, offset: int) -> Outcome:
        """The log now starts at `offset`: what is in flight below it is lost, acquired or not, and leaves the window.

        Transitions are for records that were delivered at least once and not finished.
        """
        transitions = archived_below(self._window, offset, Cause.LOG_TRUNCATED) if offset > self.start_offset else ()
        return Outcome(transitions, log_start_offset=offset)

    def log_end_moved(self, offset: int) -> Outcome:
        """The log now ends at `offset` (exclusive)."""
        return Outcome(log_end_offset=offset)

    def reset(self, start_offset: int, cause: Cause = Cause.RESET) -> Outcome:
        """Begin again at `start_offset`: all states and counts are forgotten.

        The cause is RESET (AlterShareGroupOffsets), or TOPIC_DELETED: the log is another one, or none.
        """
        return Outcome(archived_below(self._window, self.end_offset, cause), start_offset=start_offset)

    # --- the mutator -----------------------------------------------------------------------------------------------

    def replay(self, outcome: Outcome) -> None:
        """Carry out what a handler decided, and move the start offset if that finished the head.

        Raises IllegalTransitionError, with nothing changed, when `outcome` does not fit the state.
        """
        for transition in outcome.transitions:
            self._window.check(transition, self.start_offset)
        for transition in outcome.transitions:
            self._apply(transition)
        if any(transition.cause not in _NO_MOVE for transition in outcome.transitions):
            self._advance()
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
        new = list(self._window.holes(first, last)) if cause is Cause.FETCH else ()
        for known_first, known_last, record in list(self._window.items(first, last)):
            if cause is Cause.LOG_TRUNCATED and record.member_id is not None and record.lock_deadline_ms is not None:
                self._add_lost_lock(record.lock_deadline_ms, record.member_id)
            self._window.assign(known_first, known_last, self._changed(record, transition))
        for new_first, new_last in new:
            record = InFlightRecord(ACQUIRED, count, member_id, deadline, new_first, new_last)
            self._window.assign(new_first, new_last, record)
        if cause is Cause.FETCH and self._hole_cursor is not None:
            self._hole_cursor = last + 1 if last + 1 < old_end else None

    def _changed(self, record: InFlightRecord, transition: Transition) -> InFlightRecord:
        _, _, _, to_state, cause, member_id, count, deadline = transition
        if to_state.is_terminal:
            return self._in_batch(to_state, count, record.batch_first, record.batch_last)
        if to_state is not ACQUIRED:
            deadline = None
            member_id = member_id if cause in _MAY_BE_UNDONE else None
        return InFlightRecord(to_state, count, member_id, deadline, record.batch_first, record.batch_last)

    def _in_batch(self, state: RecordState, count: int, batch_first: int, batch_last: int) -> InFlightRecord:
        """A record without owner. Terminal ones need their fetch batch only while there are loaded holes."""
        if state.is_terminal and self._hole_cursor is None:
            return InFlightRecord(state, count)
        return InFlightRecord(state, count, None, None, batch_first, batch_last)

    def _loaded(self, first: int, batch: StateBatch) -> InFlightRecord:
        _, last, state, count, member_id, deadline = batch
        if state is not ACQUIRED:
            return self._in_batch(state, count, first, last)
        if member_id is None or deadline is None:
            return self._in_batch(AVAILABLE, count, first, last)
        return InFlightRecord(ACQUIRED, count, member_id, deadline, first, last)

    def _advance(self) -> None:
        """Move the start offset over the terminal records at the head.

        Past loaded holes it goes batch by batch and not beyond the cursor, as in Kafka.
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
        """What counts against the limit on record locks: all offsets from the start to the end offset."""
        return self.end_offset - self.start_offset if len(self._window) else int(self._all_lost)

    def _check_in_flight(self, batch: AcknowledgementBatch) -> None:
        """Refuse a batch that begins in front of all records in flight, or ends behind or between them."""
        first_known = self._window.first_offset
        if first_known is None:
            known_below = self._all_lost
        else:
            known_below = first_known <= max(batch.first_offset, self.start_offset)
        if not known_below:
            raise not_held(f"nothing is in flight at {batch.first_offset}")
        if self._window.record_at(batch.last_offset) is None:
            message = f"{batch.first_offset}..{batch.last_offset} reaches past the records in flight"
            raise RequestError(ErrorCode.INVALID_REQUEST, message)


def _renewals(transitions: Iterable[Transition]) -> list[Transition]:
    return [transition for transition in transitions if transition.cause is Cause.RENEW]


def _first_offset(batch: StateBatch) -> int:
    return batch.first_offset
