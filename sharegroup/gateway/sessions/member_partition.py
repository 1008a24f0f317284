"""One member's records of one share-partition, at the node that the member fetches from.

What the job has acquired for the member waits in the read-ahead buffer; what the member was sent is in the holdings,
which tell what an acknowledgement is for, and whether it may be answered before the job has run it. Both are lost with
the gateway and not missed: the job knows who holds what, and a new session begins with giving it back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.job_client.job_channel import JobChannel, JobUnavailableError
from sharegroup.gateway.records.slicing import Slice
from sharegroup.gateway.sessions.holdings import Held, Holdings
from sharegroup.gateway.sessions.member_leases import Lease
from sharegroup.gateway.sessions.read_ahead import ReadAhead
from sharegroup.protocol.acknowledge_rules import check_batches
from sharegroup.protocol.rows.acknowledgement_rows import acknowledgement_rows
from sharegroup.protocol.rows.response_rows import Response
from sharegroup.protocol.rows.share_partition_requests import (
    MAX_RANGES_PER_ROW,
    AcknowledgeRequest,
    FetchRequest,
    ReleaseMemberRequest,
    UnacquireRequest,
    in_rows,
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

#: After a demand that was refused or could not be sent.
RETRY_MS = 1_000
#: How long a demand of a fetch that waits for one round stands at the job: so that a share-partition that is being
#: loaded, and records that were appended just before the fetch, are there when it is answered.
ROUND_MS = 500
#: A range whose lock ends so soon is not handed out; a short lock may be over by this part of it.
MIN_LOCK_LEFT_MS = 2_000
_PART_OF_LOCK = 4

AckResult = tuple[int, str | None]


class MemberPartition:
    """Asks the job for one member's records of one share-partition, hands them out, and acknowledges them. `arrived` is
    called when there is something new for a waiting fetch. `incarnation_id` is the process that speaks as a static
    member, None of a dynamic one.

    It may go from one session of the member to another, as the share-partition's leader moves.
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
    ) -> None:
        self.key, self.member_id, self._incarnation_id = key, member_id, incarnation_id
        #: When the session of a static member was opened (-1: no such session), and the demand that tells the job so.
        #: It tells it once: a job that comes back from the tables does not know what it has given the member since.
        self._opened_ms, self._opening_id = -1, ""
        self.read_ahead = read_ahead
        self.holdings = Holdings()
        self._job = job
        self.arrived = arrived
        self._demand_wait_ms = demand_wait_ms
        self._min_lock_left_ms = min(MIN_LOCK_LEFT_MS, lock_duration_ms // _PART_OF_LOCK)
        self._is_closed = self._is_released = False
        #: The last demand that was sent, and how many such were answered.
        self._last_id, self.rounds = "", 0

    @property
    def is_static(self) -> bool:
        """Whether the member's next process is to get what this one was sent (KIP-345)."""
        return self._incarnation_id is not None

    # -- records -----------------------------------------------------------------------------------------------------

    def ask(self, now_ms: int, wanted: int, is_round: bool = False) -> None:
        """Let one demand stand at the job: for `wanted` records, and what is to be read ahead.

        `is_round`: the job answers after one round, also without records; `rounds` is higher then.
        """
        if not self._is_closed:
            self._demand(self.read_ahead.demand(now_ms, wanted, is_round), now_ms, is_round)

    @property
    def is_in_use(self) -> bool:
        """Whether the member holds or awaits records."""
        return bool(self.read_ahead.is_waiting or self.read_ahead.buffered or self.holdings)

    def _demand(self, records: int | None, now_ms: int, is_round: bool = False) -> None:
        if records is None:
            return
        request = FetchRequest(
            *self._named(self._job.reply_to),
            max_records=records,
            max_wait_ms=ROUND_MS if is_round else self._demand_wait_ms,
            is_static=self.is_static,
            opened_ms=-1 if self._opening_id else self._opened_ms,
            linger_ms=self.read_ahead.linger_ms(now_ms),
        )
        self._opening_id = self._opening_id or request.id
        self._last_id = request.id
        self.read_ahead.sent(request.id, records, now_ms, request.linger_ms, is_round)
        self._job.subscribe(request.id, self._receive)
        self._job.append_soon(request, lambda: self._refused(request.id))

    def _refused(self, demand_id: str) -> None:
        self._job.unsubscribe(demand_id)
        if demand_id == self._opening_id:
            self._opening_id = ""
        self.read_ahead.refused(demand_id, self._job.now_ms(), RETRY_MS)

    def _receive(self, response: Response) -> None:
        """The job's answer to a demand, on the event loop."""
        assert isinstance(response, FetchResponse)
        if self._is_closed:
            if not self._is_released:  # else the row that closed this told the job what the member was sent: not this
                self.give_back(response.acquired)
            return
        if response.error_code:
            logger.warning("fetch of %s for member %s: %s", self.key, self.member_id, response.error_message)
            self._refused(response.id)
            self.arrived()
            return
        self.rounds += response.id == self._last_id  # one that another took the place of is answered with nothing
        now_ms = self._job.now_ms()
        if not self.read_ahead.arrived(
            response.id,
            response.acquired,
            response.lock_deadline_ms,
            now_ms,
            response.read_committed,
        ):
            self.give_back(response.acquired)
        elif response.acquired:
            self._demand(self.read_ahead.demand(now_ms), now_ms)  # the job's next micro-batch is about to begin
        self.arrived()

    def take(self, taken: Slice, now_ms: int) -> int | None:
        """What `slice_response` made of the buffer leaves it: records for the member, and gaps.

        Offsets that no record can come for the gateway acknowledges itself. Returns when the shortest of the locks ends
        of what the member is sent, None if that is nothing.
        """
        self._acknowledge_gaps(taken.gaps)
        sent = self.read_ahead.grants(taken.acquired)
        shortest_ms = self.read_ahead.take(taken.acquired, taken.gaps, now_ms)
        self.holdings.handed_out(sent, now_ms)
        return shortest_ms

    def awaits_rest(self, taken: Slice, now_ms: int) -> bool:
        """Whether the rest of the record batch in which the slice ends is to come, which is asked for if need be."""
        records = self.read_ahead.rest_of_batch(taken.acquired, taken.rest_of_batch, now_ms) if taken.acquired else None
        self._demand(records or None, now_ms)
        return records is not None

    def withdraw(self, taken: Slice, lock_deadline_ms: int, now_ms: int) -> bool:
        """Give back what was taken for a response that took so long to be made that its locks are nearly over.

        False, and nothing changes, when there is time enough.
        """
        if now_ms + self._min_lock_left_ms < lock_deadline_ms:
            return False
        logger.info("%s: member %s would have been answered too late: its records go back", self.key, self.member_id)
        self.holdings.discard(taken.acquired)
        if not self._is_closed:
            self.give_back(taken.acquired)
        return True

    def _acknowledge_gaps(self, gaps: Sequence[OffsetRange]) -> None:
        batches = [AcknowledgementBatch(*gap, (int(AcknowledgeType.GAP),)) for gap in gaps]
        grants = [AcquiredRange(*grant[:3]) for grant in self.read_ahead.grants(gaps)]
        if batches:
            for row in self._acknowledgements(batches, grants):
                self._job.append_soon(row)

    def give_back(self, ranges: Sequence[AcquiredRange]) -> None:
        """Ranges that never left the gateway are available again, the delivery attempt given back."""
        for acquired in in_rows(ranges, MAX_RANGES_PER_ROW):
            self._job.append_soon(UnacquireRequest(*self._named(), acquired=acquired))

    def expire(self, now_ms: int) -> None:
        """Give back what the member could not use any more: its lock is nearly over."""
        expired = self.read_ahead.expire(now_ms, self._min_lock_left_ms)
        if expired:
            records = sum(last - first + 1 for first, last, _ in expired)
            logger.info("%s: %d records for member %s were too late to be sent", self.key, records, self.member_id)
            self.give_back(expired)

    def give_back_uncommitted(self) -> None:
        """Give back what was granted before the group was altered to read committed records only."""
        self.give_back(self.read_ahead.take_uncommitted())

    def idle(self) -> None:
        """Give back what is ahead of the member: it does not come for it."""
        self.give_back(self.read_ahead.idle())

    def drain(self) -> None:
        """Give back what is ahead of the member, and what its demand is answered with still."""
        self.give_back(self.read_ahead.close())

    # -- the session -------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """A new session: first the job takes back what the member held, whoever gave it to it.

        Of a static member that is for its first fetch to say, so that nobody else gets it in between.
        """
        if self.is_static:
            self._opened_ms, self._opening_id = self._job.now_ms(), ""
            return
        self._job.append_soon(ReleaseMemberRequest(*self._named(), opened_ms=self._job.now_ms()))

    def close(self) -> None:
        """The session is over: what the member was sent is released, what is ahead of it never was delivered."""
        if self._is_closed:
            return
        self._is_closed = self._is_released = True
        ahead = self.read_ahead.close()
        delivered = [OffsetRange(first, last) for first, last, _ in self.holdings]
        if len(delivered) > MAX_RANGES_PER_ROW:
            self.give_back(ahead)  # so that wider ranges may say what was delivered
            delivered = _widened(delivered, MAX_RANGES_PER_ROW)
        requester = self._job.reply_to
        self._job.append_soon(ReleaseMemberRequest(*self._named(), delivered=tuple(delivered), requester=requester))

    def leave(self) -> None:
        """The member fetches this share-partition no more: what it was sent stays its own."""
        if self._is_closed:
            return
        self._is_closed = True
        self.give_back(self.read_ahead.close())

    def member_left(self) -> None:
        """The member has left its group: the job takes back all that it held or was granted until now.

        What is asked for from now on comes behind that.
        """
        self.holdings.clear()
        self.give_back(self.read_ahead.close())
        self.arrived()

    def topic_deleted(self) -> None:
        """There is nothing to give back to."""
        self._is_closed = self._is_released = True
        self.holdings.clear()
        self.read_ahead.close()
        self.arrived()

    def drop_before(self, log_start_offset: int) -> bool:
        """The log begins at this offset now: what is below is lost, and the job will see it by itself.

        Whether anything was.
        """
        lost = [r for r in self.read_ahead.ranges() if r.first_offset < log_start_offset]
        gone = [OffsetRange(first, min(last, log_start_offset - 1)) for first, last, _ in lost]
        self.read_ahead.take((), gone, self._job.now_ms())
        return bool(gone)

    # -- acknowledgements --------------------------------------------------------------------------------------------

    def acknowledge(
        self, batches: Sequence[AcknowledgementBatch], is_renew_ack: bool, lease: Lease, now_ms: int, margin_ms: int
    ) -> Awaitable[AckResult]:
        """(error code, message) of a partition's acknowledgements; their rows are on their way when this returns.

        What the member was not sent in its session, or whose lock is over, is refused, and no row is sent: as in Kafka
        with INVALID_REQUEST past all that it was sent, else with INVALID_RECORD_STATE. Answered as
        soon as the rows are durable when the job cannot but accept them: when enough is left of the locks and of the
        member's `lease`, and nothing else is open about these records. The job counts an acknowledgement from its
        append, which is known then. Else the job answers.
        """
        try:
            check_batches(batches, is_renew_ack)
        except RequestError as error:
            return settled(error.code, error.message)
        held = self.holdings.held(batches, now_ms)
        if held is None:
            if self.holdings.are_past(batches):
                problem = "the acknowledgement reaches past the records that were delivered"
                return settled(ErrorCode.INVALID_REQUEST, problem)
            return settled(ErrorCode.INVALID_RECORD_STATE, "the member does not hold these records (any more)")
        latest_ms = now_ms + margin_ms
        is_early = not is_renew_ack and held.is_settled and latest_ms < held.deadline_ms and lease.lasts(latest_ms)
        outcomes: list[Awaitable[AckResult]] = []
        reply_to = "" if is_early else self._job.reply_to
        for row in self._acknowledgements(batches, held.grants, held.deadline_ms, is_renew_ack, reply_to):
            if not is_early:
                outcomes.append(self._by_the_job(row, self._job.ask(row)))
            else:
                try:
                    outcomes.append(self._early(row, self._job.append(row), held, lease))
                except JobUnavailableError as error:
                    outcomes.append(settled(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)))
                    break  # what follows can be sent again as well
            self.holdings.asked(row.batches, row.id)
        if not is_renew_ack and self.holdings.are_asked:
            self.read_ahead.credit.finished(now_ms)
        return outcomes[0] if len(outcomes) == 1 else _first_error(outcomes)

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
                *self._named(reply_to),
                batches=part,
                acquired=granted,
                lock_deadline_ms=lock_deadline_ms,
                is_renew_ack=is_renew_ack,
                is_static=is_renew_ack and self.is_static,
            )
            for part, granted in acknowledgement_rows(batches, grants)
        ]

    async def _early(self, row: AcknowledgeRequest, appended: Awaitable[int], held: Held, lease: Lease) -> AckResult:
        try:
            append_ms = await appended
        except JobUnavailableError as error:
            return int(ErrorCode.COORDINATOR_NOT_AVAILABLE), str(error)
        if append_ms < 0:
            append_ms = self._job.now_ms()
        if append_ms > held.deadline_ms:
            return int(ErrorCode.INVALID_RECORD_STATE), "the lock ended before the acknowledgement was in the log"
        if not lease.lasts(append_ms):  # the job may have taken it, or not
            return int(ErrorCode.COORDINATOR_NOT_AVAILABLE), "the member may have left its group before that"
        self.holdings.accepted(row.batches, row.id)
        return int(ErrorCode.NONE), None

    async def _by_the_job(self, row: AcknowledgeRequest, answered: Awaitable[Response]) -> AckResult:
        try:
            answer = await answered
        except JobUnavailableError as error:
            return int(ErrorCode.COORDINATOR_NOT_AVAILABLE), str(error)
        assert isinstance(answer, AcknowledgeResponse)
        if not answer.error_code:
            renewed_ms = answer.lock_deadline_ms if answer.lock_deadline_ms >= 0 else None
            self.holdings.accepted(row.batches, row.id, renewed_ms)
        return answer.error_code, answer.error_message

    def _named(self, reply_to: str = "") -> tuple[str, str, str, str, int, str, int, str, str | None]:
        """What every row of the member begins with."""
        return self._job.new_id(), *self.key, self.member_id, -1, reply_to, self._incarnation_id


def settled(code: ErrorCode, message: str | None = None) -> asyncio.Future[AckResult]:
    """A result that nobody has to be asked for."""
    outcome: asyncio.Future[AckResult] = asyncio.get_running_loop().create_future()
    outcome.set_result((int(code), message))
    return outcome


async def _first_error(outcomes: Sequence[Awaitable[AckResult]]) -> AckResult:
    """All are waited for."""
    found = await asyncio.gather(*outcomes)
    return next((outcome for outcome in found if outcome[0]), found[0])


def _widened(ranges: Sequence[OffsetRange], most: int) -> list[OffsetRange]:
    """`most` ranges at most that cover these, which are ascending."""
    size = -(-len(ranges) // most)
    parts = (ranges[first : first + size] for first in range(0, len(ranges), size))
    return [OffsetRange(part[0].first_offset, part[-1].last_offset) for part in parts]
