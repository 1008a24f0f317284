"""The configs that were set for single groups."""

from sharegroup.storage.rows import DeltaTables, StorageOptions
from sharegroup.storage.schemas import SHARE_GROUP_CONFIGS
from sharegroup.types import ConfigSource


def read_group_configs(
    tables: str | DeltaTables,
    source: ConfigSource = ConfigSource.DYNAMIC_GROUP_CONFIG,
    storage_options: StorageOptions = None,
) -> dict[str, dict[str, str]]:
    """Return {group id: {config name: value as text}} for the configs with the config source `source`.

    By default, these are the configs that requests have set. A group may have configs before it exists and after it was
    deleted. Values are returned as they were set; `Config.effective_group_config` computes effective values. Raises
    TableUnavailableError.
    """
    groups: dict[str, dict[str, str]] = {}
    for row in DeltaTables.from_path(tables, storage_options).rows(SHARE_GROUP_CONFIGS):
        if row["config_source"] == source.value:
            groups.setdefault(row["group_id"], {})[row["config_name"]] = row["config_value"]
    return groups
