"""What a share consumer returns: records, and the partitions that results are for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from sharegroup.errors import RequestError

Value = TypeVar("Value")


class TopicIdPartition(NamedTuple):
    """A partition of a topic. A topic that is deleted and created again has the same name and another id."""

    topic_id: UUID
    partition: int
    topic: str


#: The results of a commit: None for success.
CommitResults = dict[TopicIdPartition, RequestError | None]


class Delivery(NamedTuple):
    """What the records of one partition in one response have in common: the leader, and the end of their locks.

    `lock_until_ms` is the client's time. It is None if the broker does not return the lock timeout.
    """

    source: TopicIdPartition
    node_id: int
    lock_until_ms: int | None


@dataclass(slots=True, eq=False)
class Record(Generic[Value]):
    """A record that was delivered to this consumer.

    Attributes:
        timestamp: in ms since the epoch, of the kind `timestamp_type`: 0 is CreateTime, 1 is LogAppendTime.
        delivery_count: 1 at the first delivery.
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


class UndecodableRecord(NamedTuple):
    """A record that was not delivered because it could not be decoded. `offset` is the first one of a broken batch."""

    source: TopicIdPartition
    offset: int
    reason: str
