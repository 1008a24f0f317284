"""Determines which fetch requests a member sends. At most one request per share-partition is pending. No I/O.

`target` is the number of records that the member should hold for batches that have not begun. If it holds as many, it
requests none. A share-partition whose last response had records is *busy*. The number of *missing* records is `target`,
minus the held records, minus the records already requested from busy share-partitions. The member requests:

- from the busy share-partitions without a pending request: the missing records, in equal parts, if at least a quarter
  of `target` is missing;
- from each share-partition that is neither busy nor has a pending request: `target` divided by the number of assigned
  share-partitions. These requests do not reduce the number of missing records, so empty share-partitions do not reduce
  the requests to busy ones.

At worst the member holds twice the target.
"""

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sharegroup.errors import ErrorCode
from sharegroup.log_fields import LogFields
from sharegroup.member.ranges import AssignedPartition, HeldRange
from sharegroup.protocol.rows.share_partition_requests import FetchRequest
from sharegroup.protocol.rows.share_partition_responses import FetchResponse

logger = logging.getLogger(__name__)

#: A request without a response counts as lost this many ms after its `max_wait_ms`.
GRACE_MS = 15_000
RETRY_MS = 1_000
#: The member requests records from busy share-partitions only if at least target / 4 records are missing.
_LEAST_PART = 4


@dataclass
class _Demand:
    id: str = ""
    requested: int = 0
    lost_at_ms: int = 0
    due_ms: int = 0
    busy: bool = False


class FetchDemands:
    """Requests records of all assigned share-partitions while the member holds fewer records than `target`.

    `max_wait_ms` is how long the job may wait for records before it responds. `ids` yields new request ids.
    `incarnation` identifies this process of the member.
    """

    def __init__(
        self,
        group_id: str,
        member_id: str,
        target: int,
        max_wait_ms: int,
        ids: Iterator[str],
        incarnation: str | None = None,
    ) -> None:
        self._group_id, self._member_id, self._incarnation = group_id, member_id, incarnation
        self._target, self._max_wait_ms = target, max_wait_ms
        self._ids = ids
        self._demands: dict[AssignedPartition, _Demand] = {}
        self._unanswered: dict[str, AssignedPartition] = {}

    def due_requests(
        self, assignment: Collection[AssignedPartition], held: int, member_epoch: int, now_ms: int
    ) -> list[FetchRequest]:
        """Return the fetch requests to send now.

        `held` is the number of held records in batches that have not begun.
        """
        for share_partition in [known for known in self._demands if known not in assignment]:
            del self._demands[share_partition]  # a response on its way still counts, because its locks are valid
        if held >= self._target:
            return []
        free = [share_partition for share_partition in sorted(assignment) if self._is_free(share_partition, now_ms)]
        requests = []
        for share_partition, records in self._sizes(free, len(assignment), held).items():
            request = FetchRequest(
                next(self._ids), self._group_id, *share_partition, self._member_id, member_epoch,
                reply_to=self._member_id, incarnation_id=self._incarnation, max_records=records,
                max_wait_ms=self._max_wait_ms,
            )  # fmt: skip
            demand = self._demands[share_partition]
            demand.id, demand.requested = request.id, records
            demand.lost_at_ms = now_ms + self._max_wait_ms + GRACE_MS
            self._unanswered[request.id] = share_partition
            requests.append(request)
        self._evict_oldest()
        return requests

    def handle_response(self, response: FetchResponse, now_ms: int) -> tuple[HeldRange, ...]:
        """Apply a response and return its acquired ranges.

        Return no ranges if no request waits for this response, for example because it is a repeated response.
        """
        share_partition = self._unanswered.pop(response.id, None)
        if share_partition is None:
            return ()
        demand = self._demands.get(share_partition, _Demand())
        if demand.id == response.id:
            demand.id, demand.requested, demand.busy = "", 0, bool(response.acquired)
            demand.due_ms = now_ms if response.error_code == ErrorCode.NONE else now_ms + RETRY_MS
        if response.error_code != ErrorCode.NONE:
            logger.info(
                "%(topic)s-%(partition)d: the job rejected a fetch request: %(error)s",
                LogFields(topic=response.topic, partition=response.partition, error=response.error_message),
            )
        return ranges_from_response(response)

    def is_awaited(self, response: FetchResponse) -> bool:
        """Return whether this is the first response to a request of this process."""
        return response.id in self._unanswered

    def is_quarter_of_target(self, records: int) -> bool:
        """Return whether `records` is at least a quarter of the target.

        The member requests records from busy share-partitions (those whose last response had records) only if at least
        a quarter of the target is missing.
        """
        return records * _LEAST_PART >= self._target

    def discard_all(self) -> None:
        """Discard all requests because the member was fenced. Late responses to them are ignored."""
        self._demands.clear()
        self._unanswered.clear()

    def _is_free(self, share_partition: AssignedPartition, now_ms: int) -> bool:
        demand = self._demands.setdefault(share_partition, _Demand())
        if demand.id and now_ms >= demand.lost_at_ms:
            demand.id, demand.requested = "", 0
        return not demand.id and now_ms >= demand.due_ms

    def _sizes(self, free: Collection[AssignedPartition], assigned: int, held: int) -> dict[AssignedPartition, int]:
        busy = [share_partition for share_partition in free if self._demands[share_partition].busy]
        requested = sum(demand.requested for demand in self._demands.values() if demand.busy)
        room = self._target - held - requested
        sizes = {sp: -(-self._target // max(1, assigned)) for sp in free if not self._demands[sp].busy}
        if busy and self.is_quarter_of_target(room):
            sizes |= dict.fromkeys(busy, -(-room // len(busy)))
        return sizes

    def _evict_oldest(self) -> None:
        while len(self._unanswered) > 10_000:
            del self._unanswered[next(iter(self._unanswered))]


def ranges_from_response(response: FetchResponse) -> tuple[HeldRange, ...]:
    where = response.topic, response.topic_id, response.partition
    return tuple(
        HeldRange(*where, *acquired, response.lock_deadline_ms, response.read_committed)
        for acquired in response.acquired
    )
