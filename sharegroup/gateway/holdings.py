"""What the gateway has handed to a member in its session, of one share-partition. PURE: no clock, no I/O.

It decides whether an acknowledgement may be answered before the job has run it: only when the job cannot but accept it.
Costs follow the number of ranges and acknowledgement batches, never the number of records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from sharegroup.range_map import RangeMap
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange

_MIN_PRUNE_AT = 64


class HandedOut(NamedTuple):
    """How a range was handed out: until when it is locked (milliseconds since the epoch), and the how-manieth time."""

    lock_deadline_ms: int
    delivery_count: int


class Holdings:
    """See the module. What is handed out again takes its new deadline and count."""

    __slots__ = ("_prune_at", "_ranges")

    def __init__(self) -> None:
        self._ranges: RangeMap[HandedOut] = RangeMap()
        self._prune_at = _MIN_PRUNE_AT

    def __len__(self) -> int:
        """The number of ranges (not of records)."""
        return len(self._ranges)

    def __iter__(self) -> Iterator[tuple[int, int, HandedOut]]:
        """The ranges in order, as (first offset, last offset, how it was handed out)."""
        return iter(self._ranges)

    def handed_out(self, ranges: Iterable[AcquiredRange], lock_deadline_ms: int, now_ms: int) -> None:
        """These ranges are in the response that is being sent; ranges whose locks have run out are forgotten."""
        for first, last, delivery_count in ranges:
            self._ranges.assign(first, last, HandedOut(lock_deadline_ms, delivery_count))
        if len(self._ranges) >= self._prune_at:  # a member that never acknowledges must not fill the memory
            self._ranges = RangeMap(item for item in self._ranges if item[2].lock_deadline_ms > now_ms)
            self._prune_at = max(_MIN_PRUNE_AT, 2 * len(self._ranges))

    def covers(self, batches: Sequence[AcknowledgementBatch], now_ms: int, margin_ms: int) -> bool:
        """Whether all offsets of `batches` are held, each named once, with more than `margin_ms` of their locks left.

        The batches have passed `acknowledge_rules.check_batches`.
        """
        latest_ms = now_ms + margin_ms
        next_offset = -1
        for first, last, _ in batches:
            if first < next_offset:  # the rules let one batch begin where another ends; the job then refuses it
                return False
            next_offset = first
            for held_first, held_last, held in self._ranges.items(first, last):
                if held_first != next_offset or held.lock_deadline_ms <= latest_ms:
                    return False
                next_offset = held_last + 1
            if next_offset != last + 1:
                return False
        return True

    def shortest_deadline_ms(self, batches: Iterable[AcknowledgementBatch]) -> int:
        """When the first of the locks of `batches`, which are covered, ends."""
        held = (item for first, last, _ in batches for item in self._ranges.items(first, last))
        return min(handed_out.lock_deadline_ms for _, _, handed_out in held)

    def acknowledged(self, batches: Iterable[AcknowledgementBatch], renewed_deadline_ms: int | None = None) -> None:
        """The acknowledgement is accepted: its offsets are not held any more, except those that it renews.

        `renewed_deadline_ms` is when the renewed locks end; None leaves their deadlines as they are.
        """
        for batch in batches:
            if AcknowledgeType.RENEW not in batch.acknowledge_types:
                self._ranges.discard(batch.first_offset, batch.last_offset)
                continue
            for first, last, is_renewal in _runs(batch):
                if not is_renewal:
                    self._ranges.discard(first, last)
                elif renewed_deadline_ms is not None:
                    self._renew(first, last, renewed_deadline_ms)

    def _renew(self, first: int, last: int, lock_deadline_ms: int) -> None:
        for held_first, held_last, held in list(self._ranges.items(first, last)):
            self._ranges.assign(held_first, held_last, held._replace(lock_deadline_ms=lock_deadline_ms))


def _runs(batch: AcknowledgementBatch) -> Iterator[tuple[int, int, bool]]:
    """The batch as (first offset, last offset, whether it is renewed)."""
    first, last, types = batch
    if len(types) == 1:
        yield first, last, types[0] == AcknowledgeType.RENEW
        return
    for is_renewal, run in groupby(types, key=AcknowledgeType.RENEW.__eq__):
        length = sum(1 for _ in run)
        yield first, first + length - 1, bool(is_renewal)
        first += length
