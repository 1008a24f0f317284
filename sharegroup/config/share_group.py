"""Kafka's broker keys group.share.* that mean something here: the job-level values of every group, and their frames."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pydantic import BeforeValidator, Field

from sharegroup.config.family import ConfigFamily, Whole
from sharegroup.config.offset_reset import ALLOWED, AutoOffsetReset, OffsetResetStrategy

__all__ = ["BUILT_IN_ASSIGNORS", "MAX_RECORD_LOCKS", "AssignorName", "IsolationLevel", "Reset", "ShareGroupConfig"]

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

    max_size: Whole = Field(
        default=200, alias="group.share.max.size", ge=1, le=1000, description="Most members of a group."
    )

    assignors: Annotated[tuple[str, ...], BeforeValidator(_assignors)] = Field(
        default=BUILT_IN_ASSIGNORS[:1],
        alias="group.share.assignors",
        description="Assignors that a group may choose from; the first is that of the others.",
        json_schema_extra={"allowed": f"a list of {_ALLOWED_ASSIGNORS}"},
    )

    session_timeout_ms: Whole = Field(
        default=45_000,
        alias="group.share.session.timeout.ms",
        ge=1,
        description="A member without heartbeat for so long has left.",
    )
    min_session_timeout_ms: Whole = Field(
        default=45_000, alias="group.share.min.session.timeout.ms", ge=1, description="Least session timeout."
    )
    max_session_timeout_ms: Whole = Field(
        default=60_000, alias="group.share.max.session.timeout.ms", ge=1, description="Greatest session timeout."
    )

    static_session_timeout_ms: Whole = Field(
        default=300_000,
        alias="group.share.static.session.timeout.ms",
        ge=1,
        le=MAX_STATIC_MS,
        description="The same of a static member (KIP-345; ours).",
    )
    min_static_session_timeout_ms: Whole = Field(
        default=45_000,
        alias="group.share.min.static.session.timeout.ms",
        ge=1,
        le=MAX_STATIC_MS,
        description="Least session timeout of static members.",
    )
    max_static_session_timeout_ms: Whole = Field(
        default=MAX_STATIC_MS,
        alias="group.share.max.static.session.timeout.ms",
        ge=1,
        le=MAX_STATIC_MS,
        description="Greatest session timeout of static members.",
    )

    heartbeat_interval_ms: Whole = Field(
        default=5_000,
        alias="group.share.heartbeat.interval.ms",
        ge=1,
        description="How often members are told to heartbeat.",
    )
    min_heartbeat_interval_ms: Whole = Field(
        default=5_000, alias="group.share.min.heartbeat.interval.ms", ge=1, description="Least heartbeat interval."
    )
    max_heartbeat_interval_ms: Whole = Field(
        default=15_000, alias="group.share.max.heartbeat.interval.ms", ge=1, description="Greatest heartbeat interval."
    )

    assignment_interval_ms: Whole = Field(
        default=1_000,
        alias="group.share.assignment.interval.ms",
        ge=0,
        description="Least time between two runs of the assignor.",
    )
    min_assignment_interval_ms: Whole = Field(
        default=0, alias="group.share.min.assignment.interval.ms", ge=0, description="Least assignment interval."
    )
    max_assignment_interval_ms: Whole = Field(
        default=15_000,
        alias="group.share.max.assignment.interval.ms",
        ge=0,
        description="Greatest assignment interval.",
    )

    partition_max_record_locks: Whole = Field(
        default=10_000,
        alias="group.share.partition.max.record.locks",
        ge=100,
        le=MAX_RECORD_LOCKS,
        description="Most records in flight of a share-partition.",
    )
    min_partition_max_record_locks: Whole = Field(
        default=100,
        alias="group.share.min.partition.max.record.locks",
        ge=100,
        le=2_000,
        description="Least limit of records in flight.",
    )
    max_partition_max_record_locks: Whole = Field(
        default=10_000,
        alias="group.share.max.partition.max.record.locks",
        ge=2_000,
        le=MAX_RECORD_LOCKS,
        description="Greatest limit of records in flight.",
    )

    delivery_count_limit: Whole = Field(
        default=5,
        alias="group.share.delivery.count.limit",
        ge=2,
        le=10,
        description="Delivery attempts before a record is archived.",
    )
    min_delivery_count_limit: Whole = Field(
        default=2, alias="group.share.min.delivery.count.limit", ge=2, le=5, description="Least delivery count limit."
    )
    max_delivery_count_limit: Whole = Field(
        default=10,
        alias="group.share.max.delivery.count.limit",
        ge=5,
        le=25,
        description="Greatest delivery count limit.",
    )

    record_lock_duration_ms: Whole = Field(
        default=30_000,
        alias="group.share.record.lock.duration.ms",
        ge=1_000,
        le=3_600_000,
        description="How long an acquired record is locked for its member.",
    )
    min_record_lock_duration_ms: Whole = Field(
        default=15_000,
        alias="group.share.min.record.lock.duration.ms",
        ge=1_000,
        le=30_000,
        description="Least lock duration.",
    )
    max_record_lock_duration_ms: Whole = Field(
        default=60_000,
        alias="group.share.max.record.lock.duration.ms",
        ge=30_000,
        le=3_600_000,
        description="Greatest lock duration.",
    )

    auto_offset_reset: Reset = Field(
        default=AutoOffsetReset(OffsetResetStrategy.LATEST),
        alias="group.share.auto.offset.reset",
        description="Where groups start in a topic that is new to them (ours: Kafka has it for a group alone).",
        json_schema_extra={"allowed": ALLOWED},
    )
    isolation_level: IsolationLevel = Field(
        default=IsolationLevel.READ_UNCOMMITTED,
        alias="group.share.isolation.level",
        description="Whether records of open and aborted transactions are delivered (ours, too).",
    )
    static_record_lock_duration_ms: Whole = Field(
        default=300_000,
        alias="group.share.static.record.lock.duration.ms",
        ge=1_000,
        le=MAX_STATIC_MS,
        description="How long a record is locked for a static member, if that is longer (ours).",
    )
    min_static_record_lock_duration_ms: Whole = Field(
        default=15_000,
        alias="group.share.min.static.record.lock.duration.ms",
        ge=1_000,
        le=MAX_STATIC_MS,
        description="Least lock duration of static members.",
    )
    max_static_record_lock_duration_ms: Whole = Field(
        default=MAX_STATIC_MS,
        alias="group.share.max.static.record.lock.duration.ms",
        ge=1_000,
        le=MAX_STATIC_MS,
        description="Greatest lock duration of static members.",
    )

    @property
    def assignor(self) -> str:
        """That of a group that has chosen none."""
        return self.assignors[0]
