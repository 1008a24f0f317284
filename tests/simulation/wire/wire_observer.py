"""What share consumers tell of themselves: what they were given, what they sent and what they were answered.

All of it is as the client sees it, at the clock's present time. Nobody may look at the job or a gateway by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from sharegroup.types import AcknowledgementBatch, AcquiredRange


class Place(NamedTuple):
    """A share-partition as clients name it: `topic_id` is Kafka's text."""

    group_id: str
    topic_id: str
    partition: int


class Delivery(NamedTuple):
    """A partition's part of a ShareFetch response, as it reached the client.

    `records` are those of `acquired` that a record came for. `made_ms` is when the gateway made the response, the true
    time, and `lock_end_ms` is that plus AcquisitionLockTimeoutMs: until then nobody else may get one of them.
    """

    place: Place
    member_id: str
    acquired: tuple[AcquiredRange, ...]
    records: tuple[int, ...]
    made_ms: int
    lock_end_ms: int


class Acknowledgement(NamedTuple):
    """A partition's part of a request. `number` is unique in a run; `is_renewal` where IsRenewAck is set. No record is
    acknowledged twice in a session, so it is for the newest delivery of each record that the member has seen."""

    number: int
    place: Place
    member_id: str
    batches: tuple[AcknowledgementBatch, ...]
    is_renewal: bool
    sent_ms: int


class Observer(Protocol):
    """Who looks on: the judge, or a test."""

    def delivered(self, delivery: Delivery) -> None:
        """The client has records."""

    def acknowledge_sent(self, acknowledgement: Acknowledgement) -> None:
        """A request with acknowledgements is on its way."""

    def acknowledge_answered(self, acknowledgement: Acknowledgement, error_code: int | None, lock_ms: int) -> None:
        """Its answer, of the partition or the whole request; None: the connection broke, so that it is not known.

        `lock_ms` is AcquisitionLockTimeoutMs of the response, 0 where there is none.
        """

    def let_go(self, member_id: str, places: Sequence[Place], why: str) -> None:
        """Its session for these share-partitions ends, or begins anew: what it holds there may be given to others."""

    def heartbeat_sent(self, member_id: str, group_id: str, topics: Sequence[str]) -> None:
        """A heartbeat of a member with this subscription is about to be sent."""

    def heartbeat_answered(self, member_id: str, group_id: str, sent_ms: int) -> None:
        """A heartbeat was answered without an error; one whose last was sent a session timeout ago may be gone."""

    def left(self, member_id: str, group_id: str) -> None:
        """The member is about to leave the group, or was told that it is none."""
