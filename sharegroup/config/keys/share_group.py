"""The supported subset of Kafka's broker keys group.share.*: defaults and limits for the configs of groups."""

from enum import Enum
from typing import Annotated

from pydantic import BeforeValidator

from sharegroup.config.family import ConfigFamily, Whole, key
from sharegroup.config.keys.offset_reset import ALLOWED, AutoOffsetReset, OffsetResetStrategy

#: The highest value of *.partition.max.record.locks. It is higher than Kafka's limit of 10,000, because this project
#: stores records in flight as ranges, whose cost does not depend on their length.
MAX_RECORD_LOCKS = 10_000_000
#: The highest timeout and lock duration of static members, in ms. KIP-345 has the same limit. Restarts of members take
#: less time.
MAX_STATIC_MS = 1_800_000
#: The assignors of this project: Kafka's `simple`, and `all`.
BUILT_IN_ASSIGNORS = ("simple", "all")
#: {class of Kafka's assignor: its name here}, for configurations that were copied from a broker.
_KAFKA_ASSIGNORS = {"org.apache.kafka.coordinator.group.assignor.SimpleAssignor": "simple"}
_ALLOWED_ASSIGNORS = "simple, all, or the dotted names of classes"


class IsolationLevel(str, Enum):
    """share.isolation.level: whether records of open and aborted transactions are delivered (KIP-932)."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


def _parse_reset(value: object) -> object:
    if isinstance(value, AutoOffsetReset):
        return value
    if not isinstance(value, str):
        raise ValueError("Not a string")
    return AutoOffsetReset.parse(value)


#: The type of share.auto.offset.reset. Texts are parsed.
Reset = Annotated[AutoOffsetReset, BeforeValidator(_parse_reset)]


def _assignor(value: object) -> object:
    (name,) = _assignors([value])
    return name


def _assignors(value: object) -> tuple[str, ...]:
    """Parse Kafka's LIST of assignors: built-in names, or names of classes.

    The job checks at its start that the classes exist.
    """
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple):
        raise ValueError("Not a list")
    texts = [str(name).strip() for name in names]
    unknown = [text for text in texts if text not in BUILT_IN_ASSIGNORS and not _is_class_name(text)]
    if unknown or not texts:
        raise ValueError(
            f"Unknown assignor {', '.join(unknown)}" if any(unknown) else "At least one assignor is required"
        )
    return tuple(dict.fromkeys(_KAFKA_ASSIGNORS.get(text, text) for text in texts))


def _is_class_name(text: str) -> bool:
    return "." in text and all(part.isidentifier() for part in text.split("."))


#: The type of share.assignor: the name of one assignor.
AssignorName = Annotated[str, BeforeValidator(_assignor)]


class ShareGroupConfig(ConfigFamily):
    """Keys `group.share.*` of the section `group`. Min and max keys limit the values that a group may set."""

    max_size: Whole = key("group.share.max.size", 200, "Maximum number of members of a group.", ge=1, le=1000)

    assignors: Annotated[tuple[str, ...], BeforeValidator(_assignors)] = key(
        "group.share.assignors",
        BUILT_IN_ASSIGNORS[:1],
        "Assignors that groups may choose from. The first is the default.",
        allowed=f"list of {_ALLOWED_ASSIGNORS}",
    )

    session_timeout_ms: Whole = key(
        "group.share.session.timeout.ms", 45_000, "Time without a heartbeat after which a member is removed.", ge=1
    )
    min_session_timeout_ms: Whole = key("group.share.min.session.timeout.ms", 45_000, "Minimum session timeout.", ge=1)
    max_session_timeout_ms: Whole = key("group.share.max.session.timeout.ms", 60_000, "Maximum session timeout.", ge=1)

    static_session_timeout_ms: Whole = key(
        "group.share.static.session.timeout.ms",
        300_000,
        "Time without a heartbeat after which a static member is removed (as in KIP-345; not in Kafka).",
        ge=1,
        le=MAX_STATIC_MS,
    )
    min_static_session_timeout_ms: Whole = key(
        "group.share.min.static.session.timeout.ms",
        45_000,
        "Minimum session timeout of static members.",
        ge=1,
        le=MAX_STATIC_MS,
    )
    max_static_session_timeout_ms: Whole = key(
        "group.share.max.static.session.timeout.ms",
        MAX_STATIC_MS,
        "Maximum session timeout of static members.",
        ge=1,
        le=MAX_STATIC_MS,
    )

    heartbeat_interval_ms: Whole = key(
        "group.share.heartbeat.interval.ms", 5_000, "Interval of heartbeats of a member.", ge=1
    )
    min_heartbeat_interval_ms: Whole = key(
        "group.share.min.heartbeat.interval.ms", 5_000, "Minimum heartbeat interval.", ge=1
    )
    max_heartbeat_interval_ms: Whole = key(
        "group.share.max.heartbeat.interval.ms", 15_000, "Maximum heartbeat interval.", ge=1
    )

    assignment_interval_ms: Whole = key(
        "group.share.assignment.interval.ms", 1_000, "Minimum time between two runs of the assignor.", ge=0
    )
    min_assignment_interval_ms: Whole = key(
        "group.share.min.assignment.interval.ms", 0, "Minimum assignment interval.", ge=0
    )
    max_assignment_interval_ms: Whole = key(
        "group.share.max.assignment.interval.ms", 15_000, "Maximum assignment interval.", ge=0
    )

    partition_max_record_locks: Whole = key(
        "group.share.partition.max.record.locks",
        10_000,
        "Maximum number of records in flight in a share-partition.",
        ge=100,
        le=MAX_RECORD_LOCKS,
    )
    min_partition_max_record_locks: Whole = key(
        "group.share.min.partition.max.record.locks", 100, "Minimum limit of records in flight.", ge=100, le=2_000
    )
    max_partition_max_record_locks: Whole = key(
        "group.share.max.partition.max.record.locks",
        10_000,
        "Maximum limit of records in flight.",
        ge=2_000,
        le=MAX_RECORD_LOCKS,
    )

    delivery_count_limit: Whole = key(
        "group.share.delivery.count.limit",
        5,
        "Number of delivery attempts after which a record is archived.",
        ge=2,
        le=10,
    )
    min_delivery_count_limit: Whole = key(
        "group.share.min.delivery.count.limit", 2, "Minimum delivery count limit.", ge=2, le=5
    )
    max_delivery_count_limit: Whole = key(
        "group.share.max.delivery.count.limit", 10, "Maximum delivery count limit.", ge=5, le=25
    )

    record_lock_duration_ms: Whole = key(
        "group.share.record.lock.duration.ms",
        30_000,
        "Time that an acquired record is locked for its member.",
        ge=1_000,
        le=3_600_000,
    )
    min_record_lock_duration_ms: Whole = key(
        "group.share.min.record.lock.duration.ms", 15_000, "Minimum lock duration.", ge=1_000, le=30_000
    )
    max_record_lock_duration_ms: Whole = key(
        "group.share.max.record.lock.duration.ms", 60_000, "Maximum lock duration.", ge=30_000, le=3_600_000
    )

    auto_offset_reset: Reset = key(
        "group.share.auto.offset.reset",
        AutoOffsetReset(OffsetResetStrategy.LATEST),
        "Initial start offset in a topic that is new to a group (in Kafka only a key of groups).",
        allowed=ALLOWED,
    )
    isolation_level: IsolationLevel = key(
        "group.share.isolation.level",
        IsolationLevel.READ_UNCOMMITTED,
        "Whether only records of committed transactions are delivered (in Kafka only a key of groups).",
    )
    static_record_lock_duration_ms: Whole = key(
        "group.share.static.record.lock.duration.ms",
        300_000,
        "Time that an acquired record is locked for a static member, if longer than for others (not in Kafka).",
        ge=1_000,
        le=MAX_STATIC_MS,
    )
    min_static_record_lock_duration_ms: Whole = key(
        "group.share.min.static.record.lock.duration.ms",
        15_000,
        "Minimum lock duration of static members.",
        ge=1_000,
        le=MAX_STATIC_MS,
    )
    max_static_record_lock_duration_ms: Whole = key(
        "group.share.max.static.record.lock.duration.ms",
        MAX_STATIC_MS,
        "Maximum lock duration of static members.",
        ge=1_000,
        le=MAX_STATIC_MS,
    )

    @property
    def assignor(self) -> str:
        """The assignor of groups that do not set one."""
        return self.assignors[0]
