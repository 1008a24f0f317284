"""Reads groups from the job's tables, on threads outside the event loop. This works even while the job is down."""

import asyncio
import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.gateway.groups.open_outcomes import OpenLeaves
from sharegroup.kafka_clients.outage_log import OutageLogs
from sharegroup.log_fields import LogFields
from sharegroup.storage import (
    CachedTables,
    GroupListing,
    ShareGroupDescription,
    SharePartitionOffset,
    TableMissingError,
    TableUnavailableError,
    read_group_configs,
    read_group_descriptions,
    read_groups,
    read_offsets_by_group,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")


class StoredGroups:
    """The groups in the tables of all cells. Each method reads the tables. If no job has run yet, there are no groups.

    A cell is one of several jobs that run side by side. `paths` is {cell: `tables.path`}. `cell_of` returns a group's
    cell. `leaves` are requests to leave a group that the job has not processed yet. `listings` and `describe` wait for
    them. All methods raise RequestError (COORDINATOR_NOT_AVAILABLE, retriable) if the tables cannot be read.
    """

    def __init__(
        self,
        paths: Mapping[str, str],
        cell_of: Callable[[str], str],
        storage_options: Mapping[str, str] | None = None,
        leaves: OpenLeaves | None = None,
    ) -> None:
        self._leaves = leaves or OpenLeaves()
        self._paths, self._cell_of = paths, cell_of
        self._tables = {cell: CachedTables(path, storage_options) for cell, path in paths.items()}
        self._missing: set[str] = set()
        self._outages = OutageLogs(
            logger, "failed to read the tables in %(file)s", "the tables in %(file)s can be read again"
        )

    async def listings(self) -> tuple[GroupListing, ...]:
        """Return all groups with their states, sorted by id."""
        await self._leaves.wait()
        found = await asyncio.gather(*(self._listings(cell) for cell in self._tables))
        return tuple(sorted(listing for listings in found for listing in listings))

    async def describe(self, group_ids: Iterable[str]) -> dict[str, ShareGroupDescription]:
        """Return {group id: description}. Groups that do not exist are left out."""
        named = list(group_ids)
        await self._leaves.wait(named)
        return await self._of_cells(named, read_group_descriptions)

    async def offsets(self, group_ids: Iterable[str]) -> dict[str, tuple[SharePartitionOffset, ...]]:
        """Return {group id: offsets, ordered by topic and partition}. Groups without offsets are left out."""
        return await self._of_cells(group_ids, read_offsets_by_group)

    async def configs(self) -> dict[str, dict[str, str]]:
        """Return the configs that requests have set, as {group id: {config name: value as text}}."""
        configs: dict[str, dict[str, str]] = {}
        for cell, tables in self._tables.items():
            empty: dict[str, dict[str, str]] = {}
            found = await self._read(cell, functools.partial(read_group_configs, tables), empty)
            configs |= {group_id: values for group_id, values in found.items() if self._cell_of(group_id) == cell}
        return configs

    async def _listings(self, cell: str) -> list[GroupListing]:
        """Return the groups of a cell.

        A group that is moving to another cell may be stored in both cells. Only the result for the new cell contains
        the group.
        """
        empty: tuple[GroupListing, ...] = ()
        listings = await self._read(cell, functools.partial(read_groups, self._tables[cell]), empty)
        return [listing for listing in listings if self._cell_of(listing.group_id) == cell]

    async def _of_cells(
        self, group_ids: Iterable[str], read: Callable[[CachedTables, set[str]], dict[str, T]]
    ) -> dict[str, T]:
        wanted: dict[str, set[str]] = {}
        for group_id in group_ids:
            wanted.setdefault(self._cell_of(group_id), set()).add(group_id)
        found: dict[str, T] = {}
        for cell, of_cell in wanted.items():
            empty: dict[str, T] = {}
            found |= await self._read(cell, functools.partial(read, self._tables[cell], of_cell), empty)
        return found

    async def _read(self, cell: str, read: Callable[[], T], empty: T) -> T:
        try:
            found = await asyncio.get_running_loop().run_in_executor(None, read)
        except TableMissingError:
            self._log_missing(cell)
            return empty
        except TableUnavailableError as error:
            self._outages.report_failure(cell, error, LogFields(file=self._paths[cell]))
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        self._outages.report_success(cell)
        return found

    def _log_missing(self, cell: str) -> None:
        """Log once per cell that it has no tables."""
        if cell not in self._missing:
            self._missing.add(cell)
            logger.warning(
                "there are no tables in %(file)s: no job has run yet, or tables.path is wrong",
                LogFields(file=self._paths[cell]),
            )
