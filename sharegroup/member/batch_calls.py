"""What a running batch asks of its member and what takes as long as answers do, as objects to be polled. Pure.

Both are of a member, which takes in the answers that they wait for. `poll` raises NotAnsweredError when those did not
come in time, or when the member has failed.
"""

from __future__ import annotations

import logging
from typing import Protocol

from sharegroup.errors import ShareGroupError
from sharegroup.member.acknowledgement_round import AcknowledgementRound
from sharegroup.member.held_batches import HeldBatches
from sharegroup.member.ranges import HeldRange, OfferedBatch, records_in
from sharegroup.protocol.rows.share_partition_requests import AcknowledgeRequest

logger = logging.getLogger(__name__)


class NotAnsweredError(ShareGroupError):
    """The share-group job did not answer in time: is it running, with these topics?"""


class AskedMember(Protocol):
    """The member: `MemberLogic`.

    `acknowledgements` and `renewal` are the rounds whose answers it waits for.
    """

    is_open: bool
    failure: Exception | None
    holdings: HeldBatches
    acknowledgements: AcknowledgementRound | None
    renewal: AcknowledgementRound | None

    @property
    def member_id(self) -> str:
        """Its id in the group."""

    @property
    def member_epoch(self) -> int:
        """Its epoch for a request row."""

    @property
    def acknowledge_timeout_ms(self) -> int:
        """How long answers may take."""


class _Awaited:
    """Answers to a round of the member, until `deadline_ms`."""

    def __init__(self, member: AskedMember, awaited: AcknowledgementRound | None, now_ms: int) -> None:
        self.deadline_ms = now_ms + member.acknowledge_timeout_ms
        self._member, self._awaited = member, awaited

    def poll(self, now_ms: int) -> bool:
        """Whether they are all there."""
        if self._awaited is None or self._awaited.is_done:
            return True
        if self._member.failure is not None:
            raise NotAnsweredError("the member has failed") from self._member.failure
        if now_ms > self.deadline_ms:
            raise NotAnsweredError(f"the share-group job has not answered member {self._member.member_id}")
        return False


class Beginning:
    """A `begin` on its way: `poll` until it gives ranges. Without a renewal it does so at once."""

    def __init__(
        self, member: AskedMember, batch: OfferedBatch, renewal: AcknowledgementRound | None, now_ms: int
    ) -> None:
        self._member, self._batch, self._renewal = member, batch, renewal
        self._answers = _Awaited(member, renewal, now_ms)
        self._ranges: tuple[HeldRange, ...] | None = None

    @property
    def deadline_ms(self) -> int:
        """Until when the answers have to be there."""
        return self._answers.deadline_ms

    def poll(self, now_ms: int) -> tuple[HeldRange, ...] | None:
        """What of the batch is the member's, None while that is not known; the batch runs when it is told."""
        if self._ranges is None and self._answers.poll(now_ms):
            self._ranges = self._offered() if self._renewal is None else self._again(self._renewal, now_ms)
            lost = records_in(self._batch.ranges) - records_in(self._ranges)
            if lost:
                logger.warning("%d records of the batch are not ours any more", lost)
        return self._ranges

    def _offered(self) -> tuple[HeldRange, ...]:
        running = self._member.holdings.running
        is_it = running is not None and running.seq == self._batch.seq
        return running.without_gone() if running is not None and is_it else self._batch.ranges

    def _again(self, renewal: AcknowledgementRound, now_ms: int) -> tuple[HeldRange, ...]:
        held = renewal.renewed(self._batch.ranges)
        self._member.holdings.run(self._batch.seq, held, now_ms)
        return held


class Acknowledging:
    """An `acknowledge` on its way:

        may_append (the answers to the round before are there)  ->  due  ->  append them  ->  appended  ->  is_done

    What could not be appended is due again some time later, with the same ids.
    """

    def __init__(
        self,
        member: AskedMember,
        following: AcknowledgementRound,
        previous: AcknowledgementRound | None,
        now_ms: int,
    ) -> None:
        self._member, self._following = member, following
        self._answers = _Awaited(member, previous, now_ms)
        self._append_until_ms: int | None = None
        self._is_appended = False

    @property
    def deadline_ms(self) -> int:
        """Until when the answers to the round before have to be there."""
        return self._answers.deadline_ms

    @property
    def is_done(self) -> bool:
        """Whether all of it is in the request topic."""
        return self._is_appended or self._following.is_done

    def may_append(self, now_ms: int) -> bool:
        """Whether `due` may be called now."""
        return self._answers.poll(now_ms)

    def due(self, now_ms: int) -> list[AcknowledgeRequest]:
        """What is to be appended now; nothing while the member cannot read answers.

        Raises NotAnsweredError, also when it never will again.
        """
        if self._append_until_ms is None:
            self._append_until_ms = now_ms + self._member.acknowledge_timeout_ms
            self._end_renewals()
        elif now_ms > self._append_until_ms:
            raise NotAnsweredError("acknowledgements could not be appended to the request topic")
        if self._member.failure is not None and not self._member.is_open:
            raise NotAnsweredError("the member has failed") from self._member.failure
        requests = self._following.due(self._member.member_epoch, now_ms) if self._member.is_open else []
        if requests:
            self._member.acknowledgements = self._following
        return requests

    def _end_renewals(self) -> None:
        """One that is on its way may be applied yet: what it renews is held, whatever end of the lock a row names."""
        running = self._member.holdings.running
        if running is not None:
            self._following.locks = running.locks
            running.renewable.clear()
        self._member.renewal = None

    def appended(self) -> None:
        """What was due is in the request topic."""
        self._is_appended = True
