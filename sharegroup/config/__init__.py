"""Configuration: Kafka's dotted keys, each declared once with default, bounds and doc, read from one YAML file.

Sections of the file: `job` (EngineConfig), `group` (ShareGroupConfig, ShareCoordinatorConfig: Kafka's broker keys),
`groups` (GroupOverrides by group id: Kafka's GROUP keys), `gateway` (GatewayConfig). There are no
environment overrides.
"""

from sharegroup.config.engine import EngineConfig
from sharegroup.config.gateway import GatewayConfig
from sharegroup.config.group import GroupConfig, GroupOverrides, IsolationLevel
from sharegroup.config.job import EffectiveGroupConfig, JobConfig
from sharegroup.config.loading import check_group_overrides, load_config, parse_config
from sharegroup.config.offset_reset import AutoOffsetReset, OffsetResetStrategy
from sharegroup.config.reference import reference
from sharegroup.config.share_coordinator import ShareCoordinatorConfig
from sharegroup.config.share_group import ShareGroupConfig

__all__ = [
    "AutoOffsetReset",
    "EffectiveGroupConfig",
    "EngineConfig",
    "GatewayConfig",
    "GroupConfig",
    "GroupOverrides",
    "IsolationLevel",
    "JobConfig",
    "OffsetResetStrategy",
    "ShareCoordinatorConfig",
    "ShareGroupConfig",
    "check_group_overrides",
    "load_config",
    "parse_config",
    "reference",
]
