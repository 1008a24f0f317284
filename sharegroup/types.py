"""The types that all packages share: enums and named tuples, almost without behaviour.

Offsets are Kafka log offsets. Ranges are inclusive at both ends, as on the wire (FirstOffset, LastOffset). Times are
milliseconds since the epoch. Names are those of KIP-932.
"""

import re
from enum import Enum, IntEnum
from typing import NamedTuple

#: The value of a field in a ShareUpdate record if the record does not change the field (KIP-932, ShareUpdateValue).
UNCHANGED = -1

#: Kafka's maximum length of a topic name, in characters.
MAX_TOPIC_NAME_LENGTH = 249


def is_topic_name(name: str) -> bool:
    """Return whether Kafka allows a topic with this name."""
    is_legal = re.fullmatch(rf"[a-zA-Z0-9._-]{{1,{MAX_TOPIC_NAME_LENGTH}}}", name) is not None
    return is_legal and name not in (".", "..")


class RecordState(IntEnum):
    """The state of a record in flight; the values are those of the DeliveryState field (KIP-932)."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether no transition leaves this state."""
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class AcknowledgeType(IntEnum):
    """The AcknowledgeTypes of ShareFetch and ShareAcknowledge (KIP-932; RENEW: KIP-1222)."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class WaitsFor(IntEnum):
    """What the fetches at a shard wait for. A shard is several share-partitions that the job processes together.

    - NOTHING: no fetch is waiting, or a gateway will deliver the next records to the waiting fetches.
    - RECORDS: the log has no further records.
    - ROOM: there are records, but the limit on record locks is reached, so none can be acquired.
    """

    NOTHING = 0
    RECORDS = 1
    ROOM = 2


class Cause(str, Enum):
    """The reason for a state change of a range of records, as in the `cause` column of the `delivery_log` table.

    The table contains only deliveries and their outcomes. It therefore has no rows for RESERVE and UNRESERVE, and shows
    ASSIGN as FETCH.
    """

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
    RESERVE = "reserve"
    ASSIGN = "assign"
    UNRESERVE = "unreserve"


class SharePartitionKey(NamedTuple):
    """A topic-partition in one share group.

    `topic_id` identifies the topic, and `topic` is its name. A topic that is deleted and created again gets another id.
    """

    group_id: str
    topic: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.group_id}:{self.topic}-{self.partition}"


class OffsetRange(NamedTuple):
    """The offsets first_offset..last_offset, both inclusive."""

    first_offset: int
    last_offset: int


class AcquiredRange(NamedTuple):
    """A range of records that a member acquired: an entry of AcquiredRecords in a ShareFetch response."""

    first_offset: int
    last_offset: int
    delivery_count: int


class AcknowledgementBatch(NamedTuple):
    """An entry of AcknowledgementBatches in a ShareFetch or ShareAcknowledge request.

    `acknowledge_types` are the numbers of the Kafka protocol: one type for the whole range, or one for each offset.
    """

    first_offset: int
    last_offset: int
    acknowledge_types: tuple[int, ...]


def is_reserved(state: RecordState, delivery_count: int) -> bool:
    """Return whether records with this state and delivery count are reserved.

    A gateway holds reserved records, and has not assigned them to a member yet.
    """
    return delivery_count == 0 and state is RecordState.ACQUIRED


class StateBatch(NamedTuple):
    """A range of records in one state: an entry of StateBatches (KIP-932) with two additional fields.

    These fields are `member_id`, the member that holds the records, and `lock_deadline_ms`, when its lock expires. They
    are set only if `delivery_state` is ACQUIRED; Kafka itself stores no ACQUIRED batches. In a batch of reserved
    records (see `is_reserved`), `member_id` is the id of the reserver, and `lock_deadline_ms` is None.
    """

    first_offset: int
    last_offset: int
    delivery_state: RecordState
    delivery_count: int
    member_id: str | None = None
    lock_deadline_ms: int | None = None


class Transition(NamedTuple):
    """A state change of a range of records. The table `delivery_log` stores it, except for reservations (see `Cause`).

    `delivery_count` is the count after the transition. `member_id` is the member that holds the range after the
    transition, or that held it before. `lock_deadline_ms` is set if `to_state` is ACQUIRED.
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
    """The source of a group's config value, as in DescribeConfigs.

    DYNAMIC_GROUP_CONFIG means that a request altered the config. STATIC_BROKER_CONFIG means that the value is from the
    job's configuration file.
    """

    DYNAMIC_GROUP_CONFIG = "DYNAMIC_GROUP_CONFIG"
    STATIC_BROKER_CONFIG = "STATIC_BROKER_CONFIG"


#: The `config_source` of a special row in a group's configs. The row's `config_value` is the time of the last request
#: that altered the configs, in ms since the epoch by the brokers' clocks.
LAST_ALTERED = "LAST_ALTERED"
#: The key of the time at which a request last altered the group's configs, in the JSON object of a `config` input row
#: (`core.operators.rows`).
LAST_ALTERED_MS = "last_altered_ms"
