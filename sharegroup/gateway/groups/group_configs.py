"""The effective configs of each group, including the configs that requests have set."""

import asyncio
import contextlib
import logging

from sharegroup.config import Config, GroupConfig
from sharegroup.errors import RequestError
from sharegroup.gateway.groups.stored_groups import StoredGroups
from sharegroup.log_fields import LogFields

logger = logging.getLogger(__name__)

REFRESH_INTERVAL_S = 5.0
#: Maximum number of groups in the cache, because clients can send any group ids. A full cache is cleared.
MAX_KEPT = 10_000


class GroupConfigs:
    """The effective configs of all groups. Looking up a group needs no I/O.

    Configs that requests have set are stored in a table. `upkeep` reads the table regularly, so that changes by other
    gateways take effect too.
    """

    def __init__(self, config: Config, stored: StoredGroups) -> None:
        self._config, self._stored = config, stored
        self._set: dict[str, dict[str, str]] = {}
        self._in_force: dict[str, GroupConfig] = {}
        self._reading = asyncio.Lock()

    def group_config(self, group_id: str) -> GroupConfig:
        """Return the effective configs of a group.

        If they are not cached, a warning is logged for each value that is not valid.
        """
        found = self._in_force.get(group_id)
        if found is None:
            found, warnings = self._config.effective_group_config(group_id, self._set.get(group_id, {}))
            for warning in warnings:
                logger.warning("group %(group)s: %(error)s", LogFields(group=group_id, error=warning))
            if len(self._in_force) >= MAX_KEPT:
                self._in_force.clear()
            self._in_force[group_id] = found
        return found

    async def refresh(self) -> None:
        """Read the table of the configs that requests have set.

        If the table cannot be read, raises RequestError (COORDINATOR_NOT_AVAILABLE) and keeps the previous values.
        """
        async with self._reading:  # one at a time, so that an older result never replaces a newer one
            found = await self._stored.configs()
            if found != self._set:
                self._set = found
                self._in_force.clear()

    async def upkeep(self) -> None:
        """Call `refresh`. If it fails, keep the previous values. Must be called every `REFRESH_INTERVAL_S` seconds."""
        with contextlib.suppress(RequestError):  # `StoredGroups` logs it; the previous values stay in force
            await self.refresh()
