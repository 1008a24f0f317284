"""The configs in force for each group, those that requests have set included, as the data path needs them."""

from __future__ import annotations

import asyncio
import logging

from sharegroup.config import Config, GroupConfig
from sharegroup.errors import RequestError
from sharegroup.gateway.groups.stored_groups import StoredGroups

logger = logging.getLogger(__name__)

REFRESH_INTERVAL_S = 5.0
#: Group ids come from clients, so what is remembered of them is bounded.
MAX_REMEMBERED = 10_000


class GroupConfigs:
    """`group_config` is a look-up; the table is read in the background. Another gateway's change is seen then."""

    def __init__(self, config: Config, stored: StoredGroups) -> None:
        self._config, self._stored = config, stored
        self._set: dict[str, dict[str, str]] = {}
        self._in_force: dict[str, GroupConfig] = {}
        self._reading = asyncio.Lock()

    def group_config(self, group_id: str) -> GroupConfig:
        """The values in force for a group."""
        found = self._in_force.get(group_id)
        if found is None:
            found, warnings = self._config.effective(group_id, self._set.get(group_id, {}))
            for warning in warnings:
                logger.warning("group %s: %s", group_id, warning)
            if len(self._in_force) >= MAX_REMEMBERED:
                self._in_force.clear()
            self._in_force[group_id] = found
        return found

    async def refresh(self) -> None:
        """Read the table. Raises RequestError (COORDINATOR_NOT_AVAILABLE); what was known stays."""
        async with self._reading:  # in order, so that an older reading never replaces a newer one
            found = await self._stored.configs()
            if found != self._set:
                self._set = found
                self._in_force.clear()

    async def upkeep(self) -> None:
        """Read the table if it can be read; to be called every `REFRESH_INTERVAL_S`."""
        try:
            await self.refresh()
        except RequestError as error:
            logger.warning("group configs stay as they were: %s", error.message)
