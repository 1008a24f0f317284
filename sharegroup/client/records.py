"""The types that a share consumer returns: records, and results of commits by partition."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from sharegroup.client.handlers.decisions import Reject, Release, acknowledge_type_of, log_failure
from sharegroup.errors import RequestError
from sharegroup.types import AcknowledgeType

if TYPE_CHECKING:
    from typing import Self

Value = TypeVar("Value")
#: The `cancelled` event of records outside of handler loops. It is never set.
_NEVER = threading.Event()


class TopicIdPartition(NamedTuple):
    """A partition of a topic. The id distinguishes a topic from an earlier, deleted topic of the same name."""

    topic_id: UUID
    partition: int
    topic: str


#: The result of a commit: {partition: error, or None for success}.
CommitResults = dict[TopicIdPartition, RequestError | None]


class Acknowledger(Protocol):
    """The methods of a consumer that its delivered records call to acknowledge themselves."""

    def check_explicit(self) -> None:
        """Raise IllegalStateError in implicit mode, where the application does not acknowledge records itself."""

    def acknowledge(self, record: Record[Any], kind: AcknowledgeType) -> None:
        """Set how a record is acknowledged. Raises IllegalStateError if the consumer does not hold the record."""


class Delivery(NamedTuple):
    """The common data of all records of one partition in one fetch response, such as the end of their locks.

    Attributes:
        source: the partition.
        node_id: the leader that returned the records.
        lock_until_ms: the end of the locks on the client's clock; None if the broker returns no lock timeout.
        acknowledger: the consumer of the records.
        session: the number of the share session with the leader (`ShareNode.session`). The locks end with that session.
    """

    source: TopicIdPartition
    node_id: int
    lock_until_ms: int | None
    acknowledger: Acknowledger | None = None
    session: int = 0


@dataclass(slots=True, eq=False)
class Record(Generic[Value]):
    """A record that was delivered to this consumer.

    In explicit mode, a record can be used in a `with` or `async with` block. At the end of the block, the record is
    accepted. If the block raises `Reject`, the record is rejected; after any other exception it is released. The block
    suppresses `Reject` and `Release`, and raises all other exceptions. It ignores the delay of a `Release`.

    Attributes:
        timestamp: the timestamp in ms since the epoch.
        timestamp_type: 0 for CreateTime, 1 for LogAppendTime.
        delivery_count: the number of deliveries including this one, so 1 at the first delivery.
        size: the size of key and value in bytes, before deserialization.
        cancelled: in a handler loop, an event that is set if the lock is lost, or if the loop abandons the call.
        error: the error of a deserializer, with the setting `on_undecodable="raw"`. In this case, `key` and `value` are
            bytes. None if there was no error.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Value
    headers: Sequence[tuple[str, bytes | None]]
    delivery_count: int
    delivery: Delivery = field(repr=False)
    error: Exception | None = None
    size: int = 0
    cancelled: threading.Event = field(default=_NEVER, repr=False)

    def __enter__(self) -> Self:
        assert self.delivery.acknowledger is not None
        self.delivery.acknowledger.check_explicit()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        assert self.delivery.acknowledger is not None
        self.delivery.acknowledger.acknowledge(self, acknowledge_type_of(error))
        if isinstance(error, Reject):
            log_failure(self, error)
        return isinstance(error, Reject | Release)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self.__exit__(kind, error, trace)


class Possession(Enum):
    """Whether the consumer holds a record.

    - HELD: the consumer holds the record and can acknowledge it.
    - RENEWING: the record's lock is being renewed. The record cannot be acknowledged until the renewal has ended.
    - LOST: the consumer no longer holds the record and can never acknowledge it.
    """

    HELD = "held"
    RENEWING = "renewing"
    LOST = "lost"


class UndecodableRecord(NamedTuple):
    """A record that was not delivered because it could not be decoded.

    If a whole batch could not be read, `offset` is the first acquired offset of the unread part.
    """

    source: TopicIdPartition
    offset: int
    reason: str
