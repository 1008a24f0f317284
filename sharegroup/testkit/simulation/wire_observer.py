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
    """A partition's part of a request. `number` is unique in a run; `is_renewal` where IsRenewAck is set."""

    number: int
    place: Place
    member_id: str
    batches: tuple[AcknowledgementBatch, ...]
    is_renewal: bool


class Observer(Protocol):
    """Who looks on: the judge, or a test."""

    def delivered(self, delivery: Delivery) -> None:
        """The client has records."""

    def acknowledge_sent(self, acknowledgement: Acknowledgement) -> None:
        """A request with acknowledgements is on its way."""

    def acknowledge_answered(self, acknowledgement: Acknowledgement, error_code: int | None) -> None:
        """Its answer, of the partition or the whole request; None: the connection broke, so that it is not known."""

    def let_go(self, member_id: str, group_id: str, places: Sequence[Place] | None, why: str) -> None:
        """The client has ended, or has lost, its share session for these share-partitions (None: all of the group's):
        what it holds there may be given to others from now on."""

    def heartbeat_answered(self, member_id: str, group_id: str, sent_ms: int, error_code: int) -> None:
        """A heartbeat was answered; a member whose last good one is a session timeout ago may be taken for gone."""

    def joined(self, member_id: str, group_id: str, topics: Sequence[str]) -> None:
        """A member's first heartbeat was answered without an error."""

    def left(self, member_id: str, group_id: str, why: str) -> None:
        """The member will not come back: it left in order, or it is dead."""

    def altered(self, group_id: str, what: str, values: object, sent_ms: int, error_code: int | None) -> None:
        """An administrator's request is answered now; `what` is `configs` or `offsets`. None: not known."""
