"""The groups' configs as the source has last read them."""

import functools
import json
from collections.abc import Collection, Mapping
from typing import Any

from sharegroup.config import GroupConfig, IsolationLevel
from sharegroup.config.keys.offset_reset import AutoOffsetReset
from sharegroup.storage.following.share_partition_row import SharePartitionRow
from sharegroup.types import LAST_ALTERED_MS

#: {group id: {config name: effective value}}; the key "" has the values of every group that is not listed.
Values = Mapping[str, Mapping[str, Any]]


class KnownConfigs:
    """The effective configs of all groups, as of the last call of `replace`."""

    def __init__(self) -> None:
        self._values: Values | None = None
        self._parsed: dict[str, GroupConfig] = {}

    @property
    def is_unread(self) -> bool:
        """Whether the configs were never read."""
        return self._values is None

    def is_current(self, values: Values) -> bool:
        """Return whether `values` equals the stored values.

        This is usually fast, because unchanged values are the same object.
        """
        return values is self._values or values == self._values

    def replace(self, values: Values, groups: Collection[str]) -> list[str]:
        """Replace the values; return those of `groups` whose config has changed, sorted. The first call returns all."""
        before, self._values = self._values, values
        if values is before:
            return []
        self._parsed = {}
        if before is None:
            return sorted(groups)
        of_job = before.get("") != values.get("")
        candidates = groups if of_job else [each for each in before.keys() | values.keys() if each in groups]
        return sorted(each for each in candidates if _of(before, each) != _of(values, each))

    def get(self, group_id: str) -> GroupConfig:
        """Return the group's effective config."""
        config = self._parsed.get(group_id)
        if config is None:
            config = self._parsed[group_id] = _parse(json.dumps(_of(self._values or {}, group_id), sort_keys=True))
        return config

    def last_altered_ms(self, group_id: str) -> int:
        """Return when a request last altered the group's configs, in ms; 0 if no request has altered them."""
        return int(_of(self._values or {}, group_id).get(LAST_ALTERED_MS, 0))

    def reads_committed(self, group_id: str) -> bool:
        """Return whether the group reads only up to the last stable offset (isolation level read_committed)."""
        return self.get(group_id).isolation_level is IsolationLevel.READ_COMMITTED

    def get_offset_reset(self, row: SharePartitionRow) -> AutoOffsetReset:
        """Return the offset reset strategy of a share-partition without a start offset.

        Its row may contain the strategy that was configured when the row was written. If so, the current config is
        ignored.
        """
        if row.auto_offset_reset is not None:
            return AutoOffsetReset.parse(row.auto_offset_reset)
        return self.get(row.key.group_id).auto_offset_reset


def _of(values: Values, group_id: str) -> Mapping[str, Any]:
    return values.get(group_id) or values.get("") or {}


@functools.lru_cache(maxsize=256)
def _parse(text: str) -> GroupConfig:
    return GroupConfig.from_json(json.loads(text))
