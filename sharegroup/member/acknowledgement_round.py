"""Determines which acknowledgements (or renewals) of one batch to send, until all have responses. No I/O.

The member sends them in request rows. The job applies or rejects a row as a whole. It rejects a row if the member no
longer holds a part of the row's ranges. A rejected row is sent again in smaller parts, until only the lost ranges
remain rejected. As in Kafka, acknowledging or renewing finished records has no effect and returns no error, even if
another member has finished the records. A response to a renewal therefore lists the ranges that were renewed.

A row names the acquired ranges that it acknowledges, with their delivery counts. It therefore has no effect on records
that this or an earlier process of the member has acquired again in the meantime. If lock deadlines are known, the row
also contains the earliest one. If the row was appended after this deadline and contains records below the start offset,
the job rejects the row, because other members may have finished these records.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sharegroup.errors import ErrorCode, error_code
from sharegroup.log_fields import LogFields
from sharegroup.member.ranges import AssignedPartition, HeldRange
from sharegroup.protocol.range_map import RangeMap
from sharegroup.protocol.rows.share_partition_requests import MAX_RANGES_PER_ROW, AcknowledgeRequest, split_into_rows
from sharegroup.protocol.rows.share_partition_responses import AcknowledgeResponse
from sharegroup.types import AcknowledgementBatch, AcknowledgeType, AcquiredRange

logger = logging.getLogger(__name__)

#: A row that was rejected because of lost ranges is divided into at most this many smaller rows.
PARTS = 64
#: A row without a response is sent again after this time, in ms, with the same id. Only the first response counts.
RESPONSE_TIMEOUT_MS = 10_000
RETRY_MS = 1_000

#: Errors which mean that the member no longer holds the range. The records were or will be delivered again.
_LOST = frozenset({ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_SHARE_SESSION_EPOCH})


@dataclass
class _Row:
    share_partition: AssignedPartition
    batches: tuple[AcknowledgementBatch, ...]
    due_ms: int = 0


class AcknowledgementRound:
    """The acknowledgements or renewals of one batch, and their responses.

    Args:
        batches: the acknowledgement batches to send, for each share-partition.
        granted: the acquired ranges that the batches apply to. If empty, the batches apply to the ranges that the
            member holds when the job reads the rows.
        ids: yields new request ids.
        is_renewal: whether these are renewals.
        is_static: whether the member is static, so that renewed locks must outlast its restart.
        incarnation: identifies the process of the member that acknowledges.
        linger_ms: how long the rows may wait at the job for other rows.

    Attributes:
        rejected: the acknowledgement batches that were rejected, as (share-partition, batch).
        failed_records: the number of records whose batch was rejected or whose topic was deleted.
        not_allowed: whether the group does not allow renewals.
        lock_deadline_ms: the earliest deadline of a renewed lock; 0 if no lock was renewed.
        locks: for each share-partition, the lock deadline of each offset. It contains only known deadlines. The caller
            sets it.
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
        self.rejected: list[tuple[AssignedPartition, AcknowledgementBatch]] = []
        self.failed_records = 0
        self.not_allowed = False
        self.lock_deadline_ms = 0
        self.locks: Mapping[AssignedPartition, RangeMap[int]] = {}
        self._group_id, self._member_id, self._is_renewal = group_id, member_id, is_renewal
        self._ids, self._is_static, self._incarnation, self._linger_ms = ids, is_static, incarnation, linger_ms
        self._counts: dict[AssignedPartition, RangeMap[int]] = {}
        for held in granted:
            self._counts.setdefault(held.share_partition, RangeMap()).assign(*held.acquired_range)
        self._renewed: dict[AssignedPartition, list[AcquiredRange]] = {}
        self._open: dict[str, _Row] = {}
        for share_partition, listed in batches.items():
            self._add(share_partition, listed, MAX_RANGES_PER_ROW)

    @property
    def is_done(self) -> bool:
        """Whether all rows have a response."""
        return not self._open

    def awaits(self, request_id: str) -> bool:
        """Return whether a row of this round with this id has no response yet."""
        return request_id in self._open

    def due_requests(self, member_epoch: int, now_ms: int) -> list[AcknowledgeRequest]:
        """Return the rows to send now: new rows, and rows that must be sent again.

        A returned row is returned again after `RESPONSE_TIMEOUT_MS` if it has no response by then.
        """
        requests = []
        for request_id, row in self._open.items():
            if now_ms >= row.due_ms:
                row.due_ms = now_ms + RESPONSE_TIMEOUT_MS
                requests.append(self._request(request_id, row, member_epoch))
        return requests

    def handle_response(self, response: AcknowledgeResponse, now_ms: int) -> bool:
        """Apply a response and return True. Return False if no row of this round waits for this response."""
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
            logger.info(
                "%(topic)s-%(partition)d: the topic was deleted, so its acquired records are discarded",
                LogFields(topic=response.topic, partition=response.partition),
            )
        elif code not in _LOST and error_code(code).retriable:
            row.due_ms = now_ms + RETRY_MS
            self._open[next(self._ids)] = row
        elif code in _LOST and len(row.batches) > 1:
            self._add(row.share_partition, row.batches, -(-len(row.batches) // PARTS))
        else:
            self.failed_records += _records(row)
            self.rejected += [(row.share_partition, batch) for batch in row.batches]
            logger.info(
                "%(topic)s-%(partition)d: the job rejected an acknowledgement: %(error)s",
                LogFields(topic=response.topic, partition=response.partition, error=response.error_message),
            )
        return True

    def renewed_parts(self, ranges: Iterable[HeldRange]) -> tuple[HeldRange, ...]:
        """Return the renewed parts of the ranges, sorted.

        Each part has the delivery count from the response that listed it. All parts have the earliest deadline of all
        renewed locks.
        """
        ascending = {share_partition: sorted(found) for share_partition, found in self._renewed.items()}
        return tuple(
            part
            for held in sorted(ranges)
            for part in held.intersect(ascending.get(held.share_partition, ()), self.lock_deadline_ms)
        )

    def _request(self, request_id: str, row: _Row, member_epoch: int) -> AcknowledgeRequest:
        return AcknowledgeRequest(
            request_id, self._group_id, *row.share_partition, self._member_id, member_epoch,
            reply_to=self._member_id, incarnation_id=self._incarnation, is_renew_ack=self._is_renewal,
            batches=row.batches, acquired=self._acquired_ranges(row),
            lock_deadline_ms=self._lock_end_ms(row), is_static=self._is_static, linger_ms=self._linger_ms,
        )  # fmt: skip

    def _acquired_ranges(self, row: _Row) -> tuple[AcquiredRange, ...]:
        """Return the acquired ranges that a row acknowledges. Each batch of a row lies within one acquired range."""
        counts, acquired = self._counts.get(row.share_partition, RangeMap()), RangeMap[int]()
        for batch in row.batches:
            for first, last, count in counts.items(batch.first_offset, batch.last_offset):
                acquired.assign(first, last, count)
        return tuple(AcquiredRange(*item) for item in acquired)

    def _lock_end_ms(self, row: _Row) -> int:
        """Return the earliest deadline of the row's locks; -1 if no deadline is known."""
        locks = self.locks.get(row.share_partition, RangeMap())
        ends_ms = (end for batch in row.batches for _, _, end in locks.items(batch.first_offset, batch.last_offset))
        return min(ends_ms, default=-1)

    def _add(self, share_partition: AssignedPartition, batches: Sequence[AcknowledgementBatch], per_row: int) -> None:
        for listed in split_into_rows(batches, per_row):
            self._open[next(self._ids)] = _Row(share_partition, listed)


def _records(row: _Row) -> int:
    return sum(batch.last_offset - batch.first_offset + 1 for batch in row.batches)


def uniform_batches(
    ranges: Iterable[HeldRange], acknowledge_type: AcknowledgeType
) -> dict[AssignedPartition, list[AcknowledgementBatch]]:
    """Return one acknowledgement batch for each range, all with the same acknowledge type."""
    batches: dict[AssignedPartition, list[AcknowledgementBatch]] = {}
    for held in sorted(ranges):
        batch = AcknowledgementBatch(held.first_offset, held.last_offset, (int(acknowledge_type),))
        batches.setdefault(held.share_partition, []).append(batch)
    return batches
