"""One member's records of one share-partition, at the node that the member fetches from.

What the job has acquired for the member waits in the read-ahead buffer; what the member was sent is in the holdings,
which tell whether an acknowledgement may be answered before the job has run it. Both are lost with the gateway and not
missed: the job knows who holds what, and a new session begins with giving it back.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.acknowledge_rules import check_batches
from sharegroup.gateway.engine_channel import EngineChannel, EngineUnavailableError
from sharegroup.gateway.holdings import Holdings
from sharegroup.gateway.read_ahead import ReadAhead
from sharegroup.protocol.request_rows import (
    ACKNOWLEDGE,
    FETCH,
    MAX_RANGES_PER_ROW,
    RELEASE_MEMBER,
    UNACQUIRE,
    SharePartitionRequest,
    in_rows,
)
from sharegroup.protocol.response_rows import Response, SharePartitionResponse
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
#: A range whose lock ends so soon is not handed out; a short lock may be over by this part of it.
MIN_LOCK_LEFT_MS = 2_000
_PART_OF_LOCK = 4

Outcome = tuple[int, str | None]


class MemberPartition:
    """See the module. `arrived` is called when there is something new for a waiting fetch."""

    def __init__(
        self,
        key: SharePartitionKey,
        member_id: str,
        engine: EngineChannel,
        read_ahead: ReadAhead,
        arrived: Callable[[], None],
        demand_wait_ms: int,
        lock_duration_ms: int,
    ) -> None:
        self.key, self.member_id = key, member_id
        self.read_ahead = read_ahead
        self.holdings = Holdings()
        self._engine = engine
        self._arrived = arrived
        self._demand_wait_ms = demand_wait_ms
        self._min_lock_left_ms = min(MIN_LOCK_LEFT_MS, lock_duration_ms // _PART_OF_LOCK)
        self._is_closed = self._is_released = False

    # -- records -----------------------------------------------------------------------------------------------------

    def ask(self, now_ms: int, wanted: int) -> None:
        """Let one demand stand at the job: for `wanted` records, and what is to be read ahead."""
        records = None if self._is_closed else self.read_ahead.demand(now_ms, wanted)
        if records is None:
            return
        request = self._request(FETCH, self._engine.new_id(), self._engine.reply_to)
        self.read_ahead.sent(request.id, records, now_ms)
        self._engine.subscribe(request.id, self._receive)
        request = request._replace(max_records=records, max_wait_ms=self._demand_wait_ms)
        self._engine.append_soon(request, lambda: self._refused(request.id))

    def _refused(self, demand_id: str) -> None:
        self._engine.unsubscribe(demand_id)
        self.read_ahead.refused(demand_id, self._engine.now_ms(), RETRY_MS)

    def _receive(self, response: Response) -> None:
        """The job's answer to a demand, on the event loop."""
        assert isinstance(response, SharePartitionResponse)
        if self._is_closed:
            if not self._is_released:  # else the row that closed this told the job what the member was sent: not this
                self.give_back(response.acquired)
            return
        if response.error_code:
            logger.warning("fetch of %s for member %s: %s", self.key, self.member_id, response.error_message)
            self._refused(response.id)
        else:
            now_ms = self._engine.now_ms()
            self.read_ahead.arrived(response.id, response.acquired, response.lock_deadline_ms, now_ms)
        self._arrived()

    def handed_out(self, acquired: Sequence[AcquiredRange], lock_deadline_ms: int, now_ms: int) -> None:
        """The ranges are in a response to the member."""
        self.holdings.handed_out(acquired, lock_deadline_ms, now_ms)

    def acknowledge_gaps(self, gaps: Sequence[OffsetRange]) -> None:
        """Offsets that no record can come for: the gateway acknowledges them itself."""
        if gaps:
            batches = tuple(AcknowledgementBatch(*gap, (int(AcknowledgeType.GAP),)) for gap in gaps)
            self._engine.append_soon(self._request(ACKNOWLEDGE, self._engine.new_id())._replace(batches=batches))

    def give_back(self, ranges: Sequence[AcquiredRange]) -> None:
        """Ranges that never left the gateway are available again, the delivery attempt given back."""
        for acquired in in_rows(ranges, MAX_RANGES_PER_ROW):
            self._engine.append_soon(self._request(UNACQUIRE, self._engine.new_id())._replace(acquired=acquired))

    def expire(self, now_ms: int) -> None:
        """Give back what the member could not use any more: its lock is nearly over."""
        expired = self.read_ahead.expire(now_ms, self._min_lock_left_ms)
        if expired:
            records = sum(last - first + 1 for first, last, _ in expired)
            logger.info("%s: %d records for member %s were too late to be sent", self.key, records, self.member_id)
            self.give_back(expired)

    def upkeep(self, now_ms: int, idle_ms: int) -> None:
        """Give back what the member does not take, and what it could not use any more."""
        self.expire(now_ms)
        self.give_back(self.read_ahead.idle(now_ms, idle_ms))

    # -- the session -------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """A new session: first the job takes back what the member held, whoever gave it to it."""
        self._engine.append_soon(self._request(RELEASE_MEMBER, self._engine.new_id()))

    def close(self) -> None:
        """The session is over: what the member was sent is released, what is ahead of it never was delivered."""
        if self._is_closed:
            return
        self._is_closed = self._is_released = True
        self.read_ahead.close()
        delivered = tuple(OffsetRange(first, last) for first, last, _ in self.holdings)
        request = self._request(RELEASE_MEMBER, self._engine.new_id())
        self._engine.append_soon(request._replace(delivered=delivered, requester=self._engine.reply_to))

    def leave(self) -> None:
        """The member fetches this share-partition elsewhere, or no more: what it was sent stays its own."""
        if self._is_closed:
            return
        self._is_closed = True
        self.give_back(self.read_ahead.close())

    def drop_before(self, log_start_offset: int) -> None:
        """The log begins at this offset now: what is below is lost, and the job will see it by itself."""
        lost = [r for r in self.read_ahead.ranges() if r.first_offset < log_start_offset]
        gone = [OffsetRange(first, min(last, log_start_offset - 1)) for first, last, _ in lost]
        self.read_ahead.take((), gone, self._engine.now_ms())

    # -- acknowledgements --------------------------------------------------------------------------------------------

    def acknowledge(
        self, batches: Sequence[AcknowledgementBatch], is_renew_ack: bool, now_ms: int, margin_ms: int
    ) -> Awaitable[Outcome]:
        """(error code, message) of a partition's acknowledgements; their row is on its way when this returns.

        Answered as soon as the row is durable when the gateway itself handed out these offsets and enough lock time is
        left: the job counts the acknowledgement from its append, which is known then. Else the job answers.
        """
        try:
            check_batches(batches, is_renew_ack)
        except RequestError as error:
            return _settled((int(error.code), error.message))
        request = self._request(ACKNOWLEDGE, self._engine.new_id())
        request = request._replace(batches=tuple(batches), is_renew_ack=is_renew_ack)
        if not is_renew_ack and self.holdings.covers(batches, now_ms, margin_ms):
            deadline_ms = self.holdings.shortest_deadline_ms(batches)
            self.holdings.acknowledged(batches)
            try:
                return self._early(self._engine.append(request), deadline_ms)
            except EngineUnavailableError as error:
                return _settled((int(ErrorCode.COORDINATOR_NOT_AVAILABLE), str(error)))
        return self._by_the_job(request, self._engine.ask(request._replace(reply_to=self._engine.reply_to)))

    async def _early(self, appended: Awaitable[int], lock_deadline_ms: int) -> Outcome:
        try:
            append_ms = await appended
        except EngineUnavailableError as error:
            return int(ErrorCode.COORDINATOR_NOT_AVAILABLE), str(error)
        if (append_ms if append_ms >= 0 else self._engine.now_ms()) > lock_deadline_ms:
            return int(ErrorCode.INVALID_RECORD_STATE), "the lock ended before the acknowledgement was in the log"
        return int(ErrorCode.NONE), None

    async def _by_the_job(self, request: SharePartitionRequest, answered: Awaitable[Response]) -> Outcome:
        try:
            answer = await answered
        except EngineUnavailableError as error:
            return int(ErrorCode.COORDINATOR_NOT_AVAILABLE), str(error)
        assert isinstance(answer, SharePartitionResponse)
        if not answer.error_code:
            renewed_ms = answer.lock_deadline_ms if answer.lock_deadline_ms >= 0 else None
            self.holdings.acknowledged(request.batches, renewed_ms)
        return answer.error_code, answer.error_message

    def _request(self, kind: str, request_id: str, reply_to: str = "") -> SharePartitionRequest:
        return SharePartitionRequest(kind, request_id, *self.key, self.member_id, -1, reply_to)


async def _settled(outcome: Outcome) -> Outcome:
    return outcome
