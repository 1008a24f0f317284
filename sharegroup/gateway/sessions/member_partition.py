"""The records of one member in one share-partition, as this gateway stores them.

Records that the job has acquired for the member wait in the read-ahead buffer. Records that were sent to the member are
in the holdings. The gateway checks acknowledgements against the holdings. It can then answer some acknowledgements
before the job has processed them.

The buffer and the holdings are lost if the gateway fails. That does no harm, because the job stores which member holds
which records. A new session first returns these records to the job.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.job_client.job_channel import JobChannel, JobUnavailableError
from sharegroup.gateway.records.slicing import Slice
from sharegroup.gateway.sessions.holdings import AcknowledgedRanges, Holdings
from sharegroup.gateway.sessions.member_leases import Lease
from sharegroup.gateway.sessions.read_ahead import ReadAhead
from sharegroup.log_fields import LogFields
from sharegroup.monitoring.metrics.delivery_counts import DeliveryCounts
from sharegroup.protocol.acknowledge_rules import check_batches, release_batches, split_released
from sharegroup.protocol.range_map import RangeMap
from sharegroup.protocol.rows.acknowledgement_rows import split_acknowledgement
from sharegroup.protocol.rows.reservation_requests import AssignRequest, ReassignRequest
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_partition_requests import (
    MAX_RANGES_PER_ROW,
    AcknowledgeRequest,
    FetchRequest,
    ReleaseMemberRequest,
    UnacquireRequest,
    split_into_rows,
)
from sharegroup.protocol.rows.share_partition_responses import AcknowledgeResponse, FetchResponse
from sharegroup.types import (
    AcknowledgementBatch,
    AcknowledgeType,
    AcquiredRange,
    OffsetRange,
    SharePartitionKey,
)

logger = logging.getLogger(__name__)

#: Pause (in ms) after a demand, that is, a request for records, was rejected or could not be sent.
RETRY_MS = 1_000
#: How long (in ms) a demand waits at the job for records if the client's fetch has MinBytes 0. This is enough to load
#: the share-partition, and to include records that were appended just before the fetch.
ROUND_MS = 500
#: A range is not sent to the member if its lock ends within `MIN_LOCK_LEFT_MS`, or within 1/`_LOCK_DIVISOR` of the lock
#: duration if that is shorter.
MIN_LOCK_LEFT_MS = 2_000
_LOCK_DIVISOR = 4

AckResult = tuple[int, str | None]
ReleaseHandler = Callable[
    ["MemberPartition", Sequence[AcquiredRange], int], Sequence[tuple[ReassignRequest, asyncio.Task[int]]]
]
NOT_HELD: AckResult = (
    int(ErrorCode.INVALID_RECORD_STATE), "the member does not hold these records, or their locks have expired"
)  # fmt: skip


class MemberPartition:
    """One member in one share-partition. Requests records from the job, delivers them and acknowledges them.

    `arrived` is called when a waiting fetch should check the buffer again. `incarnation_id` identifies the client
    process of a static member; it is None for a dynamic member. If the leader of the partition changes, this object
    moves to another session of the member.
    """

    def __init__(
        self,
        key: SharePartitionKey,
        member_id: str,
        job: JobChannel,
        read_ahead: ReadAhead,
        arrived: Callable[[], None],
        demand_wait_ms: int,
        lock_duration_ms: int,
        incarnation_id: str | None = None,
        counts: DeliveryCounts | None = None,
    ) -> None:
        self._counts = counts or DeliveryCounts()
        self.key, self.member_id, self._incarnation_id = key, member_id, incarnation_id
        #: When a static member opened its session (-1: it has opened none), and the id of the demand that reports this
        #: time. Later demands do not report it. Otherwise a job that restarts from the tables might release records
        #: that the member has received since then.
        self._opened_ms, self._opening_id = -1, ""
        #: Whether the job has released what an earlier process of a static member held.
        self._has_opened = False
        self.read_ahead = read_ahead
        self.holdings = Holdings()
        self._job = job
        self.on_change = arrived
        self._demand_wait_ms = demand_wait_ms
        self.set_lock_duration(lock_duration_ms)
        self._is_closed = self._is_released = False
        #: The id of the last demand, and the number of the job's responses to demands. A response to a demand that was
        #: replaced by a later one is not counted.
        self._last_id, self.rounds = "", 0
        #: Called with this object and the time in ms when a fetch of the client waits for records. None if this gateway
        #: does not reserve records.
        self.on_wait: Callable[[MemberPartition, int], None] | None = None
        #: Called with this object, the records that the member releases, and the time (in ms) until which the release
        #: is certain to succeed. Returns the rows that pass records on to waiting members. Each row has a task whose
        #: result is the append time of the row.
        self.on_release: ReleaseHandler = lambda member, released, valid_until_ms: ()
        #: Called with the share-partition and the records that a micro-batch acquired for the member.
        self.on_acquired: Callable[[SharePartitionKey, Sequence[AcquiredRange]], None] = lambda key, acquired: None

    def set_lock_duration(self, lock_duration_ms: int) -> None:
        """Set the lock duration of the group, which may be altered."""
        self._min_lock_left_ms = min(MIN_LOCK_LEFT_MS, lock_duration_ms // _LOCK_DIVISOR)

    @property
    def is_static(self) -> bool:
        """Whether the member is static (KIP-345). When its client restarts, the member keeps its records."""
        return self._incarnation_id is not None

    # -- records -----------------------------------------------------------------------------------------------------

    def request_records(self, now_ms: int, wanted: int, is_round: bool = False) -> None:
        """Request records from the job if needed, for a fetch with MaxRecords `wanted` and for read-ahead.

        If `is_round` is True, the job waits only `ROUND_MS` for records, and then responds even without records. The
        response increments `rounds`. If the fetch waits and nothing is buffered, this call also calls `on_wait`.
        """
        if self._is_closed:
            return
        self._send_demand(self.read_ahead.records_to_request(now_ms, wanted, is_round), now_ms, is_round)
        if self.on_wait is not None and self.can_be_assigned:
            self.on_wait(self, now_ms)

    @property
    def can_be_assigned(self) -> bool:
        """Whether a fetch of the client is waiting and would receive records that are assigned to the member now."""
        return self.read_ahead.is_waiting and not self.read_ahead.buffered and not self._is_closed

    @property
    def client_member_id(self) -> str:
        """The member id that the client sends. For a static member, it identifies only the client process."""
        return self._incarnation_id or self.member_id

    def assignment(
        self, ranges: Sequence[OffsetRange], epoch: int, lock_duration_ms: int, valid_until_ms: int
    ) -> AssignRequest:
        """Return a row that assigns reserved records to the member.

        The row has no effect if it is appended after `valid_until_ms`. `epoch` is the epoch of the reservation.
        """
        return AssignRequest(
            *self._row_header(),
            ranges=tuple(ranges),
            requester=self._job.reply_to,
            reservation_epoch=epoch,
            lock_duration_ms=lock_duration_ms,
            valid_until_ms=valid_until_ms,
        )

    def reassignment(
        self, acquired: Sequence[AcquiredRange], receiver: MemberPartition, lock_duration_ms: int, valid_until_ms: int
    ) -> ReassignRequest:
        """Return a row that releases records of this member and delivers them to `receiver`.

        The row has no effect if it is appended after `valid_until_ms`.
        """
        return ReassignRequest(
            *self._row_header(),
            acquired=tuple(acquired),
            to_member_id=receiver.member_id,
            requester=self._job.reply_to,
            lock_duration_ms=lock_duration_ms,
            valid_until_ms=valid_until_ms,
            to_incarnation_id=receiver._incarnation_id,
        )

    def add_assigned(self, ranges: Sequence[AcquiredRange], lock_deadline_ms: int, read_committed: bool) -> None:
        """Buffer records whose assignment to the member is durable.

        If the session has ended, the records go back to the job instead.
        """
        if self._is_closed:
            if not self._is_released:  # else the release row has returned them
                self.unacquire(ranges)
            return
        self.read_ahead.add_assigned(ranges, lock_deadline_ms, read_committed)
        self.on_change()

    @property
    def is_in_use(self) -> bool:
        """Whether the member holds records or waits for records, or records are buffered for it."""
        return bool(self.read_ahead.is_waiting or self.read_ahead.buffered or self.holdings)

    def _send_demand(self, records: int | None, now_ms: int, is_round: bool = False) -> None:
        if records is None:
            return
        request = FetchRequest(
            *self._row_header(self._job.reply_to),
            max_records=records,
            max_wait_ms=ROUND_MS if is_round else self._demand_wait_ms,
            is_static=self.is_static,
            opened_ms=-1 if self._opening_id else self._opened_ms,
            linger_ms=self.read_ahead.linger_ms(now_ms),
            reserves=self.on_wait is not None,
        )
        self._opening_id = self._opening_id or request.id
        self._last_id = request.id
        self.read_ahead.record_demand(request.id, records, now_ms, request.linger_ms, is_round)
        self._job.subscribe(request.id, self._receive)
        self._job.append_soon(request, lambda: self._demand_failed(request.id))

    def _demand_failed(self, demand_id: str) -> None:
        self._job.unsubscribe(demand_id)
        if demand_id == self._opening_id:
            self._opening_id = ""
        self.read_ahead.record_failed_demand(demand_id, self._job.now_ms(), RETRY_MS)

    def _receive(self, response: Response) -> None:
        """Buffer the records of a response to a demand, or return them to the job if they can no longer be used.

        After an error, the next demand is delayed. Must be called on the event loop.
        """
        assert isinstance(response, FetchResponse)
        if self._is_closed:
            if not self._is_released:  # else the release row has returned these records already, as not delivered
                self.unacquire(response.acquired)
            return
        if response.error_code:
            logger.warning(
                "%(share_partition)s: the job rejected a request for records of member %(member)s; retrying: %(error)s",
                LogFields(share_partition=self.key, member=self.member_id, error=response.error_message),
            )
            self._demand_failed(response.id)
            self.on_change()
            return
        self.rounds += response.id == self._last_id  # a demand that was replaced gets an empty response
        self._has_opened = self._opened_ms >= 0
        now_ms = self._job.now_ms()
        if not self.read_ahead.add_response(
            response.id,
            response.acquired,
            response.lock_deadline_ms,
            now_ms,
            response.read_committed,
        ):
            self.unacquire(response.acquired)
        elif response.acquired:
            self._counts.count_acquired(sum(last - first + 1 for first, last, _ in response.acquired))
            self.on_acquired(self.key, response.acquired)
            self._send_demand(
                self.read_ahead.records_to_request(now_ms), now_ms
            )  # the job's next micro-batch is about to start
        self.on_change()

    def deliver(self, taken: Slice, now_ms: int) -> int | None:
        """Move records that are about to be sent to the member from the read-ahead buffer to the holdings.

        `taken` is a result of `slice_response` and contains these records. It also contains gaps, that is, offsets that
        have no record. This method acknowledges the gaps. Returns when the first lock of the moved records ends, in ms
        since the epoch; None if no records were moved.
        """
        self._acknowledge_gaps(taken.gaps)
        sent = self.read_ahead.locked_ranges(taken.acquired)
        shortest_ms = self.read_ahead.remove(taken.acquired, taken.gaps, now_ms)
        self.holdings.add(sent, now_ms)
        return shortest_ms

    def must_wait_for_rest(self, taken: Slice, now_ms: int) -> bool:
        """Return whether the fetch must wait until the member has acquired all of the last record batch in `taken`.

        Sends a demand for the missing records if needed.
        """
        records = (
            self.read_ahead.records_to_complete_batch(taken.acquired, taken.rest_of_batch, now_ms)
            if taken.acquired
            else None
        )
        self._send_demand(records or None, now_ms)
        return records is not None

    def withdraw_if_expiring(self, taken: Slice, lock_deadline_ms: int, now_ms: int) -> bool:
        """Withdraw the records in `taken` if their locks nearly expired while the response to the client was built.

        Withdrawn records are returned to the job. Returns True if the records were withdrawn. The caller must then
        remove them from the response. `lock_deadline_ms` is when the first of the locks ends.
        """
        if now_ms + self._min_lock_left_ms < lock_deadline_ms:
            return False
        logger.info(
            "%(share_partition)s: records were released instead of sent to member %(member)s, because their locks have "
            "nearly expired",
            LogFields(share_partition=self.key, member=self.member_id),
        )
        self.holdings.discard(taken.acquired)
        if not self._is_closed:
            self.unacquire(taken.acquired)
        return True

    def _acknowledge_gaps(self, gaps: Sequence[OffsetRange]) -> None:
        batches = [AcknowledgementBatch(*gap, (int(AcknowledgeType.GAP),)) for gap in gaps]
        grants = [AcquiredRange(*grant[:3]) for grant in self.read_ahead.locked_ranges(gaps)]
        if batches:
            for row in self._acknowledgements(batches, grants):
                self._job.append_soon(row)

    def unacquire(self, ranges: Sequence[AcquiredRange]) -> None:
        """Return ranges to the job. Their records become available again, and the delivery does not count."""
        for acquired in split_into_rows(ranges, MAX_RANGES_PER_ROW):
            self._job.append_soon(UnacquireRequest(*self._row_header(), acquired=acquired))

    def unacquire_expiring(self, now_ms: int) -> None:
        """Return to the job the buffered records whose locks have nearly expired. The member could not use them."""
        expired = self.read_ahead.remove_expiring(now_ms, self._min_lock_left_ms)
        if expired:
            records = sum(last - first + 1 for first, last, _ in expired)
            logger.info(
                "%(share_partition)s: locks of %(records)d records buffered for member %(member)s nearly expired; "
                "records released",
                LogFields(share_partition=self.key, records=records, member=self.member_id),
            )
            self.unacquire(expired)

    def unacquire_uncommitted(self) -> None:
        """Return to the job the buffered records that were acquired with read_uncommitted.

        Called when the group has been altered to read_committed.
        """
        self.unacquire(self.read_ahead.remove_uncommitted())

    def unacquire_read_ahead(self) -> None:
        """Return all buffered records to the job, because the member does not fetch them."""
        self.unacquire(self.read_ahead.remove_all())

    def forget(self) -> None:
        """Return all buffered records to the job and cancel the open demand, because the member has stopped fetching.

        The member keeps the records that it was sent, and may fetch again.
        """
        self._cancel_demand()
        self.unacquire_read_ahead()

    def drain(self) -> None:
        """Cancel the open demand, and return all buffered records to the job.

        If a response to an earlier demand arrives later, its records are returned as well.
        """
        self._cancel_demand()
        self.unacquire(self.read_ahead.close())

    def _cancel_demand(self) -> None:
        """Cancel the demand that waits at the job. Otherwise the job could acquire records that nobody fetches."""
        if self.read_ahead.mark_demand_lost():
            header = self._row_header(self._job.reply_to)
            self._job.append_soon(FetchRequest(*header, max_records=0, max_wait_ms=self._demand_wait_ms))

    # -- the session -------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Start a new session, so that the job releases all records that the member held through any gateway.

        For a dynamic member, a request to release them is sent to the job. For a static member, none is sent, because
        its first demand contains the time at which the session was opened. When the job reads this demand, it releases
        the records, and the static member acquires them before other members can.
        """
        if self.is_static:
            self._opened_ms, self._opening_id, self._has_opened = self._job.now_ms(), "", False
            return
        self._job.append_soon(ReleaseMemberRequest(*self._row_header(), opened_ms=self._job.now_ms()))

    def close(self) -> None:
        """End the session. Release the records that the member was sent, and return the buffered ones to the job."""
        if self._is_closed:
            return
        self._is_closed = self._is_released = True
        for demand_id in self.read_ahead.unanswered:  # their responses would be ignored
            self._job.unsubscribe(demand_id)
        ahead = self.read_ahead.close()
        delivered = [OffsetRange(first, last) for first, last, _ in self.holdings]
        if len(delivered) > MAX_RANGES_PER_ROW:
            self.unacquire(ahead)  # then wider ranges may describe what was delivered
            delivered = _widened(delivered, MAX_RANGES_PER_ROW)
        is_complete = not self.is_static or self._has_opened
        if not is_complete:  # the member may still hold records that an earlier process was sent
            self.unacquire(ahead)
        self._job.append_soon(
            ReleaseMemberRequest(
                *self._row_header(),
                delivered=tuple(delivered) if is_complete else None,
                requester=self._job.reply_to,
            )
        )

    def stop_fetching(self) -> None:
        """Stop fetching, and return the buffered records to the job. The member keeps the records that it was sent."""
        if self._is_closed:
            return
        self._is_closed = True
        self._cancel_demand()
        self.unacquire(self.read_ahead.close())

    def on_member_left(self) -> None:
        """Discard the state of a member that left its group, and return its buffered records to the job.

        The job itself releases the records that the member was sent.
        """
        self.holdings.clear()
        self.unacquire(self.read_ahead.close())
        self.on_change()

    def on_topic_deleted(self) -> None:
        """Discard all records without returning them to the job, because the topic is deleted."""
        self._is_closed = self._is_released = True
        self.holdings.clear()
        self.read_ahead.close()
        self.on_change()

    def discard_before(self, log_start_offset: int) -> bool:
        """Discard buffered offsets below the log start offset. Return whether any were discarded.

        No row is sent to the job, because the job itself detects the new log start offset.
        """
        lost = [r for r in self.read_ahead.ranges() if r.first_offset < log_start_offset]
        gone = [OffsetRange(first, min(last, log_start_offset - 1)) for first, last, _ in lost]
        self.read_ahead.remove((), gone, self._job.now_ms())
        return bool(gone)

    # -- acknowledgements --------------------------------------------------------------------------------------------

    def acknowledge(
        self, batches: Sequence[AcknowledgementBatch], is_renew_ack: bool, lease: Lease, now_ms: int, margin_ms: int
    ) -> Awaitable[AckResult]:
        """Acknowledge records. The result is (error code, message). The rows are sent before this method returns.

        Records that the member was not sent in its session, or whose locks have expired, are rejected without a row.
        The error is INVALID_REQUEST if an offset is above all that the member was sent, as in Kafka. Otherwise it is
        INVALID_RECORD_STATE.

        If the job is certain to accept the rows, the result is available as soon as they are durable. This requires
        that no other request about these records is open, and that the locks and the member's `lease` are valid for at
        least `margin_ms`. When a row is durable, the gateway checks the locks and the lease again, with the append time
        of the row. In all other cases, including renewals, the result is the job's response.
        """
        try:
            check_batches(batches, is_renew_ack)
        except RequestError as error:
            return completed_result(error.code, error.message)
        held = self.holdings.find_acknowledged(batches, now_ms)
        if held is None:
            if self.holdings.is_past_delivered(batches):
                problem = "the acknowledgement reaches past the records that were delivered"
                return completed_result(ErrorCode.INVALID_REQUEST, problem)
            return completed_result(*NOT_HELD)
        latest_ms = now_ms + margin_ms
        is_early = (
            not is_renew_ack and held.is_settled and latest_ms < held.deadline_ms and lease.is_valid_at(latest_ms)
        )
        outcomes: list[Awaitable[AckResult]] = []
        reply_to = "" if is_early else self._job.reply_to
        if is_early:
            batches, reassigned = self._reassign_released(batches, held, lease, now_ms)
            outcomes += reassigned
        rows = self._acknowledgements(batches, held.ranges, held.deadline_ms, is_renew_ack, reply_to) if batches else ()
        for row in rows:
            if not is_early:
                outcomes.append(self._answer_by_job(row, self._job.ask(row)))
            else:
                try:
                    outcomes.append(self._answer_early(row, self._job.append(row), held, lease))
                except JobUnavailableError as error:
                    outcomes.append(completed_result(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)))
                    break  # the client can send the rest again as well
            self.holdings.record_request(row.batches, row.id)
        if not is_renew_ack and self.holdings.are_all_acknowledged:
            self.read_ahead.credit.record_all_acknowledged(now_ms)
        return outcomes[0] if len(outcomes) == 1 else _first_error(outcomes)

    def _reassign_released(
        self, batches: Sequence[AcknowledgementBatch], held: AcknowledgedRanges, lease: Lease, now_ms: int
    ) -> tuple[Sequence[AcknowledgementBatch], list[Awaitable[AckResult]]]:
        """Pass on to waiting members the records that `batches` release.

        Returns the acknowledgements that must still be sent, and the results of the releases that were passed on.
        """
        released, others = split_released(batches)
        found = self.holdings.find_acknowledged(release_batches(released), now_ms) if released else None
        if found is None:
            return batches, []
        valid_until_ms = min(held.deadline_ms, lease.deadline_ms - 1)
        rest = RangeMap((first, last, None) for first, last in released)
        outcomes: list[Awaitable[AckResult]] = []
        for row, delivery in self.on_release(self, found.ranges, valid_until_ms):
            self.holdings.record_request(release_batches(row.acquired), row.id)
            outcomes.append(self._answer_reassigned(row, delivery, lease))
            for first, last, _ in row.acquired:
                rest.discard(first, last)
        return sorted([*others, *release_batches(rest)]), outcomes

    def give_back(self, batches: Sequence[AcknowledgementBatch], now_ms: int) -> AckResult:
        """Return to the job the records that the member was sent but did not use. The result is (error code, message).

        This method does not wait until the request rows for the job are appended. If a row is lost, its records become
        available when their locks expire.
        """
        if not batches:
            return int(ErrorCode.NONE), None
        try:
            check_batches(batches, is_renew_ack=False)
        except RequestError as error:
            return int(error.code), error.message
        held = self.holdings.find_acknowledged(batches, now_ms)
        if held is None:
            return NOT_HELD
        self.holdings.discard(held.ranges)
        self.unacquire(held.ranges)
        return int(ErrorCode.NONE), None

    def _acknowledgements(
        self,
        batches: Sequence[AcknowledgementBatch],
        grants: Sequence[AcquiredRange],
        lock_deadline_ms: int = -1,
        is_renew_ack: bool = False,
        reply_to: str = "",
    ) -> list[AcknowledgeRequest]:
        return [
            AcknowledgeRequest(
                *self._row_header(reply_to),
                batches=part,
                acquired=granted,
                lock_deadline_ms=lock_deadline_ms,
                is_renew_ack=is_renew_ack,
                is_static=is_renew_ack and self.is_static,
            )
            for part, granted in split_acknowledgement(batches, grants)
        ]

    async def _answer_early(
        self, row: AcknowledgeRequest, appended: Awaitable[int], held: AcknowledgedRanges, lease: Lease
    ) -> AckResult:
        try:
            append_ms = await appended
        except JobUnavailableError as error:
            return int(ErrorCode.COORDINATOR_NOT_AVAILABLE), str(error)
        if append_ms < 0:
            append_ms = self._job.now_ms()
        if append_ms > held.deadline_ms:
            return int(ErrorCode.INVALID_RECORD_STATE), "the lock ended before the acknowledgement was in the log"
        if not lease.is_valid_at(append_ms):  # the job may have accepted it or not
            return (
                int(ErrorCode.COORDINATOR_NOT_AVAILABLE),
                "the member may have left its group before the acknowledgement was in the log",
            )
        self.holdings.apply_accepted(row.batches, row.id)
        return int(ErrorCode.NONE), None

    async def _answer_reassigned(self, row: ReassignRequest, delivery: asyncio.Task[int], lease: Lease) -> AckResult:
        try:
            append_ms = await asyncio.shield(delivery)
        except JobUnavailableError as error:
            return int(ErrorCode.COORDINATOR_NOT_AVAILABLE), str(error)
        if append_ms > row.valid_until_ms:  # the row has no effect
            batches = release_batches(row.acquired)
            (release,) = self._acknowledgements(batches, row.acquired, reply_to=self._job.reply_to)
            self.holdings.record_request(batches, release.id)
            return await self._answer_by_job(release, self._job.ask(release))
        if append_ms < 0 or not lease.is_valid_at(append_ms):  # the job may have accepted it or not
            return int(ErrorCode.COORDINATOR_NOT_AVAILABLE), "the outcome of the release is unknown"
        self.holdings.apply_accepted(release_batches(row.acquired), row.id)
        return int(ErrorCode.NONE), None

    async def _answer_by_job(self, row: AcknowledgeRequest, answered: Awaitable[Response]) -> AckResult:
        try:
            answer = await answered
        except JobUnavailableError as error:
            return int(ErrorCode.COORDINATOR_NOT_AVAILABLE), str(error)
        assert isinstance(answer, AcknowledgeResponse)
        if not answer.error_code:
            renewed_ms = answer.lock_deadline_ms if answer.lock_deadline_ms >= 0 else None
            self.holdings.apply_accepted(row.batches, row.id, renewed_ms)
        return answer.error_code, answer.error_message

    def _row_header(self, reply_to: str = "") -> tuple[str, str, str, str, int, str, int, str, str | None]:
        """Return the values of the first fields of a row, which are the same fields in all rows about members."""
        return self._job.new_id(), *self.key, self.member_id, -1, reply_to, self._incarnation_id


def completed_result(code: int, message: str | None = None) -> asyncio.Future[AckResult]:
    """Return a completed future with the result (`code`, `message`)."""
    outcome: asyncio.Future[AckResult] = asyncio.get_running_loop().create_future()
    outcome.set_result((int(code), message))
    return outcome


async def _first_error(outcomes: Sequence[Awaitable[AckResult]]) -> AckResult:
    """Wait for all outcomes. Return the first error, or success if there is no error."""
    found = await asyncio.gather(*outcomes)
    return next((outcome for outcome in found if outcome[0]), found[0])


def _widened(ranges: Sequence[OffsetRange], most: int) -> list[OffsetRange]:
    """Merge ascending ranges until at most `most` are left, which limits the size of a row.

    The merged ranges may contain offsets that were in no range.
    """
    size = -(-len(ranges) // most)
    parts = (ranges[first : first + size] for first in range(0, len(ranges), size))
    return [OffsetRange(part[0].first_offset, part[-1].last_offset) for part in parts]
