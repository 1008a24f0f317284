"""The groups' configs in force, as the table `share_group_configs` changes beside a running query."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from deltalake import DeltaTable

from sharegroup.config import Config, parse_config
from sharegroup.tables.group_configs import read_group_configs
from sharegroup.tables.rows import open_table
from sharegroup.tables.schemas import SHARE_GROUP_CONFIGS

logger = logging.getLogger(__name__)

#: How often the table is looked at, for what may be a moment old.
POLL_MS = 500


def file_values(config: Config) -> dict[str, Any]:
    """What of the job's file the configs in force come from, as JSON; `ConfigPoll` reads it back."""
    groups = {group_id: overrides.set_texts() for group_id, overrides in config.groups.items()}
    return {"group": config.group.set_texts(), "groups": groups}


class ConfigPoll:
    """Reads the table when it has changed, and keeps what is in force. `values` is what `file_values` gave."""

    def __init__(self, values: Mapping[str, Any], tables_path: str, options: Mapping[str, str]) -> None:
        self._job = parse_config(values, "the job's configuration")
        self._tables_path, self._options = tables_path, options
        self._table: DeltaTable | None = None
        self._version = -1
        self._polled_ms = 0
        self._in_force: dict[str, dict[str, object]] = {}

    def in_force(self, now_ms: int, fresh: bool = False) -> dict[str, dict[str, object]]:
        """Each configured group's values in force, and "" for every other group's; at most `POLL_MS` old.

        `fresh`: as the table's newest version has them.
        """
        if fresh or not self._in_force or now_ms - self._polled_ms >= POLL_MS:
            self._polled_ms = now_ms
            version = self._newest_version()
            if version != self._version:
                self._in_force = self._read()
                self._version = version
        return self._in_force

    def _newest_version(self) -> int:
        if self._table is None:
            self._table = open_table(self._tables_path, SHARE_GROUP_CONFIGS, self._options)
        else:
            self._table.update_incremental()
        return self._table.version()

    def _read(self) -> dict[str, dict[str, object]]:
        stored = read_group_configs(self._tables_path, storage_options=self._options)
        configs = {"": self._job.group_config("").to_json()}
        for group_id in sorted({*self._job.groups, *stored}):
            effective = self._job.effective(group_id, stored.get(group_id, {}))
            configs[group_id] = effective.config.to_json()
            for warning in effective.warnings:
                logger.warning("group %s: %s", group_id, warning)
        return configs
