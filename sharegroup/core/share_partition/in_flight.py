"""The in-flight window: the state of each record from the start offset (SPSO) to the end offset (SPEO).

Theory of operation
-------------------
A window is a list of pieces (`window_piece`) in offset order. No piece is empty. Between two micro-batches, each large
piece is stored as a compressed text. A micro-batch decodes and encodes only the pieces that it uses. If every second
record is acknowledged, a window may have 200,000 ranges. Even then, a micro-batch processes only a few hundred ranges.

    piece           [ 0..99 ][ 100..180 ]     [ 200..999 ]         queries over all pieces use their summaries

    assign 90..210  [ 0..................210 ][ 211..999 ]         the first piece that overlaps takes the new range

Changes make pieces larger or smaller. `dump` therefore splits changed pieces that have more than twice `PIECE_RANGES`
ranges, and merges small neighbours. Adjacent ranges with equal records are merged inside a piece, but not across
pieces. Outcomes and stored states do not depend on the pieces, because transitions and state batches are merged across
pieces.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from sharegroup.core.share_partition.in_flight_record import InFlightRecord
from sharegroup.core.share_partition.record_state import check_transition
from sharegroup.core.share_partition.window_piece import PieceSummary, WindowPiece
from sharegroup.errors import IllegalTransitionError
from sharegroup.protocol.range_map import append_fused, holes_between
from sharegroup.types import Cause, RecordState, StateBatch, Transition

#: The intended number of ranges in a piece. Processing one piece of this size costs about as much as processing the
#: summaries of all pieces of a window with 200,000 ranges.
PIECE_RANGES = 256
#: Only transitions with these causes may add offsets to the window.
_ADDING = (Cause.FETCH, Cause.RESERVE)
#: A transition from ACQUIRED with one of these causes is legal only for records that a gateway has reserved.
_OF_RESERVED = (Cause.RESERVE, Cause.ASSIGN, Cause.UNRESERVE)


class InFlight:
    """The records in flight: offset ranges with their `InFlightRecord`, and indexes of locks and AVAILABLE records."""

    __slots__ = ("_available_count", "_no_deadline_before_ms", "_pieces")

    def __init__(self, records: Iterable[tuple[int, int, InFlightRecord]] = ()) -> None:
        self._pieces: list[WindowPiece] = []
        self._available_count: int | None = 0  # None: not counted yet
        #: No lock expires before this time, so `is_due` usually needs no search. The value may be lower than the
        #: earliest deadline, because removing a lock does not raise it.
        self._no_deadline_before_ms: float = math.inf
        for first, last, record in records:
            self.assign(first, last, record)

    def assign(self, first: int, last: int, record: InFlightRecord) -> None:
        """Set the record of every offset of first..last."""
        pieces = self._pieces
        low, high = self._between(first, last)
        if low == high:  # no piece overlaps, so the piece below takes the range, or else the one above
            low = max(low - 1, 0)
            if not pieces:
                pieces.append(WindowPiece())
        if high - low > 1:
            rest = pieces[low + 1 : high]
            for piece in rest:
                self._counted(piece, piece.discard, first, last)
            pieces[low + 1 : high] = [piece for piece in rest if piece.ranges]
        self._counted(pieces[low], pieces[low].assign, first, last, record)
        if record.lock_deadline_ms is not None and record.lock_deadline_ms < self._no_deadline_before_ms:
            self._no_deadline_before_ms = record.lock_deadline_ms

    def check_transition(self, transition: Transition, start_offset: int) -> None:
        """Raise IllegalTransitionError unless the transition is legal for all of its records.

        - Every record must be in `from_state`, and `record_state.TRANSITIONS` must allow the transition.
        - Offsets that are not in flight yet are legal only from AVAILABLE with the cause FETCH or RESERVE, and only at
          or above `start_offset`.
        - From ACQUIRED, the causes RESERVE, ASSIGN and UNRESERVE require reserved records. All other causes require
          records that are not reserved.
        """
        first, last, from_state, to_state, cause = transition[:5]
        check_transition(from_state, to_state, cause)
        is_acquired = from_state is RecordState.ACQUIRED
        must_be_reserved = is_acquired and cause in _OF_RESERVED
        known = 0
        for known_first, known_last, record in self.items(first, last):
            known += known_last - known_first + 1
            if record.state is not from_state:
                found = f"offsets {known_first}..{known_last} are {record.state.name}"
                raise IllegalTransitionError(f"{cause.value} transition is illegal: {found}, not {from_state.name}")
            if is_acquired and (not record.delivery_count) is not must_be_reserved:
                found = f"offsets {known_first}..{known_last} are {'' if record.is_reserved else 'not '}reserved"
                raise IllegalTransitionError(f"{cause.value} transition is illegal: {found}")
        if known <= last - first and (is_acquired or cause not in _ADDING or first < start_offset):
            raise IllegalTransitionError(
                f"{cause.value} transition is illegal: offsets {first}..{last} are not all in flight"
            )

    def trim_below(self, offset: int) -> None:
        """Remove every record below `offset`."""
        pieces = self._pieces
        whole = bisect_left(pieces, offset, key=_last_offset)
        if self._available_count is not None:
            self._available_count -= sum(piece.available_count for piece in pieces[:whole])
        del pieces[:whole]
        if pieces and pieces[0].first_offset < offset:
            self._counted(pieces[0], pieces[0].discard, pieces[0].first_offset, offset - 1)

    def trim_undelivered(self) -> None:
        """Remove the records at the end of the window that are AVAILABLE and were never delivered.

        Call it after a reservation has ended, because its offsets may be beyond the end of the log.
        """
        while self._pieces:
            piece = self._pieces[-1]
            first, last, record = next(piece.reversed_items())
            if record.state is not RecordState.AVAILABLE or record.delivery_count:
                return
            self._counted(piece, piece.discard, first, last)
            if not piece.ranges:
                self._pieces.pop()

    def clear(self) -> None:
        """Remove every record."""
        self._pieces.clear()
        self._available_count, self._no_deadline_before_ms = 0, math.inf

    # -- the ranges ------------------------------------------------------------------------------------------------

    def items(self, first: int | None = None, last: int | None = None) -> Iterator[tuple[int, int, InFlightRecord]]:
        """Return the ranges within first..last, in offset order. None means no limit on that side.

        A range that extends beyond first..last is shortened. The window must not be changed during the iteration.
        """
        pieces = self._pieces
        if len(pieces) == 1:
            return pieces[0].items(first, last)
        low, high = self._between(first, last)
        return chain.from_iterable(piece.items(first, last) for piece in pieces[low:high])

    def holes(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Return the ranges of first..last that are not in the window."""
        return holes_between(self.items(first, last), first, last)

    def record_at(self, offset: int) -> InFlightRecord | None:
        """Return the record at `offset`, or None if the offset is not in the window."""
        return next((record for _, _, record in self.items(offset, offset)), None)

    def state_batches(self, first: int | None = None, last: int | None = None) -> list[StateBatch]:
        """Return first..last as state batches.

        Adjacent ranges become one batch if they differ only in values that are not durable: the fetch batch and the
        previous holder.
        """
        batches: list[StateBatch] = []
        for range_first, range_last, record in self.items(first, last):
            state, count, member_id, deadline_ms, *_ = record
            holder = None if deadline_ms is None else member_id
            deadline_ms = None if record.is_reserved else deadline_ms
            append_fused(batches, StateBatch(range_first, range_last, state, count, holder, deadline_ms))
        return batches

    @property
    def first_offset(self) -> int | None:
        """The lowest offset, or None if the window is empty."""
        return self._pieces[0].first_offset if self._pieces else None

    @property
    def last_offset(self) -> int | None:
        """The highest offset, or None if the window is empty."""
        return self._pieces[-1].last_offset if self._pieces else None

    @property
    def last_delivered(self) -> int | None:
        """The highest offset in flight that was delivered, or None if no record in flight was delivered."""
        ranges = (item for piece in reversed(self._pieces) for item in piece.reversed_items())
        return next((last for _, last, record in ranges if record.delivery_count > 0), None)

    @property
    def terminal_count(self) -> int:
        """The number of finished records (ACKNOWLEDGED or ARCHIVED)."""
        return sum(piece.terminal_count for piece in self._pieces)

    def __len__(self) -> int:
        """Return the number of ranges, not of records."""
        return sum(piece.ranges for piece in self._pieces)

    # -- AVAILABLE records -----------------------------------------------------------------------------------------

    @property
    def available_count(self) -> int:
        """The number of AVAILABLE records."""
        if self._available_count is None:
            self._available_count = sum(piece.available_count for piece in self._pieces)
        return self._available_count

    @property
    def first_available(self) -> int | None:
        """The lowest AVAILABLE offset, or None if there is none."""
        if not self.available_count:
            return None
        return next((piece.first_available for piece in self._pieces if piece.available_count), None)

    def available(self, first: int, last: int) -> Iterator[tuple[int, int, InFlightRecord]]:
        """Yield the AVAILABLE ranges within first..last, in offset order."""
        low, high = self._between(first, last)
        for piece in self._pieces[low:high]:
            if piece.available_count:
                yield from piece.available.items(first, last)

    def has_delivered(self, times: int, first: int, last: int) -> bool:
        """Return whether an AVAILABLE record in first..last was delivered at least `times` times.

        `times` must be 2 or more.
        """
        low, high = self._between(first, last)
        return any(
            piece.most_delivered >= times and piece.available.has_delivered(times, first, last)
            for piece in self._pieces[low:high]
        )

    # -- acquisition locks -----------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """Return the earliest lock deadline, or None if nothing is locked."""
        deadlines = (piece.next_deadline_ms for piece in self._pieces)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def is_due(self, now_ms: int) -> bool:
        """Return whether a lock has expired at `now_ms`."""
        if self._no_deadline_before_ms >= now_ms:
            return False
        deadline = self.next_deadline_ms()
        self._no_deadline_before_ms = math.inf if deadline is None else deadline
        return self._no_deadline_before_ms < now_ms

    def due_ranges(self, now_ms: int) -> list[tuple[int, int]]:
        """Return the ranges whose locks have expired, in offset order. A lock expires strictly after its deadline."""
        due = [
            piece for piece in self._pieces if (deadline := piece.next_deadline_ms) is not None and deadline < now_ms
        ]
        return [locked for piece in due for locked in piece.locks.due_ranges(now_ms)]

    def held_ranges(self, member_id: str) -> list[tuple[int, int]]:
        """Return the ranges that `member_id` holds, in offset order."""
        return [
            held for piece in self._pieces if member_id in piece.members for held in piece.locks.held_ranges(member_id)
        ]

    def has_member(self, member_id: str) -> bool:
        """Return whether `member_id` holds a record."""
        return any(member_id in piece.members for piece in self._pieces)

    def members(self) -> list[str]:
        """Return the holders of records, sorted: ids of members, and `reserver_id`s of gateways."""
        return sorted({member for piece in self._pieces for member in piece.members})

    # -- between two micro-batches ---------------------------------------------------------------------------------

    def dump(self, base: int) -> tuple[list[list[Any]], list[str]]:
        """Return the window for `restore`: a JSON-able list for each piece, and the texts of large pieces, in order.

        A piece has some successive ranges of the window. Its list has a summary and then the piece's content. The
        content is None if the piece is stored as a text. Offsets in the summary are relative to the offset `base`,
        which keeps the numbers short.
        """
        self._pieces = list(_resized(self._pieces))
        pieces: list[list[Any]] = []
        texts: list[str] = []
        for summary, content in map(WindowPiece.close, self._pieces):
            texts += [content] if isinstance(content, str) else []
            pieces.append([*summary.dump(base), None if isinstance(content, str) else content])
        return pieces, texts

    @classmethod
    def restore(cls, pieces: Iterable[Sequence[Any]], texts: Iterable[str], base: int) -> InFlight:
        """Return the window that `dump(base)` wrote."""
        window, texts = cls(), iter(texts)
        window._pieces = [
            WindowPiece.from_closed(PieceSummary.restore(summary, base), next(texts) if content is None else content)
            for *summary, content in pieces
        ]
        window._available_count, window._no_deadline_before_ms = None, -math.inf
        return window

    def _counted(self, piece: WindowPiece, change: Callable[..., None], *arguments: Any) -> None:
        """Call `change`, a method of `piece`. Update the number of AVAILABLE records, if it has been counted before."""
        if self._available_count is None:
            change(*arguments)
        else:
            before = piece.available_count
            change(*arguments)
            self._available_count += piece.available_count - before

    def _between(self, first: int | None, last: int | None) -> tuple[int, int]:
        """Return the indexes (low, high) of the pieces that overlap first..last. `high` is exclusive."""
        if len(self._pieces) == 1:
            piece = self._pieces[0]
            low = 0 if first is None or first <= piece.last_offset else 1
            return low, 1 if last is None or last >= piece.first_offset else low
        low = 0 if first is None else bisect_left(self._pieces, first, key=_last_offset)
        high = len(self._pieces) if last is None else bisect_right(self._pieces, last, key=_first_offset)
        return low, max(low, high)


def _resized(pieces: Iterable[WindowPiece]) -> Iterator[WindowPiece]:
    """Yield the same ranges in pieces that are neither too large nor too small.

    Two unchanged pieces are never merged, because the merged piece would have to be encoded again.
    """
    before: WindowPiece | None = None
    for piece in pieces:
        if before is None:
            before = piece
        elif (before.is_changed or piece.is_changed) and before.ranges + piece.ranges <= PIECE_RANGES:
            before = before.merge_with(piece)
        else:
            yield from _cut(before)
            before = piece
    if before is not None:
        yield from _cut(before)


def _cut(piece: WindowPiece) -> Iterable[WindowPiece]:
    return piece.split(PIECE_RANGES) if piece.is_changed and piece.ranges > 2 * PIECE_RANGES else (piece,)


def _first_offset(piece: WindowPiece) -> int:
    return piece.first_offset


def _last_offset(piece: WindowPiece) -> int:
    return piece.last_offset
