"""Kafka's GROUP configs: what a group may set for itself, and what is in force for it.

Two models: `GroupOverrides` is what was set (any key may be absent), `GroupConfig` what is in force after the job level
filled the gaps. The second one is pinned in the source's offset, so it goes to JSON and back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from sharegroup.config.family import ConfigFamily, Flag, Whole, key
from sharegroup.config.keys.offset_reset import ALLOWED, AutoOffsetReset
from sharegroup.config.keys.share_group import AssignorName, IsolationLevel, Reset, ShareGroupConfig

__all__ = ["BOUNDED", "JOB_KEYS", "GroupConfig", "GroupOverrides", "IsolationLevel"]

#: Ends of the keys that exist four times: group.share.X with its group.share.min.X and group.share.max.X, and share.X.
BOUNDED = (
    "session.timeout.ms",
    "static.session.timeout.ms",
    "heartbeat.interval.ms",
    "assignment.interval.ms",
    "partition.max.record.locks",
    "delivery.count.limit",
    "record.lock.duration.ms",
    "static.record.lock.duration.ms",
)
#: The job-level key of each key of a group that has one.
JOB_KEYS = {f"share.{end}": f"group.share.{end}" for end in (*BOUNDED, "auto.offset.reset", "isolation.level")} | {
    "share.assignor": "group.share.assignors"
}


class GroupOverrides(ConfigFamily):
    """Keys `share.*` of one group. None: the job's value `group.share.*` applies."""

    session_timeout_ms: Whole | None = key(
        "share.session.timeout.ms", None, "A member without heartbeat for so long has left.", ge=1
    )
    static_session_timeout_ms: Whole | None = key(
        "share.static.session.timeout.ms", None, "The same of a static member (KIP-345; ours).", ge=1
    )
    heartbeat_interval_ms: Whole | None = key(
        "share.heartbeat.interval.ms", None, "How often members are told to heartbeat.", ge=1
    )
    record_lock_duration_ms: Whole | None = key(
        "share.record.lock.duration.ms", None, "How long an acquired record is locked for its member.", ge=1_000
    )
    static_record_lock_duration_ms: Whole | None = key(
        "share.static.record.lock.duration.ms",
        None,
        "How long a record is locked for a static member, if that is longer (ours).",
        ge=1_000,
    )
    client_id_as_instance_id: Flag = key(
        "share.client.id.as.instance.id",
        False,
        "Whether members at a gateway are static ones, with their client.id as group.instance.id (ours).",
    )
    auto_offset_reset: Reset | None = key(
        "share.auto.offset.reset", None, "Where the group starts in a topic that is new to it.", allowed=ALLOWED
    )
    isolation_level: IsolationLevel | None = key(
        "share.isolation.level", None, "Whether records of open and aborted transactions are delivered."
    )
    delivery_count_limit: Whole | None = key(
        "share.delivery.count.limit", None, "Delivery attempts before a record is archived.", ge=2
    )
    partition_max_record_locks: Whole | None = key(
        "share.partition.max.record.locks", None, "Most records in flight of a share-partition.", ge=100
    )
    renew_acknowledge_enable: Flag = key(
        "share.renew.acknowledge.enable", True, "Whether members may renew locks (KIP-1222)."
    )
    assignment_interval_ms: Whole | None = key(
        "share.assignment.interval.ms", None, "Least time between two runs of the assignor.", ge=0
    )
    assignor: AssignorName | None = key(
        "share.assignor", None, "Who decides which member reads what (ours).", allowed="one of group.share.assignors"
    )
    consumer_group_offset_mirror: str = key(
        "share.consumer.group.offset.mirror",
        "",
        "Consumer group whose offsets follow the start offsets, for lag monitors (ours; experimental).",
    )


@dataclasses.dataclass(frozen=True)
class GroupConfig:
    """The values in force for one group. Times are milliseconds."""

    session_timeout_ms: int
    static_session_timeout_ms: int
    heartbeat_interval_ms: int
    record_lock_duration_ms: int
    static_record_lock_duration_ms: int
    delivery_count_limit: int
    partition_max_record_locks: int
    renew_acknowledge_enable: bool
    auto_offset_reset: AutoOffsetReset
    isolation_level: IsolationLevel
    assignment_interval_ms: int
    assignor: str
    max_size: int
    consumer_group_offset_mirror: str = ""
    client_id_as_instance_id: bool = False

    @classmethod
    def of(cls, job: ShareGroupConfig, overrides: GroupOverrides) -> GroupConfig:
        """The group's own values where it has some, the job's otherwise."""
        merged: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            own = getattr(overrides, field.name, None)
            merged[field.name] = getattr(job, field.name) if own is None else own
        return cls(**merged)

    def to_json(self) -> dict[str, object]:
        """A flat dict for `json.dumps`; `from_json` reads it back to an equal config."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        texts = {
            "auto_offset_reset": str(self.auto_offset_reset),
            "isolation_level": self.isolation_level.value,
        }
        return values | texts

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> GroupConfig:
        """Read what `to_json` wrote, also by another version of this project.

        A name this version lacks is ignored, and one that is absent takes its default.
        """
        known = {field.name: values[field.name] for field in dataclasses.fields(cls) if field.name in values}
        if "auto_offset_reset" in known:
            known["auto_offset_reset"] = AutoOffsetReset.parse(known["auto_offset_reset"])
        if "isolation_level" in known:
            known["isolation_level"] = IsolationLevel(known["isolation_level"])
        return dataclasses.replace(cls.of(ShareGroupConfig(), GroupOverrides()), **known)
