"""The whole configuration of a job, and the values in force for one of its groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sharegroup.config.family import check_family
from sharegroup.config.gateway import GatewayConfig
from sharegroup.config.group import GroupConfig, GroupOverrides
from sharegroup.config.job import JobConfig
from sharegroup.config.rules import clamp
from sharegroup.config.share_coordinator import ShareCoordinatorConfig
from sharegroup.config.share_group import ShareGroupConfig

__all__ = ["Config", "EffectiveGroupConfig"]


class EffectiveGroupConfig(NamedTuple):
    """A group's values in force, with one sentence for each stored value that could not be used as it is."""

    config: GroupConfig
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Config:
    """What `load_config` returns; `Config()` is Kafka's defaults.

    `group` and `coordinator` are the section `group` of the file (group.share.* and share.coordinator.*).
    """

    job: JobConfig = field(default_factory=JobConfig)
    group: ShareGroupConfig = field(default_factory=ShareGroupConfig)
    coordinator: ShareCoordinatorConfig = field(default_factory=ShareCoordinatorConfig)
    groups: Mapping[str, GroupOverrides] = field(default_factory=dict)
    gateway: GatewayConfig = field(default_factory=GatewayConfig)

    def group_config(self, group_id: str) -> GroupConfig:
        """The values in force for a group by the file alone."""
        return GroupConfig.of(self.group, self._overrides(group_id))

    def effective(self, group_id: str, stored: Mapping[str, object]) -> EffectiveGroupConfig:
        """The values in force when `stored` (dotted name -> value or its text, from a table) goes before the file.

        Never raises: the values are there already, and a group must not stop for them. What is unknown or wrong is
        ignored, what is outside the job's min and max is clamped (KIP-1240); each is told in `warnings`.
        """
        unknown = [name for name in stored if name not in GroupOverrides.config_keys()]
        known = {name: value for name, value in stored.items() if name not in unknown}
        checked = check_family(GroupOverrides, known)
        clamped = clamp(self._overrides(group_id).set_values() | checked.family.set_values(), self.group)
        warnings = [f"Unknown group config name: {name}" for name in unknown]
        config = GroupConfig.of(self.group, GroupOverrides.model_validate(clamped.values))
        return EffectiveGroupConfig(config, (*warnings, *checked.problems, *clamped.warnings))

    def _overrides(self, group_id: str) -> GroupOverrides:
        return self.groups.get(group_id) or GroupOverrides()
