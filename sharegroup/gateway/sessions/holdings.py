"""The *holdings* of a member: the records of one share-partition that it was sent in its session. No clock, no I/O.

For an acknowledgement, this module finds the acquired ranges and checks that their locks are valid. It also checks
whether the outcomes of earlier requests about these ranges are known. If an outcome is not known, the gateway must not
answer before the job has processed the acknowledgement. Costs depend on the number of ranges and batches, not on the
number of records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from sharegroup.gateway.sessions.read_ahead_buffer import LockedRange
from sharegroup.protocol.range_map import RangeMap, append_fused
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange

#: Ranges with expired locks are removed only if there are at least this many ranges.
_MIN_PRUNE_AT = 64


class Delivery(NamedTuple):
    """The delivery of a range to the member.

    Attributes:
        lock_deadline_ms: when its lock ends, in ms since the epoch.
        delivery_count: how often the range was delivered.
        open_request_id: the id of the newest request about the range, if the outcome of this request is not known yet;
            otherwise empty.
    """

    lock_deadline_ms: int
    delivery_count: int
    open_request_id: str = ""


class AcknowledgedRanges(NamedTuple):
    """The acquired ranges that an acknowledgement refers to.

    Attributes:
        ranges: the ranges; adjacent ones with the same delivery count are merged.
        deadline_ms: when the first of their locks ends.
        is_settled: whether the outcomes of all earlier requests about these ranges are known.
    """

    ranges: list[AcquiredRange]
    deadline_ms: int
    is_settled: bool


class Holdings:
    """The ranges that a member was sent, each with the end of its lock and its delivery count.

    If a range is sent again, the new values replace the old ones.
    """

    __slots__ = ("_highest", "_prune_at", "_ranges")

    def __init__(self) -> None:
        self._ranges: RangeMap[Delivery] = RangeMap()
        #: The highest offset that was sent; -1 if none was sent.
        self._highest = -1
        self._prune_at = _MIN_PRUNE_AT

    def __len__(self) -> int:
        """Return the number of ranges (not of records)."""
        return len(self._ranges)

    def __iter__(self) -> Iterator[tuple[int, int, Delivery]]:
        """Iterate over (first offset, last offset, delivery), in offset order."""
        return iter(self._ranges)

    def add(self, grants: Iterable[LockedRange], now_ms: int) -> None:
        """Add the ranges of a response that is being sent.

        If there are many ranges, this call also removes earlier ranges whose locks have expired.
        """
        for first, last, delivery_count, lock_deadline_ms in grants:
            self._ranges.assign(first, last, Delivery(lock_deadline_ms, delivery_count))
            self._highest = max(self._highest, last)
        if len(self._ranges) >= self._prune_at:  # a member that never acknowledges must not fill the memory
            self._ranges = RangeMap(item for item in self._ranges if item[2].lock_deadline_ms > now_ms)
            self._prune_at = max(_MIN_PRUNE_AT, 2 * len(self._ranges))

    def find_acknowledged(self, batches: Sequence[AcknowledgementBatch], now_ms: int) -> AcknowledgedRanges | None:
        """Return the ranges that `batches` acknowledge.

        Returns None if the batches contain an offset that the member does not hold or whose lock has expired.

        The batches must have passed `check_batches`, which allows a batch to begin at the last offset of the previous
        one. Such an offset is counted once, and `is_settled` of the result is False, because the job may reject it.
        """
        grants: list[AcquiredRange] = []
        deadlines: list[int] = []
        is_settled, next_offset = True, -1
        for first, last, _ in batches:
            is_settled = is_settled and first >= next_offset
            next_offset = max(first, next_offset)
            for held_first, held_last, held in self._ranges.items(next_offset, last) if next_offset <= last else ():
                if held_first != next_offset or held.lock_deadline_ms < now_ms:
                    return None
                append_fused(grants, AcquiredRange(held_first, held_last, held.delivery_count))
                deadlines.append(held.lock_deadline_ms)
                is_settled = is_settled and not held.open_request_id
                next_offset = held_last + 1
            if next_offset <= last:
                return None
        return AcknowledgedRanges(grants, min(deadlines), is_settled)

    def is_past_delivered(self, batches: Iterable[AcknowledgementBatch]) -> bool:
        """Return whether `batches` contain an offset above the highest one that the member was sent.

        Returns False if the member holds no records.
        """
        return bool(self._ranges) and any(batch.last_offset > self._highest for batch in batches)

    def record_request(self, batches: Iterable[AcknowledgementBatch], request_id: str) -> None:
        """Record that a request about `batches` is open.

        Until its outcome is known, the gateway answers other requests about these offsets only after the job has
        processed them.
        """
        for first, last, _ in batches:
            for held_first, held_last, held in list(self._ranges.items(first, last)):
                self._ranges.assign(held_first, held_last, held._replace(open_request_id=request_id))

    @property
    def are_all_acknowledged(self) -> bool:
        """Whether the member has acknowledged all records that it was sent, even if outcomes are not known yet."""
        return all(held.open_request_id for _, _, held in self._ranges)

    def apply_accepted(
        self, batches: Iterable[AcknowledgementBatch], request_id: str, renewed_deadline_ms: int | None = None
    ) -> None:
        """Remove the offsets of a request that the job accepts. Offsets that the request renews are kept.

        Ranges that were sent or acknowledged again since the request are not changed. `renewed_deadline_ms` is the new
        end of renewed locks; with None, their deadlines stay as they are.
        """
        for batch in batches:
            for first, last, is_renewal in _runs(batch):
                for held_first, held_last, held in list(self._ranges.items(first, last)):
                    if held.open_request_id != request_id:
                        continue
                    if not is_renewal:
                        self._ranges.discard(held_first, held_last)
                        continue
                    deadline_ms = held.lock_deadline_ms if renewed_deadline_ms is None else renewed_deadline_ms
                    self._ranges.assign(held_first, held_last, Delivery(deadline_ms, held.delivery_count))

    def discard(self, ranges: Iterable[AcquiredRange]) -> None:
        """Remove ranges that are not sent after all, or that the member has returned unused."""
        for first, last, _ in ranges:
            self._ranges.discard(first, last)

    def clear(self) -> None:
        self._ranges.clear()
        self._highest = -1


def _runs(batch: AcknowledgementBatch) -> Iterator[tuple[int, int, bool]]:
    """Split a batch into runs with and without renewal. Yield (first offset, last offset, whether it is renewed)."""
    first, last, types = batch
    if len(types) == 1:
        yield first, last, types[0] == AcknowledgeType.RENEW
        return
    for is_renewal, run in groupby(types, key=AcknowledgeType.RENEW.__eq__):
        length = sum(1 for _ in run)
        yield first, first + length - 1, bool(is_renewal)
        first += length
