"""Configuration: one YAML file with Kafka's dotted keys, each declared once with default, bounds and description.

The file has these sections. Environment variables do not override its values.
- `job`: JobConfig
- `group`: ShareGroupConfig and ShareCoordinatorConfig, Kafka's broker keys
- `groups`: GroupOverrides for each group id, Kafka's GROUP keys
- `gateway`: GatewayConfig
- `cells`: CellsConfig
"""

from sharegroup.config.config_file import Config, EffectiveGroupConfig
from sharegroup.config.keys.cells import NO_CELL, CellsConfig
from sharegroup.config.keys.gateway import GatewayConfig
from sharegroup.config.keys.group import GroupConfig, GroupOverrides
from sharegroup.config.keys.job import JobConfig
from sharegroup.config.keys.offset_reset import AutoOffsetReset, OffsetResetStrategy
from sharegroup.config.keys.share_coordinator import ShareCoordinatorConfig
from sharegroup.config.keys.share_group import BUILT_IN_ASSIGNORS, IsolationLevel, ShareGroupConfig
from sharegroup.config.keys.storage_options import is_s3
from sharegroup.config.loading import check_group_overrides, load_config, parse_config
from sharegroup.config.reference import reference

__all__ = [
    "BUILT_IN_ASSIGNORS",
    "NO_CELL",
    "AutoOffsetReset",
    "CellsConfig",
    "Config",
    "EffectiveGroupConfig",
    "GatewayConfig",
    "GroupConfig",
    "GroupOverrides",
    "IsolationLevel",
    "JobConfig",
    "OffsetResetStrategy",
    "ShareCoordinatorConfig",
    "ShareGroupConfig",
    "check_group_overrides",
    "is_s3",
    "load_config",
    "parse_config",
    "reference",
]
