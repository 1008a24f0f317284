"""Groups as the tables have them, read beside the event loop: also while the job is down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from sharegroup.errors import ErrorCode, RequestError
from sharegroup.tables import (
    GroupListing,
    KeptTables,
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
    """What administrators ask for. Where no job has run yet there is nothing.

    Methods raise RequestError (COORDINATOR_NOT_AVAILABLE, which is retriable) when the tables cannot be read.
    """

    def __init__(self, tables_path: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._tables_path, self._tables = tables_path, KeptTables(tables_path, storage_options)
        self._is_missing = False

    async def listings(self) -> tuple[GroupListing, ...]:
        """All groups with their states, by id."""
        return await self._read(lambda: read_groups(self._tables), ())

    async def describe(self, group_ids: Iterable[str]) -> dict[str, ShareGroupDescription]:
        """Those of the named groups that exist."""
        wanted = set(group_ids)
        return await self._read(lambda: read_group_descriptions(self._tables, wanted), {})

    async def offsets(self, group_ids: Iterable[str]) -> dict[str, tuple[SharePartitionOffset, ...]]:
        """The groups' offsets by topic and partition, without groups that have none."""
        wanted = set(group_ids)
        return await self._read(lambda: read_offsets_by_group(self._tables, wanted), {})

    async def configs(self) -> dict[str, dict[str, str]]:
        """{group id: {config name: value as text}}: what requests have set."""
        return await self._read(lambda: read_group_configs(self._tables), {})

    async def _read(self, read: Callable[[], T], nothing: T) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(None, read)
        except TableMissingError:
            self._say_missing()
            return nothing
        except TableUnavailableError as error:
            logger.warning("%s", error)
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error

    def _say_missing(self) -> None:
        """Once: a job may not have run yet, or the gateway looks in the wrong place."""
        if not self._is_missing:
            self._is_missing = True
            logger.warning("there are no tables in %s: no job has run there yet", self._tables_path)
