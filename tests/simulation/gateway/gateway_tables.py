"""`gateway.stored_groups.StoredGroups` over the simulated tables, as far as simulated administrators use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.storage import GroupListing, ShareGroupDescription, SharePartitionOffset
from sharegroup.storage.schemas import SHARE_GROUP_CONFIGS, SHARE_GROUPS
from sharegroup.storage.writing.versioned_table import TableStoreError
from sharegroup.types import ConfigSource
from tests.simulation.job.simulated_tables import SimulatedTables


class SimulatedStoredGroups:
    """The data that gateways read from the tables, at their newest versions."""

    def __init__(self, tables: SimulatedTables) -> None:
        self._tables = tables
        self._configs: tuple[tuple[int, int], Mapping[str, dict[str, str]]] = ((0, -1), {})

    async def listings(self) -> tuple[GroupListing, ...]:
        """Return all groups with their states."""
        with _unavailable_tables():
            rows = self._tables.rows(SHARE_GROUPS)
        return tuple(GroupListing(row["group_id"], row["group_state"]) for row in rows if row["group_state"] != "Dead")

    async def describe(self, group_ids: Iterable[str]) -> dict[str, ShareGroupDescription]:
        """Unused in the simulation."""
        raise NotImplementedError

    async def offsets(self, group_ids: Iterable[str]) -> dict[str, tuple[SharePartitionOffset, ...]]:
        """Unused in the simulation."""
        raise NotImplementedError

    async def configs(self) -> dict[str, dict[str, str]]:
        """Return {group id: {config name: value as text}}, as set by requests."""
        with _unavailable_tables():
            version = self._tables.losses, self._tables.newest_version(SHARE_GROUP_CONFIGS)
            if self._configs[0] != version:
                self._configs = version, _set_by_requests(self._tables.rows(SHARE_GROUP_CONFIGS))
        return dict(self._configs[1])


@contextmanager
def _unavailable_tables() -> Iterator[None]:
    """Raise RequestError while a table cannot be read, as `StoredGroups` does."""
    try:
        yield
    except TableStoreError as error:
        raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error


def _set_by_requests(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    groups: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["config_source"] == ConfigSource.DYNAMIC_GROUP_CONFIG.value:
            groups.setdefault(row["group_id"], {})[row["config_name"]] = row["config_value"]
    return groups
