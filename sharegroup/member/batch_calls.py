"""Objects for the two calls of `MemberLogic` that may have to wait for responses: `begin` and `acknowledge`. No I/O.

The caller polls such an object until the call has finished. Meanwhile, the member receives the responses. Polling
raises ResponseTimeoutError if the responses do not arrive in time, or if the member has failed.
"""

import logging
from typing import Protocol

from sharegroup.errors import ShareGroupError
from sharegroup.log_fields import LogFields
from sharegroup.member.acknowledgement_round import AcknowledgementRound
from sharegroup.member.held_batches import HeldBatches
from sharegroup.member.ranges import HeldRange, OfferedBatch, count_records
from sharegroup.protocol.rows.share_partition_requests import AcknowledgeRequest

logger = logging.getLogger(__name__)


class ResponseTimeoutError(ShareGroupError):
    """The share-group job did not respond in time, rows could not be appended in time, or the member has failed.

    Unless the member has failed, check that the brokers are available, and that the job runs and uses the same topics
    as the member.
    """


class BatchMember(Protocol):
    """The part of `MemberLogic` that these calls use.

    Attributes:
        is_open: whether the member can read responses.
        failure: the error that ended the membership permanently, if any.
        holdings: the ranges that the member holds.
        acknowledgements: the acknowledgements that wait for responses, if any.
        renewal: the renewals that wait for responses, if any.
    """

    is_open: bool
    failure: Exception | None
    holdings: HeldBatches
    acknowledgements: AcknowledgementRound | None
    renewal: AcknowledgementRound | None

    @property
    def member_id(self) -> str:
        """The member id in the group."""

    @property
    def member_epoch(self) -> int:
        """The member epoch for request rows."""

    @property
    def acknowledge_timeout_ms(self) -> int:
        """The time limit for responses in milliseconds."""


def _raise_if_failed(member: BatchMember) -> None:
    """Raise ResponseTimeoutError if the member has failed."""
    if member.failure is not None:
        raise ResponseTimeoutError(f"member {member.member_id} has failed: {member.failure!r}") from member.failure


class _Awaited:
    """The responses to one acknowledgement round (`awaited`), which must arrive before `deadline_ms`.

    If `awaited` is None, no response is needed, so `poll` always returns True.
    """

    def __init__(self, member: BatchMember, awaited: AcknowledgementRound | None, now_ms: int) -> None:
        self.deadline_ms = now_ms + member.acknowledge_timeout_ms
        self._member, self._awaited = member, awaited

    def poll(self, now_ms: int) -> bool:
        """Return whether all responses have arrived.

        Raises ResponseTimeoutError after the deadline, or if the member has failed.
        """
        if self._awaited is None or self._awaited.is_done:
            return True
        _raise_if_failed(self._member)
        if now_ms > self.deadline_ms:
            raise ResponseTimeoutError(
                f"the share-group job has not responded to member {self._member.member_id} in time; is it running?"
            )
        return False


class PendingBegin:
    """A call of `MemberLogic.begin` that may have to wait for responses.

    The caller calls `poll` until it returns ranges. The first `poll` returns them, unless locks must be renewed first.
    """

    def __init__(
        self, member: BatchMember, batch: OfferedBatch, renewal: AcknowledgementRound | None, now_ms: int
    ) -> None:
        self._member, self._batch, self._renewal = member, batch, renewal
        self._responses = _Awaited(member, renewal, now_ms)
        self._ranges: tuple[HeldRange, ...] | None = None

    @property
    def deadline_ms(self) -> int:
        """The time until which responses are awaited, in ms of the member's clock."""
        return self._responses.deadline_ms

    def poll(self, now_ms: int) -> tuple[HeldRange, ...] | None:
        """Return the ranges of the batch that the member still holds; None while responses are missing.

        When all responses have arrived, a batch of an earlier process becomes the running batch.

        Raises ResponseTimeoutError after the deadline, or if the member has failed.
        """
        if self._ranges is None and self._responses.poll(now_ms):
            self._ranges = self._offered() if self._renewal is None else self._rerun(self._renewal, now_ms)
            lost = count_records(self._batch.ranges) - count_records(self._ranges)
            if lost:
                logger.warning(
                    "batch %(batch)d: %(records)d records are no longer held by the member and are skipped",
                    LogFields(batch=self._batch.seq, records=lost),
                )
        return self._ranges

    def _offered(self) -> tuple[HeldRange, ...]:
        running = self._member.holdings.running
        is_it = running is not None and running.seq == self._batch.seq
        return running.discard_deleted() if running is not None and is_it else self._batch.ranges

    def _rerun(self, renewal: AcknowledgementRound, now_ms: int) -> tuple[HeldRange, ...]:
        held = renewal.renewed_parts(self._batch.ranges)
        self._member.holdings.rerun(self._batch.seq, held, now_ms)
        return held


class PendingAcknowledge:
    """A call of `MemberLogic.acknowledge` that has not finished. The caller does these steps in this order:

    1. Wait until `may_append` returns True, that is, until the previous acknowledgements have all responses.
    2. Call `due_requests`, and append the returned rows to the request topic.
    3. Call `mark_appended`; after that, `is_done` is True.

    If no rows were returned, or if rows could not be appended, the caller repeats step 2 after a pause. Rows that were
    not appended are returned again later, with the same ids.

    Args:
        following: the acknowledgements to append.
        previous: the acknowledgements of the batch before, if some of them have no response yet.
    """

    def __init__(
        self,
        member: BatchMember,
        following: AcknowledgementRound,
        previous: AcknowledgementRound | None,
        now_ms: int,
    ) -> None:
        self._member, self._following = member, following
        self._responses = _Awaited(member, previous, now_ms)
        self._append_until_ms: int | None = None
        self._is_appended = False

    @property
    def deadline_ms(self) -> int:
        """The time until which responses to the previous acknowledgements are awaited, in ms of the member's clock."""
        return self._responses.deadline_ms

    @property
    def is_done(self) -> bool:
        """Whether all rows are in the request topic."""
        return self._is_appended or self._following.is_done

    def may_append(self, now_ms: int) -> bool:
        """Return whether all responses to the previous acknowledgements have arrived.

        Raises ResponseTimeoutError after the deadline, or if the member has failed.
        """
        return self._responses.poll(now_ms)

    def due_requests(self, now_ms: int) -> list[AcknowledgeRequest]:
        """Return the rows to append now; none while the member cannot read responses.

        The first call also stops the renewals of the running batch's locks.

        Raises ResponseTimeoutError if rows could not be appended in time, or if the member has failed and will never
        read responses again.
        """
        if self._append_until_ms is None:
            self._append_until_ms = now_ms + self._member.acknowledge_timeout_ms
            self._end_renewals()
        elif now_ms > self._append_until_ms:
            raise ResponseTimeoutError("the acknowledgements could not be appended to the request topic in time")
        if not self._member.is_open:
            _raise_if_failed(self._member)
            return []
        requests = self._following.due_requests(self._member.member_epoch, now_ms)
        if requests:
            self._member.acknowledgements = self._following
        return requests

    def _end_renewals(self) -> None:
        """Stop renewing the locks of the running batch, and add the known lock deadlines to the acknowledgements.

        A renewal that was sent before this call may still take effect, so these deadlines may be too early. This is
        harmless, because the job uses them only for records that are finished.
        """
        running = self._member.holdings.running
        if running is not None:
            self._following.locks = running.locks
            running.renewable.clear()
        self._member.renewal = None

    def mark_appended(self) -> None:
        """Record that the rows that `due_requests` returned are in the request topic."""
        self._is_appended = True
