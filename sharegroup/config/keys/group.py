"""Kafka's GROUP configs: the values that a group overrides, and the effective values.

`GroupOverrides` has the values that were set for a group; any key may be absent. `GroupConfig` has the group's
effective values, with the job-level value for each absent key. A `GroupConfig` is stored in the offset of a streaming
source, so it can be converted to JSON and back.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from sharegroup.config.family import ConfigFamily, Flag, Whole, key
from sharegroup.config.keys.offset_reset import ALLOWED, AutoOffsetReset
from sharegroup.config.keys.share_group import AssignorName, IsolationLevel, Reset, ShareGroupConfig

__all__ = ["BOUNDED", "JOB_KEYS", "GroupConfig", "GroupOverrides", "IsolationLevel"]

#: Suffixes X for which there are four keys: group.share.X, group.share.min.X, group.share.max.X and share.X.
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
#: {group key: job-level key that determines its default}, for group keys that have a job-level key.
JOB_KEYS = {f"share.{end}": f"group.share.{end}" for end in (*BOUNDED, "auto.offset.reset", "isolation.level")} | {
    "share.assignor": "group.share.assignors"
}


class GroupOverrides(ConfigFamily):
    """Keys `share.*` of one group. If a value is None, the job-level value `group.share.*` applies."""

    session_timeout_ms: Whole | None = key(
        "share.session.timeout.ms", None, "Time without a heartbeat after which a member is removed.", ge=1
    )
    static_session_timeout_ms: Whole | None = key(
        "share.static.session.timeout.ms",
        None,
        "Time without a heartbeat after which a static member is removed (as in KIP-345; not in Kafka).",
        ge=1,
    )
    heartbeat_interval_ms: Whole | None = key(
        "share.heartbeat.interval.ms", None, "Interval of heartbeats of a member.", ge=1
    )
    record_lock_duration_ms: Whole | None = key(
        "share.record.lock.duration.ms", None, "Time that an acquired record is locked for its member.", ge=1_000
    )
    static_record_lock_duration_ms: Whole | None = key(
        "share.static.record.lock.duration.ms",
        None,
        "Time that an acquired record is locked for a static member, if longer than share.record.lock.duration.ms (not "
        "in Kafka).",
        ge=1_000,
    )
    client_id_as_instance_id: Flag = key(
        "share.client.id.as.instance.id",
        False,
        "Whether members at a gateway are static members, with their client.id as group.instance.id (not in Kafka).",
    )
    auto_offset_reset: Reset | None = key(
        "share.auto.offset.reset",
        None,
        "Initial start offset in a topic that is new to the group.",
        allowed=ALLOWED,
    )
    isolation_level: IsolationLevel | None = key(
        "share.isolation.level", None, "Whether only records of committed transactions are delivered."
    )
    delivery_count_limit: Whole | None = key(
        "share.delivery.count.limit", None, "Number of delivery attempts after which a record is archived.", ge=2
    )
    partition_max_record_locks: Whole | None = key(
        "share.partition.max.record.locks", None, "Maximum number of records in flight in a share-partition.", ge=100
    )
    renew_acknowledge_enable: Flag = key(
        "share.renew.acknowledge.enable", True, "Whether members may renew locks (KIP-1222)."
    )
    assignment_interval_ms: Whole | None = key(
        "share.assignment.interval.ms", None, "Minimum time between two runs of the assignor.", ge=0
    )
    assignor: AssignorName | None = key(
        "share.assignor",
        None,
        "Assignor, which assigns topic-partitions to members (not in Kafka).",
        allowed="one of group.share.assignors",
    )
    consumer_group_offset_mirror: str = key(
        "share.consumer.group.offset.mirror",
        "",
        "Consumer group to which the start offsets are committed, for lag monitors (not in Kafka; experimental).",
    )


@dataclasses.dataclass(frozen=True)
class GroupConfig:
    """The effective values of one group. Times are in milliseconds."""

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
    def from_overrides(cls, job: ShareGroupConfig, overrides: GroupOverrides) -> Self:
        """Return the group's effective values: the values in `overrides`, and job-level values for all other keys."""
        merged: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            own = getattr(overrides, field.name, None)
            merged[field.name] = getattr(job, field.name) if own is None else own
        return cls(**merged)

    def lock_duration_ms(self, is_static: bool) -> int:
        """Return how long the locks of a member last, which is longer for static members if so configured."""
        if not is_static:
            return self.record_lock_duration_ms
        return max(self.record_lock_duration_ms, self.static_record_lock_duration_ms)

    def to_json(self) -> dict[str, object]:
        """Return a flat dict for `json.dumps`. `from_json` converts this dict back to an equal config."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        texts = {
            "auto_offset_reset": str(self.auto_offset_reset),
            "isolation_level": self.isolation_level.value,
        }
        return values | texts

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the config from a dict that `to_json` returned. Another version of this project may have written it.

        Names that this version does not know are ignored. Missing names get their defaults.
        """
        known = {field.name: values[field.name] for field in dataclasses.fields(cls) if field.name in values}
        if "auto_offset_reset" in known:
            known["auto_offset_reset"] = AutoOffsetReset.parse(known["auto_offset_reset"])
        if "isolation_level" in known:
            known["isolation_level"] = IsolationLevel(known["isolation_level"])
        return dataclasses.replace(cls.from_overrides(ShareGroupConfig(), GroupOverrides()), **known)
