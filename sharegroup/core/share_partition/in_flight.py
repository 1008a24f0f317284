"""The in-flight window: what is known of the records from the start offset (SPSO) up to the end offset (SPEO).

Theory of operation
-------------------
A window is a row of pieces (`window_piece`), in offset order, none empty. Between two micro-batches each is a text,
small ones apart, and only the pieces that a batch touches are read and written: so a window of 200,000 ranges, as it
comes about where every other record was acknowledged, costs a batch what a few hundred ranges cost.

    piece           [ 0..99 ][ 100..180 ]     [ 200..999 ]         what is asked of all of them is in their summaries

    assign 90..210  [ 0..................210 ][ 211..999 ]         the first piece that it touches takes it

A dump brings the pieces that have changed to their size again: those of more than twice `PIECE_RANGES` are cut, small
neighbours become one. Ranges that are equal fuse inside a piece, not from one to the next; who reads a window does not
see the difference, as what it tells is fused once more.
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
from sharegroup.types import Cause, StateBatch, Transition

#: About as many ranges cost as much as the summaries of a window with 200,000 of them.
PIECE_RANGES = 256


class InFlight:
    """Offset ranges to `InFlightRecord`, with what would else need a scan of them: locks, and what is AVAILABLE."""

    __slots__ = ("_available_count", "_no_deadline_before_ms", "_pieces")

    def __init__(self, records: Iterable[tuple[int, int, InFlightRecord]] = ()) -> None:
        self._pieces: list[WindowPiece] = []
        self._available_count: int | None = 0  # None: not counted yet
        #: No lock ends before; for what is asked at each request. Locks that are gone may leave it too low.
        self._no_deadline_before_ms: float = math.inf
        for first, last, record in records:
            self.assign(first, last, record)

    def assign(self, first: int, last: int, record: InFlightRecord) -> None:
        """Set every record of first..last, whatever it was before."""
        pieces = self._pieces
        low, high = self._between(first, last)
        if low == high:  # nothing is known there: the piece below takes it, or else the one above
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

    def check(self, transition: Transition, start_offset: int) -> None:
        """Raise IllegalTransitionError unless all records are in `from_state` and the table has the rest.

        Only a fetch may name offsets of which nothing is known, from `start_offset` on: it takes them from the log.
        """
        first, last, from_state, to_state, cause = transition[:5]
        check_transition(from_state, to_state, cause)
        known = 0
        for known_first, known_last, record in self.items(first, last):
            known += known_last - known_first + 1
            if record.state is not from_state:
                found = f"{known_first}..{known_last} is {record.state.name}"
                raise IllegalTransitionError(f"{found}, not {from_state.name} (because of {cause.value})")
        if known <= last - first and (cause is not Cause.FETCH or first < start_offset):
            raise IllegalTransitionError(f"{first}..{last} is not in flight (because of {cause.value})")

    def trim_below(self, offset: int) -> None:
        """Forget every record below `offset`."""
        pieces = self._pieces
        whole = bisect_left(pieces, offset, key=_last_offset)
        if self._available_count is not None:
            self._available_count -= sum(piece.available_count for piece in pieces[:whole])
        del pieces[:whole]
        if pieces and pieces[0].first_offset < offset:
            self._counted(pieces[0], pieces[0].discard, pieces[0].first_offset, offset - 1)

    def clear(self) -> None:
        """Forget every record: the window begins anew."""
        self._pieces.clear()
        self._available_count, self._no_deadline_before_ms = 0, math.inf

    # -- the ranges ------------------------------------------------------------------------------------------------

    def items(self, first: int | None = None, last: int | None = None) -> Iterator[tuple[int, int, InFlightRecord]]:
        """The ranges in order, clipped to first..last where given; the window must not be changed meanwhile."""
        pieces = self._pieces
        if len(pieces) == 1:
            return pieces[0].items(first, last)
        low, high = self._between(first, last)
        return chain.from_iterable(piece.items(first, last) for piece in pieces[low:high])

    def holes(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The ranges of first..last of which nothing is known."""
        return holes_between(self.items(first, last), first, last)

    def record_at(self, offset: int) -> InFlightRecord | None:
        """The record at `offset`, or None when nothing is known of it."""
        return next((record for _, _, record in self.items(offset, offset)), None)

    def state_batches(self, first: int | None = None, last: int | None = None) -> list[StateBatch]:
        """The ranges as StateBatches of first..last, neighbours equal in everything that is durable fused."""
        batches: list[StateBatch] = []
        for range_first, range_last, (state, count, member_id, deadline_ms, *_) in self.items(first, last):
            holder = None if deadline_ms is None else member_id
            append_fused(batches, StateBatch(range_first, range_last, state, count, holder, deadline_ms))
        return batches

    @property
    def first_offset(self) -> int | None:
        """The lowest known offset, or None when the window is empty."""
        return self._pieces[0].first_offset if self._pieces else None

    @property
    def last_offset(self) -> int | None:
        """The highest known offset, or None when the window is empty."""
        return self._pieces[-1].last_offset if self._pieces else None

    @property
    def terminal_count(self) -> int:
        """The number of terminal records."""
        return sum(piece.terminal_count for piece in self._pieces)

    def __len__(self) -> int:
        """The number of ranges."""
        return sum(piece.ranges for piece in self._pieces)

    # -- the AVAILABLE ones ----------------------------------------------------------------------------------------

    @property
    def available_count(self) -> int:
        """The number of AVAILABLE records."""
        if self._available_count is None:
            self._available_count = sum(piece.available_count for piece in self._pieces)
        return self._available_count

    @property
    def first_available(self) -> int | None:
        """The lowest AVAILABLE offset, or None."""
        if not self.available_count:
            return None
        return next((piece.first_available for piece in self._pieces if piece.available_count), None)

    def available(self, first: int, last: int) -> Iterator[tuple[int, int, InFlightRecord]]:
        """The AVAILABLE ranges in order, clipped to first..last."""
        low, high = self._between(first, last)
        for piece in self._pieces[low:high]:
            if piece.available_count:
                yield from piece.available.items(first, last)

    def any_delivered(self, times: int, first: int, last: int) -> bool:
        """Whether an AVAILABLE record of first..last was delivered at least `times` times; `times` is 2 or more."""
        low, high = self._between(first, last)
        return any(
            piece.most_delivered >= times and piece.available.any_delivered(times, first, last)
            for piece in self._pieces[low:high]
        )

    # -- acquisition locks -----------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of a lock, or None when nothing is locked."""
        deadlines = (piece.next_deadline_ms for piece in self._pieces)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def is_due(self, now_ms: int) -> bool:
        """Whether a lock is over at `now_ms`."""
        if self._no_deadline_before_ms >= now_ms:
            return False
        deadline = self.next_deadline_ms()
        self._no_deadline_before_ms = math.inf if deadline is None else deadline
        return self._no_deadline_before_ms < now_ms

    def due(self, now_ms: int) -> list[tuple[int, int]]:
        """The ranges whose lock is over, in offset order. A lock is over strictly after its deadline."""
        due = [
            piece for piece in self._pieces if (deadline := piece.next_deadline_ms) is not None and deadline < now_ms
        ]
        return [locked for piece in due for locked in piece.locks.due(now_ms)]

    def held_by(self, member_id: str) -> list[tuple[int, int]]:
        """The ranges `member_id` holds, in offset order."""
        return [held for piece in self._pieces if member_id in piece.members for held in piece.locks.held_by(member_id)]

    def holds(self, member_id: str) -> bool:
        """Whether `member_id` holds anything."""
        return any(member_id in piece.members for piece in self._pieces)

    def members(self) -> list[str]:
        """The members that hold something, sorted."""
        return sorted({member for piece in self._pieces for member in piece.members})

    # -- between two micro-batches ---------------------------------------------------------------------------------

    def dump(self, base: int) -> tuple[list[list[Any]], list[str]]:
        """The summaries of the pieces, JSON-able, offsets relative to `base`; behind each its content, or None.

        The contents that are left out are the texts, in the order of their pieces.
        """
        self._pieces = list(_of_good_size(self._pieces))
        pieces: list[list[Any]] = []
        texts: list[str] = []
        for summary, content in map(WindowPiece.close, self._pieces):
            texts += [content] if isinstance(content, str) else []
            pieces.append([*summary.dump(base), None if isinstance(content, str) else content])
        return pieces, texts

    @classmethod
    def restore(cls, pieces: Iterable[Sequence[Any]], texts: Iterable[str], base: int) -> InFlight:
        """The window that `dump(base)` wrote."""
        window, texts = cls(), iter(texts)
        window._pieces = [
            WindowPiece.closed(PieceSummary.restore(summary, base), next(texts) if content is None else content)
            for *summary, content in pieces
        ]
        window._available_count, window._no_deadline_before_ms = None, -math.inf
        return window

    def _counted(self, piece: WindowPiece, change: Callable[..., None], *arguments: Any) -> None:
        """Change a piece, and with it the number of AVAILABLE records, if that is known."""
        if self._available_count is None:
            change(*arguments)
        else:
            before = piece.available_count
            change(*arguments)
            self._available_count += piece.available_count - before

    def _between(self, first: int | None, last: int | None) -> tuple[int, int]:
        """The pieces low..high-1 have offsets of first..last between their ends."""
        if len(self._pieces) == 1:
            piece = self._pieces[0]
            low = 0 if first is None or first <= piece.last_offset else 1
            return low, 1 if last is None or last >= piece.first_offset else low
        low = 0 if first is None else bisect_left(self._pieces, first, key=_last_offset)
        high = len(self._pieces) if last is None else bisect_right(self._pieces, last, key=_first_offset)
        return low, max(low, high)


def _of_good_size(pieces: Iterable[WindowPiece]) -> Iterator[WindowPiece]:
    """The same ranges; a piece that has not changed is touched only by a small neighbour that has."""
    before: WindowPiece | None = None
    for piece in pieces:
        if before is None:
            before = piece
        elif (before.is_changed or piece.is_changed) and before.ranges + piece.ranges <= PIECE_RANGES:
            before = before.taking_over(piece)
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
