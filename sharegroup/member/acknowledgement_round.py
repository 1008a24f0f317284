"""One batch's acknowledgements (or renewals) on their way: sent, sent again, split where refused, answered. No I/O.

The engine takes a row as a whole or refuses it as a whole. A row that is refused because something in it is not the
member's any more is sent again in parts, until only what really is lost stays refused. What is finished, whoever did
it, is passed over without a word (Kafka's rule): only what an answer lists was renewed.

Rows name the grants that they answer, with their delivery counts: what the member, or an earlier process of it, was
granted anew in the meantime is not touched by them. They name the end of the first of their locks too, where it is
known: who comes later is told so, even if others have finished the records since.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sharegroup.errors import ErrorCode, error_code
from sharegroup.member.ranges import AssignedPartition, HeldRange
from sharegroup.protocol.range_map import RangeMap
from sharegroup.protocol.rows.share_partition_requests import MAX_RANGES_PER_ROW, AcknowledgeRequest, in_rows
from sharegroup.protocol.rows.share_partition_responses import AcknowledgeResponse
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange

logger = logging.getLogger(__name__)

PARTS = 64
#: An unanswered row is sent again after so long, with the same id: the first answer is the one that counts.
RESPONSE_TIMEOUT_MS = 10_000
RETRY_MS = 1_000

#: The range is not the member's any more: it was or will be delivered again.
_LOST = frozenset({ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_SHARE_SESSION_EPOCH})


@dataclass
class _Row:
    share_partition: AssignedPartition
    batches: tuple[AcknowledgementBatch, ...]
    due_ms: int = 0


class AcknowledgementRound:
    """Sends one batch's acknowledgements until all are answered. `granted` is what it answers; without any, whatever
    the member holds now. What a static member renews (`is_static`) is to outlast its restart. `incarnation` is the
    process that acknowledges. `linger_ms` is how long its rows may wait at the job for others.

    `refused` fills with the batches that were not accepted; `failed_records` counts their records and those of topics
    that are deleted; `not_allowed` tells that the group allows no renewals,
    `lock_deadline_ms` is the earliest renewed lock's (0: none). `locks`, by offset, are the ends of the locks that the
    member holds, as far as it knows.
    """

    def __init__(
        self,
        group_id: str,
        member_id: str,
        batches: Mapping[AssignedPartition, Sequence[AcknowledgementBatch]],
        granted: Iterable[HeldRange],
        ids: Iterator[str],
        is_renewal: bool = False,
        is_static: bool = False,
        incarnation: str | None = None,
        linger_ms: int = 0,
    ) -> None:
        self.refused: list[tuple[AssignedPartition, AcknowledgementBatch]] = []
        self.failed_records = 0
        self.not_allowed = False
        self.lock_deadline_ms = 0
        self.locks: Mapping[AssignedPartition, RangeMap[int]] = {}
        self._group_id, self._member_id, self._is_renewal = group_id, member_id, is_renewal
        self._ids, self._is_static, self._incarnation, self._linger_ms = ids, is_static, incarnation, linger_ms
        self._counts: dict[AssignedPartition, RangeMap[int]] = {}
        for held in granted:
            self._counts.setdefault(held.share_partition, RangeMap()).assign(*held.grant)
        self._renewed: dict[AssignedPartition, list[AcquiredRange]] = {}
        self._open: dict[str, _Row] = {}
        for share_partition, listed in batches.items():
            self._add(share_partition, listed, MAX_RANGES_PER_ROW)

    @property
    def is_done(self) -> bool:
        """Whether everything is answered."""
        return not self._open

    def due(self, member_epoch: int, now_ms: int) -> list[AcknowledgeRequest]:
        """The rows to send now."""
        requests = []
        for request_id, row in self._open.items():
            if now_ms >= row.due_ms:
                row.due_ms = now_ms + RESPONSE_TIMEOUT_MS
                requests.append(self._request(request_id, row, member_epoch))
        return requests

    def take(self, response: AcknowledgeResponse, now_ms: int) -> bool:
        """Take an answer in; False if it is to none of this round's rows, or to one that has been answered."""
        row = self._open.pop(response.id, None)
        if row is None:
            return False
        code = response.error_code
        if code == ErrorCode.NONE:
            deadlines_ms = (self.lock_deadline_ms, response.lock_deadline_ms)
            self.lock_deadline_ms = min((ms for ms in deadlines_ms if ms > 0), default=0)
            self._renewed.setdefault(row.share_partition, []).extend(response.acquired)
        elif response.renewals_off:
            self.not_allowed = True
        elif code == ErrorCode.UNKNOWN_TOPIC_ID:
            self.failed_records += _records(row)
            logger.info("%s-%d is no more, nor what was acquired of it", response.topic, response.partition)
        elif code not in _LOST and error_code(code).retriable:
            row.due_ms = now_ms + RETRY_MS
            self._open[next(self._ids)] = row
        elif code in _LOST and len(row.batches) > 1:
            self._add(row.share_partition, row.batches, -(-len(row.batches) // PARTS))
        else:
            self.failed_records += _records(row)
            self.refused += [(row.share_partition, batch) for batch in row.batches]
            logger.info("refused for %s-%d: %s", response.topic, response.partition, response.error_message)
        return True

    def renewed(self, ranges: Iterable[HeldRange]) -> tuple[HeldRange, ...]:
        """What of the ranges was renewed, in order, with the delivery counts that the engine has."""
        ascending = {share_partition: sorted(found) for share_partition, found in self._renewed.items()}
        return tuple(
            part
            for held in sorted(ranges)
            for part in held.parts(ascending.get(held.share_partition, ()), self.lock_deadline_ms)
        )

    def _request(self, request_id: str, row: _Row, member_epoch: int) -> AcknowledgeRequest:
        return AcknowledgeRequest(
            request_id, self._group_id, *row.share_partition, self._member_id, member_epoch,
            reply_to=self._member_id, incarnation_id=self._incarnation, is_renew_ack=self._is_renewal,
            batches=row.batches, acquired=self._answered(row),
            lock_deadline_ms=self._lock_end_ms(row), is_static=self._is_static, linger_ms=self._linger_ms,
        )  # fmt: skip

    def _answered(self, row: _Row) -> tuple[AcquiredRange, ...]:
        """The grants that a row answers; they are no more than its batches, each of which lies in one grant."""
        counts, answered = self._counts.get(row.share_partition, RangeMap()), RangeMap[int]()
        for batch in row.batches:
            for first, last, count in counts.items(batch.first_offset, batch.last_offset):
                answered.assign(first, last, count)
        return tuple(AcquiredRange(*item) for item in answered)

    def _lock_end_ms(self, row: _Row) -> int:
        """When the first of the locks ends that a row counts on, -1 if that is not known."""
        locks = self.locks.get(row.share_partition, RangeMap())
        ends_ms = (end for batch in row.batches for _, _, end in locks.items(batch.first_offset, batch.last_offset))
        return min(ends_ms, default=-1)

    def _add(self, share_partition: AssignedPartition, batches: Sequence[AcknowledgementBatch], per_row: int) -> None:
        for listed in in_rows(batches, per_row):
            self._open[next(self._ids)] = _Row(share_partition, listed)


def _records(row: _Row) -> int:
    return sum(batch.last_offset - batch.first_offset + 1 for batch in row.batches)


def uniform(
    ranges: Iterable[HeldRange], acknowledge_type: AcknowledgeType
) -> dict[AssignedPartition, list[AcknowledgementBatch]]:
    """Batches that say the same of all the ranges, one for each."""
    batches: dict[AssignedPartition, list[AcknowledgementBatch]] = {}
    for held in sorted(ranges):
        batch = AcknowledgementBatch(held.first_offset, held.last_offset, (int(acknowledge_type),))
        batches.setdefault(held.share_partition, []).append(batch)
    return batches
