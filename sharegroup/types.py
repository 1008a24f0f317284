"""Names with meaning that every part of the project shares. Data only: no behaviour beyond what a name implies.

Offsets are Kafka log offsets; ranges are inclusive at both ends, as on the wire (FirstOffset, LastOffset). Times are
milliseconds since the epoch. Names are those of KIP-932.
"""

from __future__ import annotations

import re
from enum import Enum, IntEnum
from typing import NamedTuple

#: "not set": the value of an update record's field that did not change (KIP-932, ShareUpdateValue).
UNCHANGED = -1

#: As many characters as the name of a topic may have.
MAX_TOPIC_NAME_LENGTH = 249


def is_topic_name(name: str) -> bool:
    """Whether a topic can have this name."""
    is_legal = re.fullmatch(rf"[a-zA-Z0-9._-]{{1,{MAX_TOPIC_NAME_LENGTH}}}", name) is not None
    return is_legal and name not in (".", "..")


class RecordState(IntEnum):
    """State of a record in flight, with the ids of the DeliveryState field (KIP-932, "In-flight records")."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether no transition leaves this state."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class AcknowledgeType(IntEnum):
    """AcknowledgeTypes of ShareFetch and ShareAcknowledge (KIP-932; RENEW from KIP-1222)."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class WaitsFor(IntEnum):
    """What members wait for at a shard: nothing, new records, or room in a window behind which there are more."""

    NOTHING = 0
    RECORDS = 1
    ROOM = 2


class Cause(str, Enum):
    """Why a range changed its state: the `cause` column of the `delivery_log` table."""

    FETCH = "fetch"
    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"
    RENEW = "renew"
    GAP = "gap"
    LOCK_TIMEOUT = "lock_timeout"
    MEMBER_LEFT = "member_left"
    UNACQUIRE = "unacquire"
    LOG_TRUNCATED = "log_truncated"
    RESET = "reset"
    TOPIC_DELETED = "topic_deleted"
    UNCLEAN_ELECTION = "unclean_election"


class SharePartitionKey(NamedTuple):
    """A topic-partition as one share group sees it.

    `topic_id` is the topic's identity, `topic` its name beside it: a topic that is deleted and made again under its
    name is another one.
    """

    group_id: str
    topic: str
    topic_id: str
    partition: int


class OffsetRange(NamedTuple):
    """Offsets first_offset..last_offset, both included."""

    first_offset: int
    last_offset: int


class AcquiredRange(NamedTuple):
    """An entry of AcquiredRecords in a ShareFetch response."""

    first_offset: int
    last_offset: int
    delivery_count: int


class AcknowledgementBatch(NamedTuple):
    """An entry of AcknowledgementBatches: one type for the whole range or one for each offset, as the wire numbers."""

    first_offset: int
    last_offset: int
    acknowledge_types: tuple[int, ...]


class StateBatch(NamedTuple):
    """A range of records in one state: an entry of StateBatches (KIP-932), with its owner beside it while ACQUIRED.

    `member_id` and `lock_deadline_ms` are set exactly when `delivery_state` is ACQUIRED and the batch comes from this
    project's own tables; Kafka keeps no ACQUIRED batch.
    """

    first_offset: int
    last_offset: int
    delivery_state: RecordState
    delivery_count: int
    member_id: str | None = None
    lock_deadline_ms: int | None = None


class Transition(NamedTuple):
    """One range that changed its state: a record of the share-partition machine and a row of `delivery_log`.

    `delivery_count` is the count after the transition; `member_id` who held or holds the range; `lock_deadline_ms` is
    set when `to_state` is ACQUIRED.
    """

    first_offset: int
    last_offset: int
    from_state: RecordState
    to_state: RecordState
    cause: Cause
    member_id: str | None
    delivery_count: int
    lock_deadline_ms: int | None = None


class ConfigSource(str, Enum):
    """Where a group's own config value comes from, as DescribeConfigs names it: a request, or the job's file."""

    DYNAMIC_GROUP_CONFIG = "DYNAMIC_GROUP_CONFIG"
    STATIC_BROKER_CONFIG = "STATIC_BROKER_CONFIG"


#: `config_source` of a row that holds no config: its `config_value` is when a request altered the group's configs last,
#: in ms by the brokers' clock.
LAST_ALTERED = "LAST_ALTERED"
#: The same time, beside the configs in force that the share-partitions of a group are loaded with.
LAST_ALTERED_MS = "last_altered_ms"
