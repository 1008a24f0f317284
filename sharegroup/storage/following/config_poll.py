"""Keeps the groups' effective configs up to date with the table `share_group_configs` while a query runs."""

import logging
from collections.abc import Mapping
from typing import Any

from deltalake import DeltaTable

from sharegroup.config import Config, parse_config
from sharegroup.log_fields import LogFields
from sharegroup.storage.following.rows_by_file import DeltaFiles, RowsByFile, RowsChange, TableFiles
from sharegroup.storage.rows import open_table
from sharegroup.storage.schemas import SHARE_GROUP_CONFIGS
from sharegroup.types import LAST_ALTERED, LAST_ALTERED_MS, ConfigSource

logger = logging.getLogger(__name__)

#: How often the table is polled, in ms, for readers that accept values of this age.
POLL_MS = 500


def file_values(config: Config) -> dict[str, Any]:
    """Return the group configs of the configuration file, from which `ConfigPoll` computes effective configs.

    The result is a dict for JSON: {"group": configs of all groups, "groups": {group id: configs of this group}}.
    """
    groups = {group_id: overrides.set_texts() for group_id, overrides in config.groups.items()}
    return {"group": config.group.set_texts(), "groups": groups}


class ConfigPoll:
    """Computes the effective configs of groups from the configuration file and the table `share_group_configs`.

    `values` are the configs in the file, as `file_values` returns them.
    """

    def __init__(self, values: Mapping[str, Any], tables_path: str, options: Mapping[str, str]) -> None:
        self._job = parse_config(values, "the job's configuration")
        self._tables_path, self._options = tables_path, options
        self._table: DeltaTable | None = None
        self._version = -1
        self._polled_ms = 0
        self._rows = RowsByFile(SHARE_GROUP_CONFIGS)
        self._set: dict[str, dict[str, str]] = {}
        self._altered_ms: dict[str, int] = {}
        self._in_force: dict[str, dict[str, object]] = {}

    def in_force(self, now_ms: int, fresh: bool = False) -> dict[str, dict[str, object]]:
        """Return {group id: {config name: effective value}}. The key "" has the values of groups that are not listed.

        The values of a group include `LAST_ALTERED_MS` if a request has altered its configs. All values are at most
        `POLL_MS` old. With `fresh`, the newest version of the table is read first.
        """
        if fresh or not self._in_force or now_ms - self._polled_ms >= POLL_MS:
            self._polled_ms = now_ms
            version, files = self._newest()
            if version != self._version:
                self._apply(self._rows.update(files))
                self._version = version
        return self._in_force

    def _newest(self) -> tuple[int, TableFiles]:
        if self._table is None:
            self._table = open_table(self._tables_path, SHARE_GROUP_CONFIGS, self._options)
        else:
            self._table.update_incremental()
        return self._table.version(), DeltaFiles(self._table, SHARE_GROUP_CONFIGS, self._options)

    def _apply(self, change: RowsChange) -> None:
        """Apply changed rows. `_in_force` becomes a new dict, because callers may still use the previous dict."""
        changed = set() if self._in_force else {"", *self._job.groups}
        for row in filter(_is_set_by_request, change.removed.values()):
            self._set[row["group_id"]].pop(row["config_name"])
            changed.add(row["group_id"])
        for row in filter(_is_set_by_request, change.changed.values()):
            self._set.setdefault(row["group_id"], {})[row["config_name"]] = row["config_value"]
            changed.add(row["group_id"])
        for row in filter(_is_last_altered, change.removed.values()):
            self._altered_ms.pop(row["group_id"])
            changed.add(row["group_id"])
        for row in filter(_is_last_altered, change.changed.values()):
            self._altered_ms[row["group_id"]] = int(row["config_value"])
            changed.add(row["group_id"])
        in_force = self._in_force | {group_id: self._effective(group_id) for group_id in sorted(changed)}
        for group_id in changed:
            is_known = group_id in self._job.groups or group_id in self._altered_ms
            if group_id and not is_known and not self._set.get(group_id):
                del in_force[group_id]
                self._set.pop(group_id, None)
        self._in_force = dict(sorted(in_force.items()))

    def _effective(self, group_id: str) -> dict[str, object]:
        effective = self._job.effective_group_config(group_id, self._set.get(group_id, {}))
        for warning in effective.warnings:
            logger.warning("group %(group)s: %(error)s", LogFields(group=group_id, error=warning))
        last_altered_ms = self._altered_ms.get(group_id)
        return effective.config.to_json() | ({} if last_altered_ms is None else {LAST_ALTERED_MS: last_altered_ms})


def _is_last_altered(row: Mapping[str, Any]) -> bool:
    return bool(row["config_source"] == LAST_ALTERED)


def _is_set_by_request(row: Mapping[str, Any]) -> bool:
    return bool(row["config_source"] == ConfigSource.DYNAMIC_GROUP_CONFIG.value)
