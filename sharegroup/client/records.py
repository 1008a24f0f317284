"""What a share consumer returns: records, and the partitions that results are for."""

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
#: Of records outside of handler loops. Nobody sets it.
_NEVER = threading.Event()


class TopicIdPartition(NamedTuple):
    """A partition of a topic. A topic that is deleted and created again has the same name and another id."""

    topic_id: UUID
    partition: int
    topic: str


#: The results of a commit: None for success.
CommitResults = dict[TopicIdPartition, RequestError | None]


class Acknowledger(Protocol):
    """The consumer that has a record."""

    def check_explicit(self) -> None:
        """Raise IllegalStateError unless the application acknowledges records."""

    def acknowledge(self, record: Record[Any], kind: AcknowledgeType) -> None:
        """Choose how a record is acknowledged. Raises IllegalStateError."""


class Delivery(NamedTuple):
    """What the records of one partition in one response have in common: the leader, and the end of their locks.

    `lock_until_ms` is the client's time. It is None if the broker does not return the lock timeout. `session` is the
    number of the session with the leader (`ShareNode.session`); the locks end with it.
    """

    source: TopicIdPartition
    node_id: int
    lock_until_ms: int | None
    acknowledger: Acknowledger | None = None
    session: int = 0


@dataclass(slots=True, eq=False)
class Record(Generic[Value]):
    """A record that was delivered to this consumer.

    In explicit mode, `with record:` (or `async with`) accepts it at the end of the block. An exception releases it and
    is raised. `Reject` rejects it and `Release` releases it at once; these two are not raised.

    Attributes:
        timestamp: in ms since the epoch, of the kind `timestamp_type`: 0 is CreateTime, 1 is LogAppendTime.
        delivery_count: 1 at the first delivery.
        size: the bytes of key and value as they were received.
        cancelled: in a handler loop: set when the lock is lost, or when the loop no longer waits for the handler.
        error: why `key` or `value` are bytes although there is a deserializer (`on_undecodable="raw"`), else None.
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
    """Whether the consumer can acknowledge a record."""

    HELD = "held"
    RENEWING = "renewing"
    LOST = "lost"


class UndecodableRecord(NamedTuple):
    """A record that was not delivered because it could not be decoded. `offset` is the first one of a broken batch."""

    source: TopicIdPartition
    offset: int
    reason: str
