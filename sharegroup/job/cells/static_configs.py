"""Writes the configuration file's group configs to `share_group_configs`. Configs set by requests stay unchanged."""

from sharegroup.config import Config
from sharegroup.job.commit.commit_steps import CommitSteps
from sharegroup.job.commit.table_rows import DELETED
from sharegroup.storage.schemas import SHARE_GROUP_CONFIGS
from sharegroup.types import ConfigSource


def write_static_configs(steps: CommitSteps, config: Config, now_ms: int) -> None:
    """Replace the static configs in the table by those of the configuration file, at the time `now_ms`.

    The job must be the tables' leader.
    """
    source = ConfigSource.STATIC_BROKER_CONFIG.value
    wanted = {
        (group_id, name): {
            "group_id": group_id,
            "config_name": name,
            "config_value": value,
            "config_source": source,
        }
        for group_id, overrides in config.groups.items()
        if config.has_group(group_id)
        for name, value in overrides.set_texts().items()
    }
    known = {
        (row["group_id"], row["config_name"]): row
        for row in steps.current_rows(SHARE_GROUP_CONFIGS.name)
        if row["config_source"] == source
    }
    gone = [{**row, DELETED: True} for key, row in known.items() if key not in wanted]
    new = [row for key, row in wanted.items() if key not in known or known[key]["config_value"] != row["config_value"]]
    if gone or new:
        steps.put_rows(SHARE_GROUP_CONFIGS.name, [*gone, *new], now_ms)
