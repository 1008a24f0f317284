"""The reports of share consumers: what they received, sent, and received as responses.

All of it is the client's view at the clock's present time. It contains nothing of the job or of a gateway.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from sharegroup.types import AcknowledgementBatch, AcquiredRange


class Place(NamedTuple):
    """A share-partition as clients name it; `topic_id` is Kafka's text."""

    group_id: str
    topic_id: str
    partition: int


class Delivery(NamedTuple):
    """A partition's part of a ShareFetch response, as received by the client.

    `records` are those offsets of `acquired` with a record. `made_ms` is the true time at which the gateway created the
    response, and `lock_end_ms` is that plus AcquisitionLockTimeoutMs: until then no other member may get one of them.
    """

    place: Place
    member_id: str
    acquired: tuple[AcquiredRange, ...]
    records: tuple[int, ...]
    made_ms: int
    lock_end_ms: int


class Acknowledgement(NamedTuple):
    """A partition's part of a request. `number` is unique in a run; `is_renewal` if IsRenewAck is set. A session never
    acknowledges a record twice, so it is for the newest delivery of each record that the member has received.

    `unused` are those of its batches that release records whose delivery does not count.
    """

    number: int
    place: Place
    member_id: str
    batches: tuple[AcknowledgementBatch, ...]
    is_renewal: bool
    sent_ms: int
    unused: tuple[AcknowledgementBatch, ...] = ()


class Observer(Protocol):
    """The receiver of the reports: the judge, or a test."""

    def delivered(self, delivery: Delivery) -> None:
        """Report received records."""

    def acknowledge_sent(self, acknowledgement: Acknowledgement) -> None:
        """Report a request with acknowledgements that is being sent."""

    def acknowledge_answered(self, acknowledgement: Acknowledgement, error_code: int | None, lock_ms: int) -> None:
        """Report its response, of the partition or the whole request; None: the connection broke, result unknown.

        `lock_ms` is AcquisitionLockTimeoutMs of the response, 0 if there is none.
        """

    def let_go(self, member_id: str, places: Sequence[Place], why: str) -> None:
        """Report that its session for these share-partitions ends or restarts, so that others may get its records."""

    def heartbeat_sent(self, member_id: str, group_id: str, topics: Sequence[str]) -> None:
        """Report a heartbeat with this subscription that is about to be sent."""

    def heartbeat_answered(self, member_id: str, group_id: str, sent_ms: int) -> None:
        """Report a heartbeat's response without an error; a member may be gone a session timeout after its last one."""

    def left(self, member_id: str, group_id: str) -> None:
        """Report that the member is about to leave the group, or is unknown to it."""
