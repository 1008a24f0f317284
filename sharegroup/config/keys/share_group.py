"""Kafka's broker keys group.share.* that mean something here: the job-level values of every group, and their frames."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pydantic import BeforeValidator

from sharegroup.config.family import ConfigFamily, Whole, key
from sharegroup.config.keys.offset_reset import ALLOWED, AutoOffsetReset, OffsetResetStrategy

#: Kafka stops at 10,000; a window here is ranges, whose cost does not grow with the number of records.
MAX_RECORD_LOCKS = 10_000_000
#: The cap of KIP-345: longer than any restart takes.
MAX_STATIC_MS = 1_800_000
#: The names of the assignors that are part of this project: Kafka's `simple`, and `all`.
BUILT_IN_ASSIGNORS = ("simple", "all")
#: Kafka's class of its assignor, which a broker's configuration may name.
_KAFKAS_ASSIGNORS = {"org.apache.kafka.coordinator.group.assignor.SimpleAssignor": "simple"}
_ALLOWED_ASSIGNORS = "simple, all, or the dotted name of a class"


class IsolationLevel(str, Enum):
    """share.isolation.level: whether records of open and aborted transactions are delivered (KIP-932)."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


def _parse_reset(value: object) -> object:
    if isinstance(value, AutoOffsetReset):
        return value
    if not isinstance(value, str):
        raise ValueError("Not a text")
    return AutoOffsetReset.parse(value)


#: A value of share.auto.offset.reset, or its text.
Reset = Annotated[AutoOffsetReset, BeforeValidator(_parse_reset)]


def _assignor(value: object) -> object:
    (name,) = _assignors([value])
    return name


def _assignors(value: object) -> tuple[str, ...]:
    """Kafka's LIST: names with commas, or a list of them. Whether a class is there, the job finds out at its start."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple):
        raise ValueError("Not a list")
    texts = [str(name).strip() for name in names]
    unknown = [text for text in texts if text not in BUILT_IN_ASSIGNORS and not _is_class_name(text)]
    if unknown or not texts:
        raise ValueError(f"Unknown assignor {', '.join(unknown)}" if any(unknown) else "At least one must be named")
    return tuple(dict.fromkeys(_KAFKAS_ASSIGNORS.get(text, text) for text in texts))


def _is_class_name(text: str) -> bool:
    return "." in text and all(part.isidentifier() for part in text.split("."))


#: The name of an assignor.
AssignorName = Annotated[str, BeforeValidator(_assignor)]


class ShareGroupConfig(ConfigFamily):
    """Keys `group.share.*` of the section `group`. A min and a max key frame what a group may set for itself."""

    max_size: Whole = key("group.share.max.size", 200, "Most members of a group.", ge=1, le=1000)

    assignors: Annotated[tuple[str, ...], BeforeValidator(_assignors)] = key(
        "group.share.assignors",
        BUILT_IN_ASSIGNORS[:1],
        "Assignors that a group may choose from; the first is that of the others.",
        allowed=f"a list of {_ALLOWED_ASSIGNORS}",
    )

    session_timeout_ms: Whole = key(
        "group.share.session.timeout.ms", 45_000, "A member without heartbeat for so long has left.", ge=1
    )
    min_session_timeout_ms: Whole = key("group.share.min.session.timeout.ms", 45_000, "Least session timeout.", ge=1)
    max_session_timeout_ms: Whole = key("group.share.max.session.timeout.ms", 60_000, "Greatest session timeout.", ge=1)

    static_session_timeout_ms: Whole = key(
        "group.share.static.session.timeout.ms",
        300_000,
        "The same of a static member (KIP-345; ours).",
        ge=1,
        le=MAX_STATIC_MS,
    )
    min_static_session_timeout_ms: Whole = key(
        "group.share.min.static.session.timeout.ms",
        45_000,
        "Least session timeout of static members.",
        ge=1,
        le=MAX_STATIC_MS,
    )
    max_static_session_timeout_ms: Whole = key(
        "group.share.max.static.session.timeout.ms",
        MAX_STATIC_MS,
        "Greatest session timeout of static members.",
        ge=1,
        le=MAX_STATIC_MS,
    )

    heartbeat_interval_ms: Whole = key(
        "group.share.heartbeat.interval.ms", 5_000, "How often members are told to heartbeat.", ge=1
    )
    min_heartbeat_interval_ms: Whole = key(
        "group.share.min.heartbeat.interval.ms", 5_000, "Least heartbeat interval.", ge=1
    )
    max_heartbeat_interval_ms: Whole = key(
        "group.share.max.heartbeat.interval.ms", 15_000, "Greatest heartbeat interval.", ge=1
    )

    assignment_interval_ms: Whole = key(
        "group.share.assignment.interval.ms", 1_000, "Least time between two runs of the assignor.", ge=0
    )
    min_assignment_interval_ms: Whole = key(
        "group.share.min.assignment.interval.ms", 0, "Least assignment interval.", ge=0
    )
    max_assignment_interval_ms: Whole = key(
        "group.share.max.assignment.interval.ms", 15_000, "Greatest assignment interval.", ge=0
    )

    partition_max_record_locks: Whole = key(
        "group.share.partition.max.record.locks",
        10_000,
        "Most records in flight of a share-partition.",
        ge=100,
        le=MAX_RECORD_LOCKS,
    )
    min_partition_max_record_locks: Whole = key(
        "group.share.min.partition.max.record.locks", 100, "Least limit of records in flight.", ge=100, le=2_000
    )
    max_partition_max_record_locks: Whole = key(
        "group.share.max.partition.max.record.locks",
        10_000,
        "Greatest limit of records in flight.",
        ge=2_000,
        le=MAX_RECORD_LOCKS,
    )

    delivery_count_limit: Whole = key(
        "group.share.delivery.count.limit", 5, "Delivery attempts before a record is archived.", ge=2, le=10
    )
    min_delivery_count_limit: Whole = key(
        "group.share.min.delivery.count.limit", 2, "Least delivery count limit.", ge=2, le=5
    )
    max_delivery_count_limit: Whole = key(
        "group.share.max.delivery.count.limit", 10, "Greatest delivery count limit.", ge=5, le=25
    )

    record_lock_duration_ms: Whole = key(
        "group.share.record.lock.duration.ms",
        30_000,
        "How long an acquired record is locked for its member.",
        ge=1_000,
        le=3_600_000,
    )
    min_record_lock_duration_ms: Whole = key(
        "group.share.min.record.lock.duration.ms", 15_000, "Least lock duration.", ge=1_000, le=30_000
    )
    max_record_lock_duration_ms: Whole = key(
        "group.share.max.record.lock.duration.ms", 60_000, "Greatest lock duration.", ge=30_000, le=3_600_000
    )

    auto_offset_reset: Reset = key(
        "group.share.auto.offset.reset",
        AutoOffsetReset(OffsetResetStrategy.LATEST),
        "Where groups start in a topic that is new to them (ours: Kafka has it for a group alone).",
        allowed=ALLOWED,
    )
    isolation_level: IsolationLevel = key(
        "group.share.isolation.level",
        IsolationLevel.READ_UNCOMMITTED,
        "Whether records of open and aborted transactions are delivered (ours, too).",
    )
    static_record_lock_duration_ms: Whole = key(
        "group.share.static.record.lock.duration.ms",
        300_000,
        "How long a record is locked for a static member, if that is longer (ours).",
        ge=1_000,
        le=MAX_STATIC_MS,
    )
    min_static_record_lock_duration_ms: Whole = key(
        "group.share.min.static.record.lock.duration.ms",
        15_000,
        "Least lock duration of static members.",
        ge=1_000,
        le=MAX_STATIC_MS,
    )
    max_static_record_lock_duration_ms: Whole = key(
        "group.share.max.static.record.lock.duration.ms",
        MAX_STATIC_MS,
        "Greatest lock duration of static members.",
        ge=1_000,
        le=MAX_STATIC_MS,
    )

    @property
    def assignor(self) -> str:
        """That of a group that has chosen none."""
        return self.assignors[0]
